"""Tool security metadata out: whole, with the hub's own risk, to clients that agreed on it and to nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .mgp_script import MgpScript, policy, tool
from .running_hub import RawClient, RunningHub, until

DECLARED = {
    "risk_level": "safe",
    "side_effects": ["filesystem", "process"],
    "validator": "sandbox",
    "reversible": False,
    "confirmation_required": True,
    "code_safety": {"level": "strict", "allowed_imports": ["json"]},
    "com.example.own": {"kept": True},
}
TOOLS = [
    tool("whole", security=DECLARED),
    tool("silent"),
    tool("needy", security={"risk_level": "safe", "permissions_required": ["memory.read"]}),
    tool("hinted", annotations={"destructiveHint": True}, security={"risk_level": "safe"}),
    tool("broken", security=["safe"]),
]
OFFER = {"mgp": {"version": "0.2.0", "extensions": ["security"]}}


@pytest.fixture
def script(tmp_path: Path) -> MgpScript:
    return MgpScript(tmp_path, era="legacy", mgp={"version": "0.2.0", "extensions": ["security"]}, tools=TOOLS)


@pytest.fixture
async def hub(script: MgpScript) -> AsyncIterator[RunningHub]:
    async with script.running_hub(permissions=policy("auto_approve")) as running:
        yield running


async def listed(hub: RunningHub, era: str, capabilities: dict[str, Any], path: str = "/mcp") -> dict[str, Any]:
    client = RawClient(hub.url + path)
    if era == "legacy":
        said = (await client.initialize(capabilities))["result"]["capabilities"]
        assert said.get("mgp", {}).get("extensions", []) == (["security"] if capabilities else [])
        answer = await client.legacy("tools/list")
    else:
        meta = {"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}}
        answer = await client.modern("tools/list", meta)
    return {found["name"].removeprefix("s__"): found for found in answer["result"]["tools"]}


@pytest.mark.parametrize("path", ["/mcp", "/servers/s/mcp"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_that_agreed_on_it_gets_the_whole_object_with_the_hubs_own_risk(
    hub: RunningHub, era: str, path: str
) -> None:
    tools = await listed(hub, era, OFFER, path)
    assert tools["whole"]["security"] == {**DECLARED, "risk_level": "dangerous"}, "irreversible, with side effects"
    assert tools["silent"]["security"] == {"risk_level": "moderate"}
    assert tools["needy"]["security"] == {"risk_level": "safe", "permissions_required": ["memory.read"]}
    assert tools["hinted"]["security"] == {"risk_level": "moderate", "confirmation_required": False}
    assert tools["broken"]["security"] == {"risk_level": "dangerous", "confirmation_required": True}, (
        "what cannot be read declares the worst"
    )
    assert "security" not in tools.get("find_tools", {})


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_anybody_else_gets_definitions_as_they_came(hub: RunningHub, era: str) -> None:
    tools = await listed(hub, era, {})
    for wanted in TOOLS:
        assert tools[wanted["name"]].get("security") == wanted.get("security")


@pytest.mark.parametrize(("trust", "risk"), [("trusted", "safe"), ("standard", "safe"), ("sandboxed", "moderate")])
async def test_the_risk_that_is_told_follows_the_trust_in_the_server(script: MgpScript, trust: str, risk: str) -> None:
    script.say(tools=[tool("get", security={"risk_level": "safe"})])
    async with script.running_hub(trust=trust) as hub:
        assert (await listed(hub, "legacy", OFFER))["get"]["security"]["risk_level"] == risk


async def test_a_list_that_changes_is_told_anew(script: MgpScript) -> None:
    script.say(tools=[tool("get", security={"risk_level": "safe"})])
    async with script.running_hub() as hub:
        assert list(await listed(hub, "legacy", OFFER)) == ["get"]
        script.say(tools=[tool("get", security={"risk_level": "safe"}), tool("more")])
        before = hub.hub_app.catalog.offer("s")
        hub.hub_app.upstreams["s"].lists_changed()
        await until(lambda: hub.hub_app.catalog.offer("s") is not before)
        assert (await listed(hub, "legacy", OFFER))["more"]["security"] == {"risk_level": "moderate"}
