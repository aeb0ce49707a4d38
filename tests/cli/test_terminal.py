"""Commands on a terminal ask questions and use colour. The terminal is a real one (a pty)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.config.confirmations import Confirmations
from interlock.config.load import load

from .conftest import User
from .fake_hub import FakeHub
from .on_terminal import finished_on_terminal

PROJECT_FILE = '{"mcpServers": {"cloned": {"command": "npx", "args": ["-y", "some-server"], "env": {"K": "${TOKEN}"}}}}'


@pytest.mark.parametrize(("answer", "started"), [(b"y\n", ["cloned"]), (b"n\n", []), (b"\n", [])])
def test_a_project_file_is_started_only_after_a_yes(user: User, answer: bytes, started: list[str]) -> None:
    user.configure()
    path = user.folder / ".mcp.json"
    path.write_text(PROJECT_FILE)
    user.environ["TOKEN"] = "t0p-s3cret"
    code, shown = finished_on_terminal(user, "up", "-d", typed=answer, wait_for=b"[y/N]")
    assert code == 0
    assert "npx -y some-server" in shown
    assert "reads from your environment: TOKEN" in shown
    assert "t0p-s3cret" not in shown
    assert user.servers() == started


def test_a_confirmed_file_is_not_asked_about_again(user: User) -> None:
    user.configure()
    path = user.folder / ".mcp.json"
    path.write_text(PROJECT_FILE.replace("${TOKEN}", "1"))
    (waiting,) = load(home=user.home, folder=user.folder, environ=user.environ).unconfirmed
    Confirmations(user.home).add(path, waiting.hash)
    code, shown = finished_on_terminal(user, "up", "-d")
    assert code == 0
    assert "[y/N]" not in shown
    assert user.servers() == ["cloned"]


def test_a_running_hub_is_told_what_was_confirmed(user: User, hub: FakeHub) -> None:
    (user.folder / ".mcp.json").write_text(PROJECT_FILE)
    code, _ = finished_on_terminal(user, "up", typed=b"y\n", wait_for=b"[y/N]")
    assert code == 0
    (told,) = hub.params_of("hub/confirm")
    assert Path(told["path"]) == (user.folder / ".mcp.json").resolve()


def test_colour_is_used_on_a_terminal_unless_it_is_unwanted(user: User, hub: FakeHub) -> None:
    assert "\x1b[32mconnected" in finished_on_terminal(user, "status")[1]
    user.environ["NO_COLOR"] = "1"
    assert "\x1b[" not in finished_on_terminal(user, "status")[1]


def test_failures_follow_the_same_rule(user: User) -> None:
    assert "\x1b[31minterlock: no hub is running" in finished_on_terminal(user, "status")[1]
    user.environ["NO_COLOR"] = "1"
    assert "\x1b[" not in finished_on_terminal(user, "status")[1]
