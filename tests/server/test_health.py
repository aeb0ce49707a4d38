"""`mgp/health/ping` and `mgp/health/status` of a server: answered while tools block, with the author's checks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from peer import Peer, Refusal

from interlock.server import Server
from interlock.server import health as health_module
from interlock.signatures import DefinitionError

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


@pytest.mark.parametrize("offer", [{}, {"mgp": {"version": "0.2.0", "extensions": ["security"]}}])
async def test_a_client_that_did_not_agree_finds_no_such_method(offer: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        await Peer(Server("plain"), capabilities=offer).call("mgp/health/ping")
    assert refused.value.code == -32601
