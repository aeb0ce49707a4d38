"""The first list of a client that started the hub itself has the tools of servers that are still starting."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings

from .running_hub import RawClient, running_hub, text_of, until
from .test_waiting_for_a_server import Gated

PATIENT = HubSettings(timeouts=TimeoutSettings(first_list_s=120, start_s=120, discovery_s=60, tool_s=60))
HASTY = HubSettings(timeouts=TimeoutSettings(first_list_s=0.05, start_s=120, discovery_s=60, tool_s=60))


@pytest.mark.parametrize("address", ["/mcp", "/servers/web/mcp"])
async def test_the_first_list_waits_for_servers_that_are_starting(tmp_path: Path, address: str) -> None:
    dead = ServerSettings(command=("/does/not/exist",))
    async with Gated() as web:
        web.gate.clear()
        servers = {"web": ServerSettings(url=web.url, era="legacy"), "dead": dead}
        async with running_hub(tmp_path, servers, wait=False, hub=PATIENT) as hub:
            client = RawClient(hub.url + address)
            await client.initialize()
            listed = asyncio.create_task(client.legacy("tools/list"))
            found = asyncio.create_task(RawClient(hub.url + address).modern("tools/list"))
            await until(lambda: hub.hub_app.hub.background_tasks == 2 or listed.done() or found.done())
            web.gate.set()
            names = {tool["name"] for tool in (await listed)["result"]["tools"]}
            assert names & {"web__ok", "ok"}
            assert names == {tool["name"] for tool in (await found)["result"]["tools"]}


async def test_a_server_that_starts_too_slowly_is_listed_with_its_last_approved_tools(tmp_path: Path) -> None:
    async with Gated() as web:
        servers = {"web": ServerSettings(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=HASTY):
            pass
        web.gate.clear()
        async with running_hub(tmp_path, servers, wait=False, hub=HASTY) as hub:
            client = RawClient(hub.url + "/mcp")
            await client.initialize()
            tools = (await client.legacy("tools/list"))["result"]["tools"]
            assert "web__ok" in {tool["name"] for tool in tools}
            call = asyncio.create_task(client.legacy("tools/call", {"name": "web__ok", "arguments": {}}))
            web.gate.set()
            assert text_of(await call) == "fine"
            assert (await client.legacy("tools/list"))["result"]["tools"] == tools


async def test_a_call_of_a_server_that_starts_waits_until_its_tools_are_known(tmp_path: Path) -> None:
    async with Gated() as web:
        web.gate.clear()
        servers = {"web": ServerSettings(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, wait=False, hub=PATIENT) as hub:
            good, unknown = (
                asyncio.create_task(RawClient(hub.url + "/mcp").modern("tools/call", {"name": name, "arguments": {}}))
                for name in ("web__ok", "web__nothing")
            )
            await until(lambda: hub.hub_app.hub.background_tasks == 2 or good.done() or unknown.done())
            web.gate.set()
            assert text_of(await good) == "fine"
            assert "Unknown tool" in (await unknown)["error"]["message"]


async def test_a_server_with_pinned_tools_is_not_waited_for(tmp_path: Path) -> None:
    async with Gated() as web:
        servers = {"web": ServerSettings(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=PATIENT):
            pass
        web.gate.clear()
        async with running_hub(tmp_path, servers, wait=False, hub=PATIENT) as hub:
            listed = await RawClient(hub.url + "/mcp").modern("tools/list")
            assert "web__ok" in {tool["name"] for tool in listed["result"]["tools"]}
            web.gate.set()
