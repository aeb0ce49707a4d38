"""Keys, grants and why as the operator's terminal asks for them, of a real hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.wire.errors import Fault

from .running_hub import RawClient, RunningHub, child, running_hub

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as running:
        yield running


@pytest.fixture
def ask(hub: RunningHub) -> Ask:
    return hub.operate


async def test_a_key_is_made_listed_used_rotated_and_revoked(hub: RunningHub, ask: Ask) -> None:
    made = await ask("keys.create", agent="ci", expires_at="2099-01-01T00:00:00Z", rate={"per_hour": 5})
    client = RawClient(hub.url + "/mcp", made["key"])
    assert "result" in await client.modern("tools/list")
    hub.hub_app.authenticator.note_uses()
    await hub.hub_app.keys.write_uses()
    [listed] = (await ask("keys.list"))["keys"]
    assert listed["rate"] == {"per_hour": 5}
    assert listed["expires_at"] == "2099-01-01T00:00:00Z"
    assert listed["last_used"]
    assert made["key"] not in str(listed)
    fresh = (await ask("keys.rotate", agent="ci"))["key"]
    assert (await client.post(b"{}"))[0] == 401
    assert "result" in await RawClient(hub.url + "/mcp", fresh).modern("tools/list")
    assert await ask("keys.revoke", agent="ci") == {"revoked": 1}
    assert (await RawClient(hub.url + "/mcp", fresh).post(b"{}"))[0] == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {"permissions": ["everything"]},
        {"permissions": ["invoke:"]},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"expires_at": "2099-01-01T00:00:00"},
        {"rate": {"per_minute": 0}},
        {"kind": "god"},
        {"agent": ""},
        {"agent": "a\u202eb"},
    ],
)
async def test_a_key_that_means_nothing_is_not_made(hub: RunningHub, ask: Ask, wrong: dict[str, object]) -> None:
    with pytest.raises(Fault) as caught:
        await ask("keys.create", **{"agent": "x", **wrong})
    assert caught.value.name == "INVALID_PARAMS"
    assert hub.hub_app.keys.list() == []


async def test_a_denial_is_given_explained_and_taken_back(hub: RunningHub, ask: Ask) -> None:
    client = RawClient(hub.url + "/mcp", hub.key("ada"))
    params = {"name": "busy__echo", "arguments": {"text": "x"}}
    assert (await ask("why")) == {"refusal": None}
    place = {"entry_type": "tool_grant", "agent_id": "ada", "server_id": "busy", "tool_name": "echo"}
    with pytest.raises(Fault, match="no parameter 'granted_by'"):
        await ask("grants.grant", **place, permission="deny", granted_by="nobody")
    given = await ask("grants.grant", **place, permission="deny", justification="no")
    assert (given["effective"], given["source"]) == ("deny", "tool_grant")
    assert given["granted_by"].startswith("person:")
    assert "error" in await client.modern("tools/call", params)
    last = (await ask("why"))["refusal"]
    assert (last["agent"], last["server"], last["target"], last["gate"]) == ("ada", "busy", "echo", "access")
    assert last["rule"] == f"tool_grant deny by {given['granted_by']}"
    judged = (await ask("why", agent="ada", tool="busy__echo", arguments={"text": "x"}))["judgement"]
    assert (judged["outcome"], judged["gate"], judged["rule"]) == ("refused", "access", last["rule"])
    assert "`interlock grants revoke ada busy echo`" in judged["hint"], "the place of this denial"
    [listed] = (await ask("grants.list", agent="ada"))["grants"]
    assert (listed["tool_name"], listed["justification"], listed["expired"]) == ("echo", "no", False)
    assert await ask("grants.revoke", **place) == {"revoked": 1}
    assert (await ask("why", agent="ada", tool="busy__echo", arguments={"text": "x"}))["judgement"][
        "outcome"
    ] == "allowed"
    assert "result" in await client.modern("tools/call", params)
    bad = (await ask("why", agent="ada", tool="busy__echo", arguments={"text": 1}))["judgement"]
    assert (bad["gate"], bad["error"]) == ("schema", "INVALID_TOOL_ARGS")


async def test_grants_survive_a_restart(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", start="on-demand")}, wait=False) as hub:
        await hub.deny("ada", "busy")
        key = await hub.new_key("ada")
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", key)
        assert (await client.modern("tools/list"))["result"]["tools"] == []
