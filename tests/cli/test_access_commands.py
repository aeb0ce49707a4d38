"""`keys`, `grants` and `why` at the terminal: what they ask of the hub, and what they show."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from .conftest import User
from .fake_hub import FakeHub


def test_a_key_is_made_with_all_its_conditions(user: User, hub: FakeHub) -> None:
    said = ["--kind", "admin", "--rate", "60/minute,1000/hour", "--permit", "invoke:a__*", "--expires", "30d"]
    assert user.run("keys", "create", "ci", *said).stdout == "ilk_test\n"
    [asked] = hub.params_of("hub/keys.create")
    left = datetime.fromisoformat(asked.pop("expires_at")) - datetime.now(UTC)
    assert timedelta(days=29) < left < timedelta(days=31)
    assert asked == {
        "agent": "ci",
        "kind": "admin",
        "rate": {"per_minute": 60, "per_hour": 1000},
        "permissions": ["invoke:a__*"],
    }


def test_an_instant_is_sent_with_its_zone(user: User, hub: FakeHub) -> None:
    assert user.run("keys", "create", "ci", "--expires", "2099-01-01T12:00").exit_code == 0
    [asked] = hub.params_of("hub/keys.create")
    assert datetime.fromisoformat(asked["expires_at"]).tzinfo is not None


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rate", "fast"), ("--rate", "0/minute"), ("--rate", "5/day"), ("--expires", "soon"), ("--expires", "3y")],
)
def test_what_cannot_be_read_is_wrong_usage(user: User, hub: FakeHub, option: str, value: str) -> None:
    result = user.run("keys", "create", "ci", option, value)
    assert result.exit_code == 2
    assert "write " in result.stderr
    assert hub.params_of("hub/keys.create") == []


def test_the_list_of_keys_shows_the_rate_of_each(user: User, hub: FakeHub) -> None:
    key = {"prefix": "ilk_te", "principal": "ci", "kind": "service", "created": "now"}
    hub.answers["hub/keys.list"] = {"keys": [{**key, "rate": {"per_minute": 60, "per_hour": 900}}, {**key, "rate": {}}]}
    first, second = user.run("keys", "list").stdout.splitlines()
    assert "60/minute, 900/hour" in first
    assert "/" not in second


def test_a_rotated_key_stands_alone_on_standard_output(user: User, hub: FakeHub) -> None:
    assert user.run("keys", "rotate", "ci").stdout == "ilk_fresh\n"
    assert hub.params_of("hub/keys.rotate") == [{"agent": "ci"}]


def test_a_revocation_of_nothing_names_the_list(user: User, hub: FakeHub) -> None:
    hub.answers["hub/grants.revoke"] = {"revoked": 0}
    result = user.run("grants", "revoke", "cursor", "github")
    assert "none is for all tools of github: `interlock grants list cursor`" in result.stderr


def test_a_grant_that_a_denial_outweighs_says_so(user: User, hub: FakeHub) -> None:
    result = user.run("grants", "allow", "cursor", "github", "merge", "--because", "needed")
    [asked] = hub.params_of("hub/grants.grant")
    assert asked == {
        "entry_type": "tool_grant",
        "agent_id": "cursor",
        "server_id": "github",
        "tool_name": "merge",
        "permission": "allow",
        "justification": "needed",
    }
    assert "still has `deny`" in result.stderr
    assert "grants revoke cursor github merge" in result.stderr


def test_a_server_is_denied_and_revoked_as_a_whole(user: User, hub: FakeHub) -> None:
    assert user.run("grants", "deny", "cursor", "github").exit_code == 0
    assert hub.params_of("hub/grants.grant")[0]["entry_type"] == "server_grant"
    assert "2 entries" in user.run("grants", "revoke", "cursor", "github").output
    assert hub.params_of("hub/grants.revoke") == [
        {"entry_type": "server_grant", "agent_id": "cursor", "server_id": "github"}
    ]
    hub.answers["hub/grants.revoke"] = hub.answers["hub/keys.revoke"] = {"revoked": 1}
    assert "Revoked 1 entry.\n" in user.run("grants", "revoke", "cursor", "github").output
    assert "Revoked 1 key of cursor.\n" in user.run("keys", "revoke", "cursor").output


def test_grants_are_listed_with_who_gave_them_and_why(user: User, hub: FakeHub) -> None:
    shown = user.run("grants", "list", "cursor").output
    assert all(word in shown for word in ("cursor", "deny", "github", "merge", "person:ada", "too risky"))
    assert hub.params_of("hub/grants.list") == [{"agent": "cursor"}]


def test_why_names_findings_about_an_allowed_call_and_when_it_is_asked(user: User, hub: FakeHub) -> None:
    judgement = {"outcome": "allowed", "findings": ["shell.rm: deletes\x1b[2J"], "hint": "with a person it asks"}
    hub.answers["hub/why"] = {"judgement": judgement}
    shown = user.run("why", "cursor", "shell__run", "{}").output
    assert shown.startswith("allowed: every gate lets it pass.")
    assert "noted shell.rm: deletes\\u001b[2J" in shown
    assert "→ with a person it asks" in shown


def test_why_of_a_tool_alone_says_what_helps(user: User, hub: FakeHub) -> None:
    assert "`interlock why AGENT poison__add`" in user.run("why", "poison__add").output
    refusal = {"at": "now", "agent": "a", "server": "poison", "target": "add", "message": "m", "gate": "g", "rule": "r"}
    hub.answers["hub/why"] = {"refusal": {**refusal, "hint": "the operator decides"}}
    shown = user.run("why", "poison__add").output
    assert ("→ poison add: m" in shown, "→ the operator decides" in shown) == (True, True)


def test_why_names_gate_and_rule(user: User, hub: FakeHub) -> None:
    shown = user.run("why", "cursor", "github__merge", '{"number": 1}').output
    assert "refused: Unknown tool: x" in shown
    assert "gate access, rule: tool_grant deny" in shown
    assert "sees it as not existing" in shown
    assert hub.params_of("hub/why") == [{"agent": "cursor", "tool": "github__merge", "arguments": {"number": 1}}]
    assert json.loads(user.run("why", "--json").output) == {"refusal": None}
    assert "No call was refused" in user.run("why").output
    assert user.run("why", "a", "b", "{nonsense").exit_code == 2


@pytest.mark.parametrize(
    ("command", "name"),
    [(("keys", "create", ""), "AGENT"), (("keys", "revoke", ""), "AGENT"), (("grants", "deny", "bot", ""), "SERVER")],
)
def test_an_empty_name_is_refused_before_the_hub_is_asked(
    user: User, hub: FakeHub, command: tuple[str, ...], name: str
) -> None:
    result = user.run(*command)
    assert result.exit_code == 2
    assert f"{name} is empty" in result.output
    assert not hub.asked


def test_features_for_an_agent_without_a_key_are_enabled_with_a_hint(
    user: User, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.control.perform.is_attended", lambda: True)
    row = {"server": "b", "feature": "b.done", "agents": [], "on": False, "why": "not_selected"}
    hub.answers["hub/features.list"] = {"features": [{**row, "disabled": {}, "description": ""}]}
    shown = user.run("features", "list").output
    assert ("off (not enabled)" in shown, "`interlock features enable SERVER FEATURE" in shown) == (True, True)
    hub.answers["hub/channels.list"] = {"channels": []}
    assert "`interlock features list`" in user.run("channels", "list").output, "what makes servers register channels"
    hub.answers["hub/features.enable"] = {"features": [], "hint": "no key of nobody exists yet"}
    result = user.run("features", "enable", "builds", "builds.*", "--agent", "nobody")
    assert result.exit_code == 0, result.output
    assert "no key of nobody exists yet" in result.stderr
