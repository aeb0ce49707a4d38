"""`interlock permissions` at the terminal: what it asks of the hub and shows, and the whole of it with a real hub."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from waiting import block_until

from .conftest import SOURCE, User
from .fake_hub import FakeHub
from .on_terminal import finished_on_terminal

GOVERNED = Path(__file__).parents[1] / "hub" / "mgp_server.py"
ROW = {
    "server": "files",
    "permission": "filesystem.read",
    "risk": "moderate",
    "grant": "deferred",
    "rule": "policy interactive",
    "expires_at": None,
    "decision": "a3f",
    "tools": ["read\x1b[2J", "grep", "find", "tail"],
}


def test_permissions_are_listed_with_how_they_stand_and_what_to_do(user: User, hub: FakeHub) -> None:
    hub.answers["hub/permissions.list"] = {"permissions": [ROW]}
    shown = user.run("permissions", "list", "files").output
    assert hub.params_of("hub/permissions.list") == [{"server": "files"}]
    for word in ("files", "filesystem.read", "moderate", "deferred", "policy interactive", "read", ", …"):
        assert word in shown
    assert "interlock approvals approve a3f" in shown
    assert "\x1b[2J" not in shown, "a server's text never moves the cursor"


def test_an_approval_without_a_terminal_is_refused_before_the_hub_hears_of_it(user: User, hub: FakeHub) -> None:
    result = user.run("permissions", "approve", "files", "filesystem.read")
    assert result.exit_code == 5
    assert hub.params_of("hub/permissions.approve") == []


@pytest.mark.parametrize("verb", ["deny", "revoke"])
def test_taking_away_needs_no_terminal(user: User, hub: FakeHub, verb: str) -> None:
    hub.answers[f"hub/permissions.{verb}"] = {"permissions": [{**ROW, "grant": "denied", "decision": None}]}
    assert user.run("permissions", verb, "files", "filesystem", "--because", "enough").exit_code == 0
    asked = hub.params_of(f"hub/permissions.{verb}")
    assert asked == [{"server": "files", "permissions": ["filesystem"], "because": "enough"}]


def test_what_changes_nothing_says_so(user: User, hub: FakeHub) -> None:
    hub.answers["hub/permissions.deny"] = {"permissions": [{**ROW, "grant": "approved", "rule": "observe"}]}
    assert "did not change: observe" in user.run("permissions", "deny", "files", "filesystem.read").stderr


def test_status_says_what_a_server_waits_for(user: User, hub: FakeHub) -> None:
    server = {"id": "files", "state": "connected", "where": "x", "tools": 0, "permissions": [ROW]}
    hub.answers["hub/status"] = {**hub.answers["hub/status"], "servers": [server]}
    shown = user.run("status").output
    assert "permission filesystem.read is deferred" in shown
    assert "interlock permissions approve files filesystem.read" in shown


def test_a_real_hub_withholds_a_tool_until_the_person_at_the_terminal_says_yes(user: User) -> None:
    offer = {"version": "0.2.0", "extensions": ["security"], "permissions_required": ["shell"]}
    tool = {"name": "run", "description": "Run it.", "inputSchema": {"type": "object"}}
    script = user.folder / "script.json"
    script.write_text(json.dumps({"era": "legacy", "mgp": offer, "tools": [tool]}))
    command = json.dumps([sys.executable, str(GOVERNED), str(script)])
    user.configure(
        f'[hub.approvals]\nhold_s = 0\n[servers.s]\ncommand = {command}\nenv = {{ PYTHONPATH = "{SOURCE}" }}\n'
    )
    user.start_hub()

    def status() -> Any:
        return json.loads(user.finished("status", "--json")[1])["servers"][0]

    # The server declares its permissions before it lists its tools.
    block_until(lambda: status()["state"] == "connected")
    listing = json.loads(user.finished("permissions", "list", "--json")[1])["permissions"]
    assert [(row["permission"], row["grant"]) for row in listing] == [("shell.execute", "deferred")]
    assert "s__run" not in user.finished("list")[1]
    code, shown = finished_on_terminal(user, "permissions", "approve", "s", "shell", "--expires", "1h")
    assert code == 0, shown
    assert "approved by person:" in shown
    (listed,) = json.loads(user.finished("list", "--json")[1])["tools"]
    assert (listed["name"], listed["permissions"]) == ("s__run", ["shell.execute"])
    assert status()["mgp"]["extensions"] == ["security"]
    assert user.finished("permissions", "revoke", "s", "shell")[0] == 0
    code, _, err = user.finished("call", "s__run")
    assert code == 5
    assert "revoked by person:" in err
