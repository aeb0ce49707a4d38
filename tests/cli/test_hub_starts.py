"""`interlock up` as a process: what it says, what it needs, and whose configuration it takes."""

from __future__ import annotations

import hashlib
import socket

import pytest

from interlock.cli.control.starting import is_running
from interlock.config.confirmations import Confirmations
from interlock.store.connect import connect
from interlock.store.schema import bring_up, steps
from waiting import block_until

from .conftest import User
from .hub_processes import BROKEN, write


def test_up_in_the_background_returns_when_the_hub_answers_and_down_stops_it(user: User) -> None:
    user.configure()
    code, out, err = user.finished("up", "-d")
    assert (code, err) == (0, "")
    assert "demonstration server" in out, "nothing is configured"
    assert f"the hub looks for {user.config}\n" in out
    assert is_running(user.home)
    assert (user.home / "run" / "hub.log").stat().st_mode & 0o777 == 0o600
    assert user.run("down").exit_code == 0
    assert not is_running(user.home)
    again = user.run("down")
    assert (again.exit_code, again.stderr) == (4, "interlock: no hub is running\n")


@pytest.mark.parametrize("arguments", [["up"], ["up", "-d"], ["up", "--json"]])
def test_a_wrong_configuration_starts_nothing_and_names_file_and_line(user: User, arguments: list[str]) -> None:
    write(user.config, BROKEN)
    code, _, err = user.finished(*arguments)
    assert code == 3
    assert f"{user.config}:2" in err
    assert "must be one of" in err
    assert not is_running(user.home)


def test_up_uses_the_configuration_it_is_given(user: User) -> None:
    mine = '[hub]\nlisten = "127.0.0.1:0"\n[servers.mine]\nurl = "http://127.0.0.1:9/"\n'
    write(user.folder / "mine.toml", mine)
    user.finished("up", "-d", "--config", "mine.toml")
    assert user.servers() == ["mine"]


def test_without_a_terminal_a_project_file_is_shown_and_not_started(user: User) -> None:
    user.configure()
    write(user.folder / ".mcp.json", '{"mcpServers": {"cloned": {"command": "npx", "args": ["evil\\u001b[2K"]}}}')
    code, _, err = user.finished("up", "-d")
    assert code == 0
    assert "npx" in err
    assert "\x1b" not in err
    assert "in a terminal to confirm this file" in err
    assert "cloned" not in user.servers()


def test_a_project_file_that_nobody_confirmed_is_named_in_the_status(user: User) -> None:
    user.configure()
    file = user.folder / ".mcp.json"
    file.write_text('{"mcpServers": {"here": {"command": "npx"}}}')
    Confirmations(user.home).add(file, hashlib.sha256(file.read_bytes()).hexdigest())
    user.start_hub()
    assert user.servers() == ["here"]
    assert "confirmed" not in user.run("status").output
    file.write_text('{"mcpServers": {"other": {"command": "npx"}}}')
    said = block_until(lambda: status if "confirmed" in (status := user.run("status").output) else "")
    assert f"{file}: nobody has confirmed this project file" in said
    assert f"run `interlock up` in {user.folder}" in said
    block_until(lambda: user.servers() == [])  # The file is named before its servers have ended.


def test_a_project_file_that_waits_at_the_start_is_named_in_the_status(user: User) -> None:
    user.configure()
    (user.folder / ".mcp.json").write_text('{"mcpServers": {"here": {"command": "npx"}}}')
    user.start_hub()
    block_until(lambda: "nobody has confirmed this project file" in user.run("status").output)


@pytest.mark.parametrize("arguments", [["up"], ["up", "-d"]])
def test_a_hub_whose_address_is_taken_says_so_and_how_to_fix_it(user: User, arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        warned = '[servers.a]\ncommand = ["python3"]\nenv = { A = "${NOT_SET_HERE}" }\n'
        write(user.config, f'[hub]\nlisten = "127.0.0.1:{port}"\n{warned}')
        code, _, err = user.finished(*arguments)
    assert code == 1
    assert f"the hub cannot listen on 127.0.0.1:{port}: Address already in use\n" in err
    assert "set another `listen` in [hub]" in err
    assert err.count("`NOT_SET_HERE`, which is not set") == 1, "the starter and the hub do not both say it"
    assert "Traceback" not in err


def test_a_hub_that_cannot_make_its_socket_says_so_and_leaves_nothing(user: User) -> None:
    user.configure()
    (user.home / "run" / "hub.sock").mkdir(parents=True)
    code, _, err = user.finished("up")
    assert code == 1
    assert err.startswith("interlock: the hub cannot start: ")
    assert "hub.sock: Is a directory" in err
    assert "Traceback" not in err


def test_a_hub_whose_store_is_not_there_says_so_and_how_to_fix_it(user: User) -> None:
    write(user.config, '[hub]\nlisten = "127.0.0.1:0"\nstore = "postgresql://nobody@127.0.0.1:1/nothing"\n')
    code, _, err = user.finished("up")
    assert code == 1
    assert "the hub cannot start" in err
    assert "→" in err
    assert "Traceback" not in err


def test_the_demonstration_runs_a_hub_of_its_own_and_leaves_nothing(user: User) -> None:
    code, out, err = user.finished("demo")
    assert (code, err) == (0, "")
    assert "interlock call demo__" in out
    assert not user.home.exists()


def test_up_says_that_it_upgraded_the_store_and_where_the_backup_is(user: User) -> None:
    user.configure()
    user.home.mkdir(mode=0o700)
    database = connect(str(user.home / "hub.db"))
    bring_up(database, lambda _: None, steps()[:1])
    database.close()
    _, out, _ = user.finished("up", "-d")
    try:
        (backup,) = (user.home / "backups").iterdir()
        said = f"upgraded from schema 1 to {len(steps())}; backup in {backup}"
        assert said in out
        assert said in user.finished("logs", "hub")[1]
        assert said not in user.finished("up", "-d")[1], "a hub that runs already upgraded nothing now"
    finally:
        assert user.run("down").exit_code == 0
    assert "upgraded" not in user.finished("up", "-d")[1]
    assert user.run("down").exit_code == 0
