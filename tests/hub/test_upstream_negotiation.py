"""Agreeing on MGP with servers: the compatibility matrix, in both eras, every place, over both transports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.hub.upstreams.mgp_agreement import ASKED
from interlock.protocols.mgp.negotiation import VERSION

from .mgp_script import ERAS, TRANSPORTS, MgpScript, call, error_of, listed, tool
from .running_hub import RawClient, RunningHub, text_of
from .test_speaking import HOMES, OFFER, mgp_of

SERVERS_OFFER = {"version": "0.2.0", "extensions": ["security", "audit", "lifecycle", "com.example.own"]}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
REFUSED = {"error": {"code": 4002, "message": "off", "data": {"_mgp": {"category": "validation", "retryable": False}}}}


async def status(hub: RunningHub) -> Any:
    """The server's line of `interlock status --json`."""
    return (await hub.operate("status"))["servers"][0]


def question(script: MgpScript, era: str) -> dict[str, Any]:
    """The params of the request to the server."""
    if era == "modern":
        asked: dict[str, Any] = script.params("server/discover")[0]["_meta"][CAPABILITIES]
        return asked
    found: dict[str, Any] = script.params("initialize")[0]["capabilities"]
    return found


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("home", ["mgp", "experimental", "extensions"])
async def test_the_hub_agrees_with_an_mgp_server_wherever_it_looks(
    tmp_path: Path, transport: str, era: str, home: str
) -> None:
    script = MgpScript(tmp_path, era=era, home=home, mgp=SERVERS_OFFER, tools=[tool("a")])
    async with script.running_hub(transport) as hub:
        asked = mgp_of(question(script, era))
        assert len(asked) == 3, "servers look in different places"
        assert {said["version"] for said in asked} == {VERSION}
        agreed = (await status(hub))["mgp"]
        assert agreed["extensions"] == ["audit", "lifecycle", "security"], "the intersection, and nothing else"
        assert (agreed["version"], agreed["place"], agreed["warning"]) == ("0.2.0", home, None)
        assert text_of(await call(hub, "a")) == "a ran {}"


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_says_nothing_of_mgp_gets_plain_mcp(tmp_path: Path, transport: str, era: str) -> None:
    script = MgpScript(tmp_path, era=era, tools=[tool("a")])
    async with script.running_hub(transport) as hub:
        assert (await status(hub))["mgp"] is None
        assert text_of(await call(hub, "a")) == "a ran {}"
        assert not [method for method in script.methods() if "mgp" in method]
        if era == "modern":
            assert mgp_of(script.params("tools/call")[0]["_meta"][CAPABILITIES]) == []


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("client", ["plain", "mgp"])
async def test_what_is_agreed_with_a_server_and_with_a_client_are_two_things(
    tmp_path: Path, transport: str, era: str, client: str
) -> None:
    """A plain client of an MGP server gets plain MCP, an MGP client all of it; the server hears the hub either way."""
    script = MgpScript(tmp_path, era=era, mgp=SERVERS_OFFER, tools=[tool("a")], answers={"a": [REFUSED]})
    async with script.running_hub(transport) as hub:
        meta = {} if client == "plain" else {"_meta": {CAPABILITIES: {"mgp": OFFER}}}
        raw = RawClient(hub.url + "/mcp")
        error = (await raw.modern("tools/call", {"name": "s__a", "arguments": {}, **meta}))["error"]
        if client == "plain":
            assert error["code"] == -32602
            assert "_mgp" not in error["data"]
        else:
            assert error["code"] == 4002
            assert error["data"]["_mgp"]["category"] == "validation"
        assert error["data"]["name"] == "TOOL_DISABLED"
        if era == "modern":
            asked = mgp_of(script.params("tools/call")[0]["_meta"][CAPABILITIES])
            assert [said["extensions"] for said in asked] == [list(ASKED)] * 3


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("client", ["plain", "mgp"])
async def test_a_plain_server_is_plain_whatever_the_client_speaks(
    tmp_path: Path, transport: str, era: str, client: str
) -> None:
    own = {"error": {"code": -32050, "message": "its own"}}
    script = MgpScript(tmp_path, era=era, tools=[tool("a")], answers={"a": ["ok", own]})
    async with script.running_hub(transport) as hub:
        raw = RawClient(hub.url + "/mcp")
        await raw.initialize({} if client == "plain" else {"mgp": OFFER})
        assert text_of(await raw.legacy("tools/call", {"name": "s__a", "arguments": {}})) == "a ran {}"
        error = (await raw.legacy("tools/call", {"name": "s__a", "arguments": {}}))["error"]
        assert (error["code"], error["message"]) == (-32050, "its own")
        unknown = (await raw.legacy("tools/call", {"name": "s__none", "arguments": {}}))["error"]
        assert ("_mgp" in unknown["data"]) is (client == "mgp"), "the hub's own errors are as agreed with the client"


