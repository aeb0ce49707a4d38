"""Properties of every command: help with an example, speed, JSON, hints, exit codes."""

from __future__ import annotations

import shlex
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest

import forking
from cases import each_case
from interlock.cli.app import SECTIONS, app

from .conftest import SOURCE, User
from .fake_hub import FakeHub

NAMES = [name for section in SECTIONS.values() for name in section]
HEAVY = ("asyncio", "msgspec", "numpy", "tomlkit", "tomllib", "uvicorn", "starlette", "interlock.config")


def command(name: str) -> click.Command:
    found = app.get_command(click.Context(app), name)
    assert found is not None
    return found


@each_case("name", NAMES)
def test_the_overview_says_of_a_command_what_it_says_itself(name: str) -> None:
    summary = next(section[name].summary for section in SECTIONS.values() if name in section)
    assert str(command(name).help).splitlines()[0] == summary


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_every_command_has_an_example(name: str, user: User) -> None:
    result = user.run(name, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"interlock {name}" in result.output.split("Example")[1]


@each_case("name", [name for name in NAMES if name not in ("stdio", "completion", "hook")])
def test_every_command_that_answers_can_answer_in_json(name: str) -> None:
    found = command(name)
    answering = list(found.commands.values()) if isinstance(found, click.Group) else [found]
    for each in answering:
        assert any("--json" in parameter.opts for parameter in each.params), each.name


@each_case("arguments", [["--help"], ["status", "--help"], ["up", "--help"], ["connect", "--help"], ["call", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    printed, loaded = run_and_list_modules(arguments, HEAVY)
    assert printed
    assert loaded == ""


def test_the_hook_of_a_client_loads_no_reader_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    said = b'{"hook_event_name": "UserPromptSubmit", "prompt": "hello"}'
    _, loaded = run_and_list_modules(
        ["hook", "claude-code"], ("interlock.config.load", "interlock.config.sections", "uvicorn"), said
    )
    assert loaded == ""


def run_and_list_modules(arguments: list[str], names: tuple[str, ...], said: bytes = b"") -> tuple[bytes, str]:
    """Run a command in a process of its own: its output, and which of these modules it loaded."""
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(SOURCE)!r})\n"
        f"sys.argv = ['interlock', *{arguments!r}]\n"
        "from interlock.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.exit(','.join(name for name in {names!r} if name in sys.modules))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=said, capture_output=True, timeout=120, check=False)
    return done.stdout, done.stderr.decode().strip()


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(user: User) -> None:
    result = user.run("statsu")
    assert result.exit_code == 2
    assert "Did you mean `interlock status`?" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("list",),
        ("logs",),
        ("call", "x"),
        ("keys", "list"),
        ("keys", "create", "a"),
        ("keys", "revoke", "a"),
    ],
)
def test_without_a_hub_a_command_says_how_to_start_one(user: User, arguments: tuple[str, ...]) -> None:
    result = user.run(*arguments)
    assert result.exit_code == 4
    assert "no hub is running" in result.stderr
    assert "interlock up" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(user: User, shell: str) -> None:
    result = user.run("completion", shell)
    assert result.exit_code == 0
    assert "_INTERLOCK_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("interlock st", ["status", "start", "stop", "stdio"]),
        ("interlock call demo__", ["demo__add"]),
        ("interlock call x", []),
        ("interlock logs d", ["demo", "db"]),
        ("interlock remove de", ["demo"]),
        ("interlock list --server ", ["demo", "db"]),
    ],
)
def test_a_shell_completes_commands_and_names(user: User, hub: FakeHub, words: str, completed: list[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    program = user.root / "interlock"
    line = shlex.join(forking.command("-m", "interlock.cli"))
    program.write_text(f'#!{bash}\nexec {line} "$@"\n')
    program.chmod(0o755)
    script = """
    source <(interlock completion bash)
    read -ra COMP_WORDS <<< "$1"; [[ "$1" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _interlock_completion interlock; echo "${COMPREPLY[@]}"
    """
    environ = {**user.environ, "PATH": f"{user.root}:{user.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script, "bash", words], env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_without_a_hub_no_names_are_completed(user: User) -> None:
    environ = {
        **user.environ,
        "_INTERLOCK_COMPLETE": "bash_complete",
        "COMP_WORDS": "interlock call ",
        "COMP_CWORD": "2",
    }
    line = [sys.executable, "-P", "-m", "interlock.cli"]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_interrupting_ends_with_130(user: User) -> None:
    path = user.home / "run" / "hub.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        # Where tests run in the background interrupts are ignored, and children inherit that.
        heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with user.process("status", preexec_fn=heeding) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=120)
    assert process.returncode == 130
