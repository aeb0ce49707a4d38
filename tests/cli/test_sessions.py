"""`sessions` at the terminal: what it asks of the hub, and what it shows."""

from __future__ import annotations

import json
from typing import Any

from .conftest import User
from .fake_hub import FakeHub

SESSION: dict[str, Any] = {
    "id": "n7k2q9xw.w0.0123456789ab",
    "agent": "ci",
    "kind": "agent",
    "client": "evil\x1b[2J client",
    "version": "1.2",
    "revision": "2025-11-25",
    "transport": "http",
    "since": "2026-11-16T02:03:04.5Z",
    "calls": 1,
    "streams": 4,
    "subscriptions": 2,
}
PRINCIPAL: dict[str, Any] = {
    "id": "agent:ci",
    "client": "",
    "version": "",
    "revision": "2026-07-28",
    "last_seen": "2026-11-16T02:03:04.5Z",
    "calls": 5,
    "streams": 3,
}


def test_sessions_and_principals_are_listed_in_columns(user: User, hub: FakeHub) -> None:
    hub.answers["hub/sessions.list"] = lambda _: {"sessions": [SESSION], "principals": [PRINCIPAL]}
    shown = user.run("sessions", "--agent", "ci").stdout
    assert hub.params_of("hub/sessions.list") == [{"agent": "ci"}]
    first, seen, last = shown.splitlines()
    for part in ("n7k2q9xw.w0.0123456789ab", "ci", "1.2", "2025-11-25", "http", "since 2026-11-16 02:03", "1 call"):
        assert part in first
    assert "4 streams" in first
    assert "2 subscriptions" in first
    assert "\x1b" not in shown
    assert seen == "Seen lately:"
    assert "agent:ci" in last
    assert "unnamed client" in last
    assert "5 calls" in last
    assert "3 streams" in last


def test_list_is_the_same_as_no_command(user: User, hub: FakeHub) -> None:
    hub.answers["hub/sessions.list"] = {"sessions": [], "principals": []}
    hub.answers["hub/discovery.list"] = {"servers": []}
    for group in ("sessions", "discovery"):
        assert user.run(group).output == user.run(group, "list").output


def test_a_hub_without_clients_says_so(user: User, hub: FakeHub) -> None:
    hub.answers["hub/sessions.list"] = lambda _: {"sessions": [], "principals": []}
    assert user.run("sessions").stdout == "No sessions are open.\n"
    assert json.loads(user.run("sessions", "--json").stdout) == {"sessions": [], "principals": []}


def test_ending_a_session_says_how_much_ended(user: User, hub: FakeHub) -> None:
    hub.answers["hub/sessions.end"] = lambda params: {"id": params["id"], "sessions": 1, "streams": 0, "calls": 2}
    assert user.run("sessions", "end", "agent:ci").stdout == "Ended 1 session, 0 streams and 2 calls of agent:ci.\n"
    assert hub.params_of("hub/sessions.end") == [{"id": "agent:ci"}]


def test_a_denied_registration_is_listed_with_its_creators_id_and_the_person(user: User, hub: FakeHub) -> None:
    row = {"id": "dynamic.x", "server_id": "dynamic-x", "status": "denied", "trust_level": "sandboxed", "tools": []}
    denied = {**row, "created_by": "maker", "decided_by": "person:ada", "reason": "we have one"}
    hub.answers["hub/discovery.list"] = {"servers": [denied]}
    shown = user.run("discovery", "list").stdout
    assert "registered by maker as dynamic.x, denied by person:ada: we have one" in " ".join(shown.split())
