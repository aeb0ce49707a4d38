"""Agreeing on MGP: the four patterns of its compatibility matrix, in both eras and in every place it may be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.protocols.mgp.methods import METHODS
from interlock.server import Server
from interlock.server.mgp.agreement import OFFERED as SERVERS
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start

from .running_hub import RawClient, child, running_hub

OFFER = {
    "version": "0.2.0",
    "extensions": ["access_control", "tool_discovery", "audit", "lifecycle", "com.example.own"],
}
AGREED = {"version": "0.2.0", "extensions": ["access_control", "audit", "lifecycle", "tool_discovery"]}
HOMES: list[Callable[[Any], dict[str, Any]]] = [
    lambda said: {"mgp": said},
    lambda said: {"experimental": {"mgp": said}},
    lambda said: {"extensions": {"dev.cloto/mgp": said}},
]
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
UNKNOWN = {"name": "busy__nope", "arguments": {}}


def mgp_of(capabilities: dict[str, Any]) -> list[Any]:
    """Everything that capabilities say of MGP, wherever they say it."""
    experimental, extensions = capabilities.get("experimental", {}), capabilities.get("extensions", {})
    found = (capabilities.get("mgp"), experimental.get("mgp"), extensions.get("dev.cloto/mgp"))
    return [said for said in found if said is not None]


async def test_a_plain_client_gets_plain_mcp_from_the_hub(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        old, new = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        assert mgp_of((await old.initialize())["result"]["capabilities"]) == []
        assert mgp_of((await new.modern("server/discover"))["result"]["capabilities"]) == []
        for error in (
            (await old.legacy("tools/call", UNKNOWN))["error"],
            (await new.modern("tools/call", UNKNOWN))["error"],
        ):
            assert error["code"] == -32602
            assert "_mgp" not in error["data"]
        bad = await new.modern("tools/call", {"name": "busy__add", "arguments": {"a": "one"}})
        assert "_mgp" not in bad["result"]["_meta"]["dev.interlock/error"]


@pytest.mark.parametrize("home", HOMES)
async def test_an_mgp_client_gets_all_of_it_from_the_hub_where_it_asked(tmp_path: Path, home: Any) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        old, new = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        meta = {"_meta": {CAPABILITIES: home(OFFER)}}
        opened = (await old.initialize(home(OFFER)))["result"]["capabilities"]
        discovered = (await new.modern("server/discover", meta))["result"]["capabilities"]
        for capabilities in (opened, discovered):
            assert mgp_of(capabilities) == [AGREED]
            for place, said in home(AGREED).items():
                assert said.items() <= capabilities[place].items(), "beside whatever else stands there"
            assert "tools" in capabilities
        for error in (
            (await old.legacy("tools/call", UNKNOWN))["error"],
            (await new.modern("tools/call", {**UNKNOWN, **meta}))["error"],
        ):
            assert error["code"] == 4001
            assert error["data"]["_mgp"] == {"category": "validation", "retryable": False}
        bad = await new.modern("tools/call", {"name": "busy__add", "arguments": {"a": "one"}, **meta})
        assert bad["result"]["_meta"]["dev.interlock/error"]["_mgp"]["category"] == "validation"
        plain = await RawClient(hub.url + "/mcp").modern("tools/call", UNKNOWN)
        assert plain["error"]["code"] == -32602, "what one client agreed is nothing to another"


@pytest.mark.parametrize("capabilities", [{}, *(home(OFFER) for home in HOMES)])
async def test_a_server_of_ours_speaks_mgp_with_a_client_that_offers_it(capabilities: dict[str, Any]) -> None:
    server = Server("plain", "1")
    http = await start(McpEndpoint(server), None, is_mcp=lambda path: path == "/mcp")
    both = [extension for extension in SERVERS if extension in OFFER["extensions"]]
    agreed = [{"version": "0.2.0", "extensions": both, "server_id": "plain"}] if capabilities else []
    try:
        client = RawClient(f"http://127.0.0.1:{http.port}/mcp")
        assert mgp_of((await client.initialize(capabilities))["result"]["capabilities"]) == agreed
        error = (await client.legacy("tools/call", UNKNOWN))["error"]
        assert (error["code"] > 0) is bool(capabilities)
        assert ("_mgp" in error.get("data", {})) is bool(capabilities)
        ping = await client.legacy("mgp/health/ping")
        assert ("result" in ping) is bool(capabilities)
    finally:
        await http.stop(1)


@pytest.mark.parametrize(("version", "spoken"), [("0.1.0", True), ("0.3.0", True), ("1.0.0", False), ("x", False)])
async def test_another_major_version_leaves_plain_mcp(tmp_path: Path, version: str, spoken: bool) -> None:
    async with running_hub(tmp_path, {}) as hub:
        client = RawClient(hub.url + "/mcp")
        opened = (await client.initialize({"mgp": {**OFFER, "version": version}}))["result"]["capabilities"]
        assert (mgp_of(opened) != []) is spoken
        assert ("_mgp" in (await client.legacy("tools/call", UNKNOWN))["error"]["data"]) is spoken


async def test_an_offer_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as hub:
        opened = await RawClient(hub.url + "/mcp").initialize({"mgp": {"version": 2, "extensions": "all"}})
        assert opened["error"]["data"]["name"] == "INVALID_PARAMS"


async def test_methods_of_mgp_are_there_for_those_alone_who_agreed_on_their_extension(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as hub:
        said = {"entry_type": "server_grant", "agent_id": "a", "server_id": "s", "permission": "allow"}
        client = RawClient(hub.url + "/mcp")
        error = (await client.modern("mgp/access/grant", said))["error"]
        assert (error["code"], error["data"]["_mgp"]["category"]) == (1000, "security")
        for method in METHODS:
            for offered in ({}, {"mgp": {**OFFER, "extensions": ["security"]}}):
                missing = (await client.modern(method, {"_meta": {CAPABILITIES: offered}}))["error"]
                assert (missing["code"], missing["data"]["name"]) == (-32601, "METHOD_NOT_FOUND")
