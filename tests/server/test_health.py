"""`mgp/health/ping` and `mgp/health/status` of a server: answered while tools block, with the author's checks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest
from peer import Peer, Refusal

from interlock.client.connection import Connection
from interlock.client.dial import to_url
from interlock.client.peer import Identity
from interlock.server import Server
from interlock.server.mgp import health as health_module
from interlock.signatures import DefinitionError
from interlock.wire.errors import Fault

pytestmark = pytest.mark.anyio

LIFECYCLE = {"mgp": {"version": "0.2.0", "extensions": ["lifecycle"]}}


@pytest.mark.parametrize("modern", [True, False])
async def test_a_ping_and_a_status_have_the_members_of_the_protocol(modern: bool) -> None:
    server = Server("notes")
    server.tool(name="one")(lambda: 1)
    peer = Peer(server, capabilities=LIFECYCLE)
    if not modern:
        opened = await peer.legacy()
        said = {"version": "0.2.0", "extensions": ["lifecycle"], "server_id": "notes"}
        assert opened["capabilities"]["mgp"] == said
    ping = await peer.call("mgp/health/ping", timestamp="2026-02-27T12:00:00.000Z")
    assert (ping["status"], ping["server_id"], ping["uptime_secs"]) == ("healthy", "notes", 0)
    assert ping["timestamp"].endswith("Z")
    status = await peer.call("mgp/health/status")
    assert (status["status"], status["tools_available"], status["tools_total"]) == ("healthy", 1, 1)
    assert (status["pending_requests"], status["checks"]) == (0, {})
    assert ("resultType" in status) is modern


async def test_a_ping_is_answered_while_every_thread_is_busy_and_a_check_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "CHECK_S", 0.05)
    server, gate = Server("busy", threads=2), threading.Event()

    @server.tool
    def block() -> str:
        gate.wait()
        return "done"

    @server.health_check
    def disk() -> bool:
        gate.wait()
        return True

    peer = Peer(server, capabilities=LIFECYCLE)
    try:
        calls = [peer.start("tools/call", name="block", arguments={})[1] for _ in range(4)]
        assert (await peer.call("mgp/health/ping"))["status"] == "degraded", "the check did not end in time"
        status = await peer.call("mgp/health/status")
        assert (status["pending_requests"], status["checks"]) == (4, {"disk": False})
    finally:
        gate.set()
    await asyncio.gather(*(call.answer for call in calls))
    assert (await peer.call("mgp/health/status"))["checks"] == {"disk": True}
    assert (await peer.call("mgp/health/ping"))["status"] == "healthy"
    server.close()


async def test_a_failed_check_degrades_and_a_critical_one_makes_unhealthy() -> None:
    server, well = Server("checked"), {"cache": False, "database": True}

    @server.health_check
    async def cache() -> bool:
        return well["cache"]

    @server.health_check(name="database", critical=True)
    def connected() -> None:
        if not well["database"]:
            raise ConnectionError

    peer = Peer(server, capabilities=LIFECYCLE)
    first = await peer.call("mgp/health/status")
    assert (first["status"], first["checks"]) == ("degraded", {"cache": False, "database": True})
    well["database"] = False
    assert (await peer.call("mgp/health/status"))["status"] == "unhealthy"
    assert (await peer.call("mgp/health/ping"))["status"] == "unhealthy", "a ping says what the last checks said"
    with pytest.raises(DefinitionError, match="already"):
        server.health_check(name="database")(lambda: True)
    with pytest.raises(DefinitionError, match="parameters"):
        server.health_check(name="other")(lambda needed: needed)


@pytest.mark.parametrize("modern", [True, False])
async def test_a_shutdown_lets_calls_finish_and_refuses_new_ones(modern: bool) -> None:
    server, gate = Server("ending"), asyncio.Event()

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "waited"

    peer = Peer(server, capabilities=LIFECYCLE)
    if not modern:
        await peer.legacy()
    call = peer.start("tools/call", name="wait", arguments={})[1]
    ended = asyncio.ensure_future(server.wait_for_shutdown())
    accepted = await peer.call("mgp/lifecycle/shutdown", reason="idle_timeout", timeout_ms=60_000)
    assert (accepted["accepted"], accepted["pending_requests"]) == (True, 1)
    assert 0 < accepted["estimated_drain_ms"] <= 60_000
    with pytest.raises(Refusal) as refused:
        await peer.call("tools/list")
    assert (refused.value.code, refused.value.data["name"]) == (2001, "SERVER_DRAINING")
    assert (await peer.call("mgp/health/status"))["pending_requests"] == 1
    assert not ended.done()
    gate.set()
    assert (await call.answer)["content"][0]["text"] == "waited"
    await ended
    told = [params["new_state"] for method, params in peer.heard if method == "notifications/mgp.lifecycle"]
    assert told == ([] if modern else ["draining"]), "nothing is sent unasked to a client of the stateless era"


async def test_t60_a_client_over_http_does_not_shut_a_server_down() -> None:
    server = Server("public")
    identity = Identity("visitor", "1", msgspec.json.encode(LIFECYCLE))
    async with server.http() as address:
        connection = await Connection.open(to_url(address.url), Peer(server), identity)
        with pytest.raises(Fault) as refused:
            await connection.request("mgp/lifecycle/shutdown", {})
        assert refused.value.foreign_code == 1000
        await connection.request("tools/list")
        await connection.close()


@pytest.mark.parametrize("offer", [{}, {"mgp": {"version": "0.2.0", "extensions": ["security"]}}])
async def test_a_client_that_did_not_agree_finds_no_such_method(offer: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        await Peer(Server("plain"), capabilities=offer).call("mgp/health/ping")
    assert refused.value.code == -32601
