"""The terminal at a hub that runs, and changes of its configuration. The tests share one hub."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.control.hub_link import HubLink
from waiting import block_until

from .conftest import User, new_user
from .hub_processes import ready, write


@pytest.fixture(scope="module")
def starter() -> Iterator[User]:
    """A user who has started a hub, from a shell with a key and a mark that are not the hub's."""
    with pytest.MonkeyPatch.context() as patch, new_user(patch) as user:
        user.configure()
        own = dict(user.environ)
        user.environ |= {"INTERLOCK_KEY": "ilk_mine", "INTERLOCK_MARK": "0" * 32}
        assert user.finished("up", "-d")[0] == 0
        user.environ = own
        yield user


@pytest.fixture
def user(starter: User) -> Iterator[User]:
    """The same user again, with the configuration of the beginning in force."""
    yield starter
    starter.configure()
    block_until(lambda: starter.servers() == ["demo"])


def test_a_hub_has_nothing_of_whoever_started_it(user: User) -> None:
    pid = json.loads((user.home / "run" / "hub.json").read_text())["pid"]
    environ = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"INTERLOCK_HOME=" in environ
    assert b"INTERLOCK_KEY=" not in environ
    assert b"INTERLOCK_MARK=" not in environ


def test_a_second_up_finds_the_first(user: User) -> None:
    code, out, _ = user.finished("up", "-d", "--json")
    assert code == 0
    assert json.loads(out)["already"] is True
    assert user.starts() == 1


def test_the_terminal_sees_calls_and_changes_a_running_hub(user: User) -> None:
    ready(user)
    assert "demo__convert" in user.finished("list")[1]
    code, out, _ = user.finished("call", "demo__convert", "value=1", "source=km", "target=m", "--json")
    assert code == 0
    assert "1000" in json.loads(out)["content"][0]["text"]
    code, _, err = user.finished("call", "demo__nothing")
    assert code == 2
    assert "Unknown tool" in err
    assert user.finished("call", "demo__convrt")[2].count("did you mean `demo__convert`?") == 1
    script = write(user.folder / "other.py", "import sys; sys.stderr.write('hello from stderr\\n'); sys.stdin.read()")
    assert user.finished("add", "other", "--", sys.executable, str(script))[0] == 0
    assert "other" in user.servers()
    block_until(lambda: "hello from stderr" in user.finished("logs", "other")[1])
    assert user.finished("remove", "other")[0] == 0
    assert "other" not in user.servers()


def test_a_broken_change_leaves_the_old_configuration_in_force_and_is_told(user: User) -> None:
    user.configure("mode = 'gard'\n")
    block_until(lambda: f"{user.config}:3: `mode` in [hub] must be one of" in user.run("logs", "hub").output)
    with HubLink.open(user.home) as link:
        assert link.ask("hub/reload")["applied"] is False
        status = link.ask("hub/status")
    assert status["mode"] == "guard"
    assert "must be one of" in status["config"]["problems"][0]["message"]


def test_a_changed_file_is_taken_over_without_being_told(user: User) -> None:
    user.configure("[servers.late]\nurl = 'http://127.0.0.1:9/'\n")
    block_until(lambda: user.servers() == ["late"])


def test_a_file_that_goes_and_comes_back_ends_no_server(user: User) -> None:
    user.configure("[servers.here]\nurl = 'http://127.0.0.1:9/'\n")
    block_until(lambda: user.servers() == ["here"])
    user.config.unlink()
    block_until(lambda: f"{user.config}: the file was deleted" in user.run("status").output)
    assert user.servers() == ["here"]
    user.configure("[servers.again]\nurl = 'http://127.0.0.1:9/'\n")
    block_until(lambda: user.servers() == ["again"])
    assert "was deleted" not in user.run("status").output


def test_blank_lines_before_the_hello_cost_nothing(user: User) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(user.home / "run" / "hub.sock"))
        sock.settimeout(10)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "interlock/hello", "params": {"role": "control"}}
        sock.sendall(b"\n" * 5000 + b"\r\n" + json.dumps(hello).encode() + b"\n")
        assert "result" in json.loads(sock.makefile("rb").readline())
