"""`start`, `stop` and `restart` at the terminal: what they ask of the hub, and what they show."""

from __future__ import annotations

import json

import pytest

from .conftest import User
from .fake_hub import FakeHub


@pytest.mark.parametrize(
    ("words", "operation", "params", "shown"),
    [
        (["start", "demo"], "servers.start", {}, "demo  connected  2 tools"),
        (
            ["restart", "demo", "--because", "new"],
            "servers.restart",
            {"because": "new", "now": False},
            "demo  connected",
        ),
        (["stop", "demo"], "servers.stop", {"now": False}, "`interlock start demo`"),
        (["stop", "demo", "--now"], "servers.stop", {"now": True}, "demo is stopped"),
    ],
)
def test_a_command_for_a_server_names_it_and_its_reason(
    user: User, hub: FakeHub, words: list[str], operation: str, params: dict[str, object], shown: str
) -> None:
    hub.answers[f"hub/{operation}"] = {"server": "demo", "state": "disconnected"}
    result = user.run(*words)
    assert (result.exit_code, shown in result.stdout) == (0, True), result.output
    assert hub.params_of(f"hub/{operation}") == [{"server": "demo", **params}]
    assert json.loads(user.run(*words, "--json").stdout)["server"] == "demo"
    assert not hub.stopped.is_set(), "the hub goes on"


@pytest.mark.parametrize("command", ["start", "restart"])
def test_a_server_that_cannot_start_ends_with_1_and_its_problem(user: User, hub: FakeHub, command: str) -> None:
    hub.answers[f"hub/servers.{command}"] = {"server": "db", "state": "connecting"}
    for options in ((), ("--json",)):
        assert user.run(command, "db", *options).exit_code == 1
    result = user.run(command, "db")
    assert "`DATABASE_URL` is not set" in result.stderr
    assert "export DATABASE_URL" in result.stderr


def test_stop_without_a_server_stops_the_hub(user: User, hub: FakeHub) -> None:
    result = user.run("stop")
    assert (result.exit_code, "has stopped" in result.stdout) == (0, True)
    assert hub.stopped.is_set()


@pytest.mark.parametrize("words", [["stop", "--now"], ["stop", "--because", "x"]])
def test_an_option_for_a_server_alone_stops_no_hub(user: User, hub: FakeHub, words: list[str]) -> None:
    assert user.run(*words).exit_code == 2
    assert not hub.stopped.is_set()


def test_a_server_that_is_none_is_named(user: User, hub: FakeHub) -> None:
    error = {"code": -32602, "message": "no server 'x'", "data": {"name": "NOT_FOUND", "hint": "see status"}}
    hub.answers["hub/servers.start"] = {"error": error}
    result = user.run("start", "x")
    assert (result.exit_code, "no server 'x'" in result.stderr) == (1, True)
