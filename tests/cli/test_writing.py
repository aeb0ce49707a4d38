"""The author's commands: a project that works as made, a file on trial or behind the hub, documents of its tools."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from interlock.signatures import Validator
from waiting import block_until

from .conftest import SOURCE, User
from .fake_hub import FakeHub

EXAMPLE = SOURCE.parent / "examples" / "financial_analyzer.py"
WITH_SOURCE = ("-e", f"PYTHONPATH={SOURCE}")


def made(user: User, name: str = "weather-map") -> Path:
    assert user.run("new", name).exit_code == 0
    return user.folder / name


def test_a_new_project_passes_its_own_tests(user: User) -> None:
    project = made(user)
    sources = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["uv"]["sources"]
    assert Path(sources["interlock"]["path"], "pyproject.toml").exists(), "uv finds it in the checkout"
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=user.environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout
    assert "2 passed" in tests.stdout


def test_a_new_project_is_clean_by_the_type_checker_and_the_linter(user: User) -> None:
    project = made(user)
    for tool in (
        ["mypy", "--strict", "--cache-dir=/dev/null", "."],
        ["ruff", "check", "--isolated", "--select", "E,F,I,UP,B", "--line-length=120"],
    ):
        command = [sys.executable, "-m", *tool]
        checked = subprocess.run(
            command,
            cwd=project,
            env=user.environ,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", ["9lives", "Weather", "a b", "../out", "", "json", "class", "interlock", "asyncio"])
def test_a_bad_name_makes_nothing(user: User, name: str) -> None:
    assert user.run("new", name).exit_code == 2
    assert not list(user.folder.iterdir())


def test_a_project_is_never_written_over(user: User) -> None:
    project = made(user)
    (project / "weather_map.py").write_text("mine")
    assert user.run("new", "weather-map").exit_code == 2
    assert (project / "weather_map.py").read_text() == "mine"


def test_a_file_is_added_once_it_has_shown_that_it_starts(user: User) -> None:
    made(user)
    result = user.run("add", "./weather-map/weather_map.py", *WITH_SOURCE, "--json")
    outcome = json.loads(result.output)
    assert (outcome["added"], outcome["tools"]) == (["weather_map"], ["count"])
    written = user.config.read_text()
    assert f'command = ["{sys.executable}", "{user.folder}/weather-map/weather_map.py"]' in written


def test_a_file_can_be_added_under_another_name(user: User) -> None:
    made(user)
    assert user.run("add", "words", "./weather-map/weather_map.py", *WITH_SOURCE).exit_code == 0
    assert "[servers.words]" in user.config.read_text()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise RuntimeError('no database')", "no database"),
        ("import interlock", "server.run()"),
        ("def f(:", "SyntaxError"),
        (
            "from interlock import Server\nserver = Server('x')\n@server.tool\ndef f(a: 'Nope'): ...",
            "parameter 'a' has an annotation that cannot be read",
        ),
    ],
)
def test_a_file_that_does_not_start_is_not_added_and_says_why(user: User, text: str, told: str) -> None:
    (user.folder / "bad.py").write_text(text)
    result = user.run("add", "./bad.py", *WITH_SOURCE)
    assert result.exit_code == 1
    assert told in result.stderr
    assert "bad.py" in result.stderr
    assert not user.config.exists()


@pytest.mark.parametrize("words", [["nothing"], ["./missing.py"]])
def test_adding_something_that_is_not_there_is_wrong_usage(user: User, words: list[str]) -> None:
    assert user.run("add", *words).exit_code == 2


def test_a_catalog_of_a_file_has_examples_that_validate(user: User) -> None:
    catalog = json.loads(user.run("export", "catalog", str(EXAMPLE)).output)
    assert catalog["version"] == "1.0.0"
    assert catalog["generated_at"].endswith("+00:00")
    by_name = {tool["name"]: tool for tool in catalog["tools"]}
    assert by_name["FinancialAnalyzer"]["examples"][0] == {"ticker_symbol": "AAPL", "period_days": 90}
    for tool in catalog["tools"]:
        assert tool["examples"]
        assert all(Validator(tool["inputSchema"]).is_valid(example) for example in tool["examples"])
    assert all(example["first"] != example["second"] for example in by_name["compare"]["examples"])


def test_an_export_to_a_file_says_how_many_tools_are_in_it(user: User, hub: FakeHub) -> None:
    result = user.run("export", "catalog", "-o", "tools.json")
    assert result.output == "Wrote 1 tool to tools.json.\n"
    assert len(json.loads((user.folder / "tools.json").read_text())["tools"]) == 1


def test_openapi_and_schema_of_a_file(user: User) -> None:
    assert user.run("export", "openapi", str(EXAMPLE), "-o", "openapi.json").exit_code == 0
    document = json.loads((user.folder / "openapi.json").read_text())
    assert "/tools/FinancialAnalyzer" in document["paths"]
    (schema,) = json.loads(user.run("export", "schema", str(EXAMPLE), "--tool", "quote").output)
    assert (schema["name"], schema["metadata"]["deprecated"]) == ("quote", True)
    assert user.run("export", "schema", str(EXAMPLE), "--tool", "none").exit_code == 1
    assert user.run("export", "schema", "none.py").exit_code == 2


def test_a_file_that_serves_without_asking_whether_it_is_the_program_is_exported_too(user: User) -> None:
    (user.folder / "plain.py").write_text("from interlock import Server\nserver = Server('plain')\nserver.run()\n")
    result = user.run("export", "catalog", "./plain.py")
    assert (result.exit_code, json.loads(result.stdout)["tools"]) == (0, [])


def test_a_file_that_cannot_be_exported_is_told_with_its_line(user: User) -> None:
    (user.folder / "bad.py").write_text("x = 1\nraise RuntimeError('no')\n")
    result = user.run("export", "catalog", "bad.py")
    assert result.exit_code == 1
    assert f"{user.folder}/bad.py:2: RuntimeError: no" in result.stderr
    (user.folder / "empty.py").write_text("")
    assert "creates no server" in user.run("export", "catalog", "empty.py").stderr


@pytest.mark.slow
def test_the_tools_of_a_running_hub_are_exported_under_their_exposed_names(user: User) -> None:
    command = json.dumps([sys.executable, str(EXAMPLE)])
    user.configure(f'[servers.fin]\ncommand = {command}\nenv = {{ PYTHONPATH = "{SOURCE}" }}\n')
    user.start_hub()
    tools = block_until(lambda: json.loads(user.run("export", "catalog").output)["tools"])
    by_name: dict[str, Any] = {tool["name"]: tool for tool in tools}
    assert by_name["fin__FinancialAnalyzer"]["category"] == "finance"
    assert "outputSchema" in by_name["fin__compare"]
    assert by_name["fin__quote"]["deprecated"] == "use FinancialAnalyzer"
    analyzer = by_name["fin__FinancialAnalyzer"]
    assert analyzer["security"] == {"risk_level": "safe"}
    assert analyzer["examples"][0] == {"ticker_symbol": "AAPL", "period_days": 90}


class DevProcess:
    """A running `interlock dev`, heard line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._rest = b""

    def hear(self, event: str) -> Any:
        """The next thing told of that kind."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + 120
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                told = json.loads(line)
                if told["event"] == event:
                    return told
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {event!r} was told"
            more = os.read(self.process.stdout.fileno(), 65_536)
            assert more, "it ended"
            self._rest += more


@pytest.mark.slow
def test_a_file_on_trial_is_started_again_after_each_change_and_each_call_is_shown(user: User) -> None:
    project = made(user)
    file = project / "weather_map.py"
    with user.process("dev", str(file), "--port", "0", "--json") as process:
        trial = DevProcess(process)
        try:
            address = trial.hear("listening")["text"]
            assert trial.hear("ready")["text"] == "count"
            answer = post(f"{address}/tools/weather_map__count", {"text": "one two"})
            assert answer["structuredContent"]["words"] == 2
            call = trial.hear("call")["call"]
            assert (call["method"], call["name"], call["failed"]) == ("tools/call", "weather_map__count", False)
            assert json.loads(call["params"])["arguments"] == {"text": "one two"}
            good = file.read_text()
            file.write_text(good.replace("Count the words", "Count all words"))
            assert trial.hear("changed")["text"] == "weather_map.py"
            assert trial.hear("ready")["text"] == "count", "its author need not approve a change"
            assert post(f"{address}/tools/weather_map__count", {"text": "one"})["structuredContent"]["words"] == 1
            file.write_text("syntax error")
            assert trial.hear("changed")["text"] == "weather_map.py"
            assert trial.hear("broken")["text"].startswith("SyntaxError: ")
            file.write_text(good.replace("text: Annotated[str,", "text: Annotated[Strung,"))
            told = trial.hear("broken")["text"]
            assert told.startswith(f"{file}:")
            assert told.endswith("parameter 'text' has an annotation that cannot be read: name 'Strung' is not defined")
            file.write_text(good.replace("async def count(", "async def counted("))
            assert trial.hear("ready")["text"] == "counted"
            assert post(f"{address}/tools/weather_map__counted", {"text": "x"})["structuredContent"]["words"] == 1
        finally:
            process.terminate()
            process.communicate(timeout=120)


def post(url: str, arguments: dict[str, Any]) -> Any:
    body = json.dumps(arguments).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())
