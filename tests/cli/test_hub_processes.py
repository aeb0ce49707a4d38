"""`up`, `down` and `stdio` as processes: one hub for each user, whoever comes first."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from interlock.cli.hub_link import HubLink
from interlock.cli.starting import is_running

from .conftest import User
from .fake_hub import FakeHub

BROKEN = "[hub]\nmode = 'gard'\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_up_in_the_background_returns_when_the_hub_answers_and_down_stops_it(user: User) -> None:
    code, out, err = user.finished("up", "-d")
    assert (code, err) == (0, "")
    assert "demo" in out
    assert is_running(user.home)
    assert (user.home / "run" / "hub.log").stat().st_mode & 0o777 == 0o600
    assert user.run("down").exit_code == 0
    assert not is_running(user.home)


def test_a_second_up_finds_the_first(user: User) -> None:
    user.finished("up", "-d")
    code, out, _ = user.finished("up", "-d", "--json")
    assert code == 0
    assert json.loads(out)["already"] is True
    assert len(user.starts()) == 1


def test_up_in_the_foreground_says_where_it_listens_and_ends_with_the_hub(user: User) -> None:
    with user.process("up") as process:
        assert process.stdout is not None
        assert b"http://127.0.0.1:7420/mcp" in process.stdout.readline()
        assert b"Nothing is configured yet" in process.stdout.readline()
        with HubLink.open(user.home) as link:
            link.ask("hub/stop")
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", [["up"], ["up", "-d"], ["up", "--json"]])
def test_a_wrong_configuration_starts_nothing_and_names_file_and_line(user: User, arguments: list[str]) -> None:
    write(user.config, BROKEN)
    code, _, err = user.finished(*arguments)
    assert code == 3
    assert f"{user.config}:2" in err
    assert "must be one of" in err
    assert not is_running(user.home)


def test_up_uses_the_configuration_it_is_given(user: User) -> None:
    given = write(user.folder / "mine.toml", '[servers.mine]\nurl = "https://h/"')
    user.finished("up", "-d", "--config", "mine.toml")
    assert given.exists()
    assert user.starts()[0].endswith(" mine")


def test_without_a_terminal_a_project_file_is_shown_and_not_started(user: User) -> None:
    write(user.folder / ".mcp.json", '{"mcpServers": {"cloned": {"command": "npx", "args": ["evil\\u001b[2K"]}}}')
    code, _, err = user.finished("up", "-d")
    assert code == 0
    assert "npx" in err
    assert "\x1b" not in err
    assert "nobody has confirmed this file" in err
    assert "cloned" not in user.starts()[0]


def test_stdio_starts_a_hub_and_loses_no_byte(user: User) -> None:
    sent = os.urandom(3_000_000)
    code, out, err = 0, b"", b""
    with user.process("stdio") as process:
        out, err = process.communicate(sent, timeout=60)
        code = process.returncode
    assert (code, err) == (0, b"")
    assert out == b"early bytes\n" + sent


def test_a_hub_that_stdio_starts_knows_nothing_of_the_folder(user: User) -> None:
    write(user.folder / "interlock.toml", "[servers.cloned]\ncommand = ['x']")
    user.finished("stdio")
    _, folder, servers = user.starts()[0].split()
    assert Path(folder) == user.home
    assert servers == "demo"


def test_three_clients_at_once_share_one_hub(user: User) -> None:
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(user.finished("stdio", stdin=b"hi")[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]
    assert len(user.starts()) == 1


def test_stdio_ends_when_the_hub_closes(user: User, hub: FakeHub) -> None:
    hub.hangs_up = True
    with user.process("stdio") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"early bytes\n"
        assert process.wait(30) == 0


def test_stdio_hands_over_key_view_and_folder(user: User, hub: FakeHub) -> None:
    user.environ["INTERLOCK_KEY"] = "ilk_mine"
    user.finished("stdio", "--profile", "work")
    hello = hub.params_of("interlock/hello")[-1]
    assert hello == {"role": "stdio", "key": "ilk_mine", "view": "/profiles/work/mcp", "cwd": str(user.folder)}


def test_stdio_with_a_wrong_key_is_refused_and_prints_nothing(user: User, hub: FakeHub) -> None:
    code, out, err = user.finished("stdio", "--key", "ilk_wrong")
    assert (code, out) == (5, "")
    assert "this key is unknown" in err
    assert "→ connect again" in err


def test_stdio_survives_a_hub_that_cannot_start(user: User) -> None:
    write(user.config, BROKEN)
    code, out, err = user.finished("stdio")
    assert (code, out) == (3, "")
    assert "hub.log" in err


def test_a_hub_killed_hard_is_replaced_by_the_next_start(user: User) -> None:
    user.finished("up", "-d")
    with HubLink.open(user.home) as link:
        os.kill(int(link.hello["pid"]), signal.SIGKILL)
        assert link.wait_closed(10)
    assert user.finished("up", "-d")[0] == 0
    assert len(user.starts()) == 2


def test_the_demonstration_runs_a_hub_of_its_own_and_leaves_nothing(user: User) -> None:
    code, out, err = user.finished("demo")
    assert (code, err) == (0, "")
    assert "interlock call demo__add" in out
    assert not user.home.exists()
