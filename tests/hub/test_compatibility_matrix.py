"""MGP's compatibility matrix: standard and MGP clients with standard and MGP servers, without any configuration.

The peers are the official SDK, a server in plain Python, and our own library, through the hub and without it.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import StdioServerParameters

from interlock.client import Client
from interlock.client.handlers import Handlers
from interlock.config.settings import ServerSettings
from interlock.server import Server
from interlock.wire.errors import Fault

from .running_hub import MGP, RawClient, RunningHub, child, running_hub, until
from .test_changes import opened
from .test_speaking import mgp_of

HANDWRITTEN = str(Path(__file__).with_name("handwritten_server.py"))
EXTENSIONS = ("bidirectional", "lifecycle")
STANDARD = ("sdk", "handwritten")
SPEAKING = ("ours", "handwritten-mgp")
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "sdk": ("ended", {}),
    "handwritten": ("echo", {"a": 2}),
    "handwritten-mgp": ("emit", {"channel": "model.token_usage", "data": {"tokens_used": 1500}}),
    "ours": ("use", {"tokens": 1500}),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    server = Server("ours")
    usage = server.event_channel("model.token_usage")

    @server.tool(security={"risk_level": "safe"})
    async def use(tokens: int) -> int:
        """Use tokens."""
        usage.send({"tokens_used": tokens})
        return tokens

    async with server.http() as address:
        servers = {
            "sdk": child("official_server.py"),
            "handwritten": child("handwritten_server.py"),
            "handwritten-mgp": child("handwritten_server.py", *EXTENSIONS),
            "ours": ServerSettings(url=address.url),
        }
        async with running_hub(tmp_path_factory.mktemp("matrix"), servers) as running:
            yield running


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_standard_client_gets_standard_mcp_from_every_server(hub: RunningHub, mode: Any) -> None:
    warnings.simplefilter("ignore")  # the SDK calls the handshake era deprecated
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(str(message))

    async with mcp.Client(f"{hub.url}/mcp", mode=mode, message_handler=hear) as client:
        listed = [tool.model_dump(exclude_none=True) for tool in (await client.list_tools()).tools]
        assert mgp_of(client.server_capabilities.model_dump(exclude_none=True)) == []
        for server, (tool, arguments) in CALLS.items():
            name = f"{server}__{tool}"
            assert not any("security" in each for each in listed if each["name"] == name)
            result = await client.call_tool(name, arguments)
            assert not result.is_error
            assert "_mgp" not in result.model_dump(exclude_none=True)
    assert "mgp" not in "".join(heard)


@pytest.mark.parametrize("server", STANDARD)
async def test_an_mgp_client_falls_back_at_a_standard_server(hub: RunningHub, server: str) -> None:
    client = RawClient(f"{hub.url}/servers/{server}/mcp", hub.key("mgp"))
    assert mgp_of((await client.initialize(MGP))["result"]["capabilities"])
    assert (await client.legacy("mgp/health/status"))["result"]["status"] == "healthy"
    tool, arguments = CALLS[server]
    tools = {each["name"]: each for each in (await client.legacy("tools/list"))["result"]["tools"]}
    assert tools[tool]["security"]["risk_level"] in ("safe", "moderate", "dangerous"), "the hub judges by itself"
    answer = await client.legacy("tools/call", {"name": tool, "arguments": arguments})
    assert not answer["result"].get("isError")
    wanted = {"channels": ["com.example.unknown"]}
    assert (await client.legacy("mgp/events/subscribe", wanted))["result"]["unsupported"] == ["com.example.unknown"]


@pytest.mark.parametrize("server", SPEAKING)
async def test_an_mgp_client_has_all_of_mgp_at_an_mgp_server(hub: RunningHub, server: str) -> None:
    client = RawClient(f"{hub.url}/servers/{server}/mcp", hub.key("mgp"))
    assert mgp_of((await client.initialize(MGP))["result"]["capabilities"])
    assert (await client.legacy("mgp/health/status"))["result"]["status"] == "healthy"
    tool, arguments = CALLS[server]
    async with opened(client, "GET", b"", {}) as stream:
        wanted = {"channels": ["model.token_usage"]}
        assert (await client.legacy("mgp/events/subscribe", wanted))["result"]["subscribed"] == ["model.token_usage"]
        await client.legacy("tools/call", {"name": tool, "arguments": arguments})
        await until(lambda: any(each.get("method") == "notifications/mgp.event" for each in stream.heard))
    event = next(each["params"] for each in stream.heard if each.get("method") == "notifications/mgp.event")
    assert (event["server_id"], event["data"]["tokens_used"]) == (server, 1500)


async def test_the_four_patterns_hold_without_the_hub_too() -> None:
    """Our client and the SDK's, with the server in plain Python: standard, and with MGP."""
    warnings.simplefilter("ignore")
    events: asyncio.Queue[Any] = asyncio.Queue()
    speaking, plain = (sys.executable, HANDWRITTEN, *EXTENSIONS), (sys.executable, HANDWRITTEN)
    async with Client(list(speaking), handlers=Handlers(event=events.put_nowait), era="legacy") as client:
        assert (await client.subscribe_events("model.token_usage")).subscribed == ["model.token_usage"]
        await client.call_tool(*CALLS["handwritten-mgp"])
        assert (await events.get())["data"]["tokens_used"] == 1500
    async with Client(list(plain), handlers=Handlers(event=events.put_nowait), era="legacy") as client:
        with pytest.raises(Fault):
            await client.subscribe_events("model.token_usage")
        assert (await client.call_tool(*CALLS["handwritten"]))["content"]
    for command in (speaking, plain):
        peer = StdioServerParameters(command=command[0], args=list(command[1:]))
        async with mcp.Client(peer, mode="legacy") as standard:
            assert mgp_of(standard.server_capabilities.model_dump(exclude_none=True)) == []
            assert not (await standard.call_tool(*CALLS["handwritten"])).is_error
