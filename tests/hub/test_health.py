"""Health as clients of the hub read it: the hub's own at `/mcp`, and each server's at its own address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.config.settings import ServerSettings

from .running_hub import MGP, RawClient, RunningHub, child, running_hub, until

DOWN = ServerSettings(command=("/nonexistent/program",))


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    servers = {"busy": child("busy_server.py"), "down": DOWN}
    async with running_hub(tmp_path_factory.mktemp("health"), servers, wait=False) as running:
        upstreams = running.hub_app.upstreams
        await until(lambda: upstreams["busy"].usable and upstreams["down"].problem is not None)
        yield running


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def asked(hub: RunningHub, method: str, key: str | None = None, path: str = "/mcp", **params: Any) -> Any:
    return (await RawClient(hub.url + path, key).modern(method, params))["result"]


async def test_the_hub_reports_itself_and_a_servers_address_that_server(hub: RunningHub) -> None:
    ping = await asked(hub, "mgp/health/ping")
    assert (ping["status"], ping["server_id"]) == ("degraded", "interlock"), "a server that it shows is down"
    for server, status in (("busy", "healthy"), ("down", "unhealthy")):
        ping = await asked(hub, "mgp/health/ping", path=f"/servers/{server}/mcp")
        assert (ping["status"], ping["server_id"]) == (status, server)
    status = await asked(hub, "mgp/health/status")
    assert status["tools_available"] == status["tools_total"] > 0
    assert status["checks"] == {"keys": True, "audit": True}
    down = {"state": hub.hub_app.upstreams["down"].state.value, "health": "down"}
    assert status["resources"]["servers"] == {"busy": {"state": "connected", "health": "healthy"}, "down": down}


async def test_a_session_asks_the_same(hub: RunningHub) -> None:
    client = RawClient(hub.url + "/servers/busy/mcp")
    await client.initialize(MGP)
    assert (await client.legacy("mgp/health/ping"))["result"]["status"] == "healthy"
    status = (await client.legacy("mgp/health/status"))["result"]
    assert status["tools_total"] == len((await client.legacy("tools/list"))["result"]["tools"])


async def test_t61_nobody_learns_of_servers_that_their_lists_do_not_show(hub: RunningHub) -> None:
    key = hub.key("narrow")
    await hub.deny("narrow", "down")
    assert (await asked(hub, "mgp/health/ping", key))["status"] == "healthy"
    await hub.deny("narrow", "busy")
    status = await asked(hub, "mgp/health/status", key)
    assert (status["tools_total"], status["resources"]) == (0, {"servers": {}})
    there, nowhere = [
        (await RawClient(hub.url + f"/servers/{name}/mcp", key).modern("mgp/health/ping"))["error"]
        for name in ("down", "nowhere")
    ]
    assert {**there, "message": ""} == {**nowhere, "message": ""}
