"""A server declares permissions and security, waits for its client's decision, and knows it in its functions."""

from __future__ import annotations

import pytest
from peer import Peer, Refusal

from interlock.server import Context, Server
from interlock.signatures import DefinitionError

pytestmark = pytest.mark.anyio

SECURITY = {"mgp": {"version": "0.2.0", "extensions": ["security"]}}


@pytest.mark.parametrize("modern", [True, False])
async def test_a_server_declares_its_permissions_and_learns_what_was_decided(modern: bool) -> None:
    server = Server("shell", permissions=["shell.execute", "com.example.own"])

    @server.tool(
        security={"risk_level": "dangerous", "permissions_required": ["shell.execute"], "validator": "sandbox"}
    )
    async def state(ctx: Context) -> str:
        """The decision."""
        return str(ctx.permission("shell.execute"))

    peer, plain = Peer(server, capabilities=SECURITY), Peer(server, principal_name="plain", capabilities={})
    opened = await (peer.call("server/discover") if modern else peer.legacy())
    assert opened["capabilities"]["mgp"]["permissions_required"] == ["shell.execute", "com.example.own"]
    (tool,) = (await peer.call("tools/list"))["tools"]
    assert tool["security"]["validator"] == "sandbox"
    waits = {"request_id": "perm-1", "permissions": ["shell.execute"], "policy": "interactive"}
    assert (await peer.call("mgp/permission/request", **waits))["request_id"] == "perm-1"
    assert (await peer.tool("state"))["content"][0]["text"] == "deferred"
    grants = {"shell.execute": "approved", "not.declared.here": "approved"}
    await peer.call("mgp/permission/grant", request_id="perm-1", grants=grants)
    assert (await peer.tool("state"))["content"][0]["text"] == "approved"
    assert (await plain.tool("state"))["content"][0]["text"] == "None", "another client decided nothing"
    with pytest.raises(Refusal, match="not agreed"):
        await plain.call("mgp/permission/response", request_id="perm-1", grants=grants)


async def test_a_declaration_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(DefinitionError, match="permissions"):
        Server("x", permissions=["everything"])
    server = Server("x")
    for security in ({"risk_level": "odd"}, {"risk_level": "safe", "validator": "odd"}, {"risk_level": 1}, {}):
        with pytest.raises(DefinitionError, match="security"):
            server.tool(name="t", security=security)(lambda: 1)
