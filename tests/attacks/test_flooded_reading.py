"""Clients without a key that send many requests, or a body in many chunks, in one go: the calls of others pass between.

The attacker is a thread with sockets of its own. The loop's work is measured in its thread's own time, and against the
cost of one request, so that neither the load nor the speed of a machine matters.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, RunningHub, running_hub
from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings
from turn_meter import metered

SETTINGS = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60))
MANY = 6_000
MOST = 200
"""A turn may cost as much as so many requests of the flood: one read of the socket holds ten times as many."""


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param and sys.platform == "win32":
        pytest.skip("there is no uvloop")
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """The collector's turns depend on how much the tests before this one left behind."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with (
        RawHttpServer() as web,
        running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}, hub=SETTINGS) as hub,
    ):
        yield hub


@pytest.mark.parametrize(
    ("verb", "body"),
    [("POST", b"{"), ("POST", b'{"jsonrpc":"2.0","id":1,"method":"ping"}'), ("OPTIONS", b"")],
    ids=["malformed", "ping", "options"],
)
async def test_t38_calls_of_others_pass_between_pipelined_requests(hub: RunningHub, verb: str, body: bytes) -> None:
    client = RawClient(hub.url + "/mcp")
    await client.initialize()
    port = int(hub.url.rpartition(":")[2])
    head = f"{verb} /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    head += f"accept: application/json, text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    passed = 0
    with metered(lambda: 0) as meter:
        flood = asyncio.create_task(asyncio.to_thread(_flood, port, head.encode() + body))
        while not flood.done():
            assert "result" in await client.legacy("tools/call", {"name": "web__ok", "arguments": {}})
            passed += 1
    assert await flood == MANY
    assert passed > 5
    one = meter.spent_s / MANY
    assert meter.dearest_s < MOST * one, f"a turn cost as much as {meter.dearest_s / one:.0f} requests"


def _flood(port: int, request: bytes) -> int:
    """The answers to the same request, many times in one go."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        sender = threading.Thread(target=line.sendall, args=(request * MANY,))
        sender.start()
        answered, tail = 0, b""
        while answered < MANY and (piece := line.recv(1 << 20)):
            seen = tail + piece
            answered += seen.count(b"HTTP/1.1 ")
            tail = seen[-8:]
        sender.join()
        return answered