@pytest.mark.parametrize("home", HOMES)
async def test_a_clients_own_offer_never_crosses_the_hub(tmp_path: Path, home: Any) -> None:
    script = MgpScript(tmp_path, era="legacy", tools=[tool("a")])
    async with script.running_hub() as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize({"roots": {}, **home({**OFFER, "extensions": ["com.example.own"]})})
        await client.legacy("tools/call", {"name": "s__a", "arguments": {}})
        private = script.params("initialize")[-1]["capabilities"]
        assert "roots" in private, "the client has a connection of its own"
        assert all("com.example.own" not in said["extensions"] for said in mgp_of(private))


@pytest.mark.parametrize(
    ("version", "spoken", "warned"),
    [
        ("0.1.0", True, True),
        ("0.2.7", True, False),
        ("0.3.0", True, True),
        ("1.0.0", False, False),
        ("x", False, False),
    ],
)
async def test_a_servers_version_fits_by_its_major(tmp_path: Path, version: str, spoken: bool, warned: bool) -> None:
    script = MgpScript(tmp_path, mgp={**SERVERS_OFFER, "version": version}, tools=[tool("a")])
    async with script.running_hub() as hub:
        agreed = (await status(hub))["mgp"]
        assert bool(agreed["extensions"]) is spoken
        assert bool(agreed["warning"]) is (warned or not spoken)
        assert text_of(await call(hub, "a")) == "a ran {}"


@pytest.mark.parametrize(
    ("given", "claimed", "effective"),
    [
        ("standard", "trusted", "standard"),
        ("standard", "sandboxed", "sandboxed"),
        ("trusted", None, "trusted"),
        ("trusted", "standard", "standard"),
        ("sandboxed", "trusted", "sandboxed"),
        ("standard", "root", "standard"),
    ],
)
async def test_a_servers_word_on_itself_lowers_its_trust_and_renames_nothing(
    tmp_path: Path, given: str, claimed: str | None, effective: str
) -> None:
    said = {**SERVERS_OFFER, "server_id": "kernel", "trust_level": claimed}
    script = MgpScript(tmp_path, mgp=said, tools=[tool("a")])
    async with script.running_hub(trust=given) as hub:
        line = await status(hub)
        assert line["trust"] == effective
        assert line["id"] == "s"
        assert line["mgp"]["claims"] == {"server_id": "kernel", "trust_level": claimed}
        assert await listed(hub) == ["s__a"], "a tool is named after the operator's name for its server"
        assert error_of(await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "kernel__a", "arguments": {}}))


async def test_a_server_that_calls_itself_sandboxed_cannot_call_its_tools_safe(tmp_path: Path) -> None:
    safe = tool("a", annotations={"readOnlyHint": True}, security={"risk_level": "safe", "permissions_required": []})
    script = MgpScript(tmp_path, mgp={**SERVERS_OFFER, "trust_level": "sandboxed"}, tools=[safe])
    async with script.running_hub() as hub:
        assert hub.hub_app.server_policies.trust_of("s").name == "SANDBOXED"
