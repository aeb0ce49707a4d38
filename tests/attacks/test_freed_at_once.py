"""With the collector off: whatever a closed connection held is freed by reference counts alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from hub.running_hub import RunningHub, child, running_hub, until
from interlock.client import Client
from interlock.config.settings import AgentSettings, HubSettings
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.forwarder import Forwarder
from interlock.server import Server
from interlock.transports.exchange import SessionExchange
from interlock.transports.http.client.channel import HttpChannel
from interlock.transports.http.server.asgi import AsgiRequest
from interlock.transports.http.server.connection import HttpConnection
from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.request_reader import RequestReader
from interlock.transports.http.server.response_writer import ResponseWriter
from interlock.transports.sessions.session import SessionChannel, TransportSession
from interlock.transports.stdio.server import StdioServer

from .hub_process import META

KINDS = (
    HttpConnection,
    RequestReader,
    ResponseWriter,
    HttpChannel,
    HttpRequest,
    AsgiRequest,
    SessionExchange,
    SessionChannel,
    TransportSession,
    Call,
    Forwarder,
    StdioServer,
)
LARGE = "x" * 200_000
LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


def framed(port: int, method: str, path: str, body: bytes, *more: str) -> bytes:
    said = ("accept: application/json, text/event-stream", "content-type: application/json", *more)
    lines = (f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", f"content-length: {len(body)}", *said, "", "")
    return "\r\n".join(lines).encode() + body


def call(name: str, meta: dict[str, object] = META) -> bytes:
    params = {"name": name, "arguments": {"text": LARGE}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode()


async def ask(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            return await reader.read(65_536)
    finally:
        writer.close()
    return b""


async def modern(port: int, tool: str) -> None:
    more = ("mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", f"mcp-name: {tool}")
    assert b'"id":2' in await ask(port, framed(port, "POST", "/mcp", call(tool), *more))


async def unknown_tool(port: int, tool: str) -> None:
    more = ("mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: nothing")
    assert await ask(port, framed(port, "POST", "/mcp", call("nothing"), *more))


async def wrong_json(port: int, tool: str) -> None:
    assert b" 400 " in await ask(port, framed(port, "POST", "/mcp", LARGE.encode()))


async def wrong_key(port: int, tool: str) -> None:
    await ask(port, framed(port, "POST", "/mcp", call(tool), "authorization: Bearer ilk_wrong"))


async def cut_off(port: int, tool: str) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(framed(port, "POST", "/mcp", call(tool))[:-1000])
    await writer.drain()
    writer.close()


async def with_delete(port: int, tool: str) -> None:
    await ask(port, framed(port, "DELETE", "/mcp", call(tool)))


async def rest(port: int, tool: str) -> None:
    assert await ask(port, framed(port, "POST", f"/tools/{tool}", json.dumps({"text": LARGE}).encode()))


async def rest_left(port: int, tool: str) -> None:
    """The client goes while the hub waits for it to read the rest of a long answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1_024)
    writer.write(framed(port, "POST", f"/tools/{tool}", json.dumps({"text": 10 * LARGE}).encode()))
    assert b" 200 " in await reader.read(100)
    writer.close()


async def rest_that_fails(port: int, tool: str) -> None:
    assert await ask(port, framed(port, "POST", f"/tools/{tool}", json.dumps({"no": LARGE}).encode()))


async def rest_cut_off(port: int, tool: str) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(framed(port, "POST", f"/tools/{tool}", json.dumps({"text": LARGE}).encode())[:-1000])
    await writer.drain()
    writer.close()


async def admin(port: int, tool: str) -> None:
    assert await ask(port, framed(port, "POST", "/admin/why", json.dumps({"tool": LARGE}).encode()))


async def session(port: int, tool: str) -> None:
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}).encode()
    answer = await ask(port, framed(port, "POST", "/mcp", hello))
    name = next(line for line in answer.split(b"\r\n") if line.startswith(b"mcp-session-id")).decode()
    more = (name, "mcp-protocol-version: 2025-11-25")
    assert b'"id":2' in await ask(port, framed(port, "POST", "/mcp", call(tool, {}), *more))
    await ask(port, framed(port, "DELETE", "/mcp", b"", *more))


async def sse(port: int, tool: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(framed(port, "GET", "/sse", b""))
    path = (await reader.readuntil(b"\n\n")).split(b"data: ")[1].strip().decode()
    assert b" 202 " in await ask(port, framed(port, "POST", path, call(tool)))
    await reader.readuntil(b'"id":2')
    writer.close()


WAYS: list[Callable[[int, str], object]] = [
    modern,
    unknown_tool,
    wrong_json,
    wrong_key,
    cut_off,
    with_delete,
    rest,
    rest_left,
    rest_that_fails,
    rest_cut_off,
    admin,
    session,
    sse,
]
OF_A_SERVER = [modern, unknown_tool, wrong_json, cut_off, with_delete, rest, rest_cut_off, session, sse]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(anonymous=True)) as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
async def test_t37_a_hub_frees_a_request_when_its_connection_closes(
    hub: RunningHub, way: Callable[..., object]
) -> None:
    await check(int(hub.url.rpartition(":")[2]), "busy__echo", way)


@pytest.mark.parametrize("way", OF_A_SERVER)
async def test_t37_a_server_frees_a_request_when_its_connection_closes(way: Callable[..., object]) -> None:
    server = Server("one", "1")

    @server.tool
    def echo(text: str) -> int:
        return len(text)

    async with server.http() as address:
        await check(address.port, "echo", way)


async def test_t37_a_hub_frees_a_call_that_waits_for_an_approval_when_its_client_goes(tmp_path: Path) -> None:
    agents = {"mine": AgentSettings(ask=("busy__echo",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, agents=agents) as hub:
        key = f"authorization: Bearer {hub.key('mine')}"

        async def waiting(port: int, tool: str) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(framed(port, "GET", "/sse", b"", key))
            path = (await reader.readuntil(b"\n\n")).split(b"data: ")[1].strip().decode()
            params = {"name": tool, "arguments": {"text": "x"}, "_meta": {**META, "progressToken": 1}, "junk": LARGE}
            said = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode()
            assert b" 202 " in await ask(port, framed(port, "POST", path, said, key))
            await reader.readuntil(b"waiting for approval")
            writer.close()

        await check(int(hub.url.rpartition(":")[2]), "busy__echo", waiting)


async def test_t37_a_hub_frees_a_request_that_waits_for_a_task_when_its_client_goes(tmp_path: Path) -> None:
    servers = {"t": child("task_server.py", era="legacy")}
    async with running_hub(tmp_path, servers, hub=HubSettings(anonymous=True)) as hub:
        tasks = hub.hub_app.hub.tasks

        async def waiting(port: int, tool: str) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(framed(port, "GET", "/sse", b""))
            path = (await reader.readuntil(b"\n\n")).split(b"data: ")[1].strip().decode()

            async def say(method: str, params: dict[str, object]) -> None:
                said = json.dumps({"jsonrpc": "2.0", "id": 2, "method": method, "params": params}).encode()
                assert b" 202 " in await ask(port, framed(port, "POST", path, said))

            await say("initialize", LEGACY)
            await say("tools/call", {"name": tool, "arguments": {"mark": "a"}, "task": {"ttl": 600_000}})
            task_id = (await reader.readuntil(b'"status"')).split(b'"taskId":"')[1].split(b'"')[0].decode()
            await say("tasks/result", {"taskId": task_id, "junk": LARGE})
            await until(lambda: tasks.open_requests == 1)
            await say("ping", {})  # The server may have the request by now.
            writer.close()
            await until(lambda: not tasks.open_requests)

        await check(int(hub.url.rpartition(":")[2]), "t__work", waiting)


async def test_t37_a_client_frees_its_connections_when_they_close() -> None:
    server = Server("one", "1")

    @server.tool
    def echo(text: str) -> int:
        return len(text)

    async def through_a_client(port: int, tool: str) -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp", era="modern") as client:
            await client.call_tool(tool, {"text": "x"})

    async with server.http() as address:
        await check(address.port, "echo", through_a_client)


async def check(port: int, tool: str, way: Callable[..., object]) -> None:
    """Three times, after once that makes whatever is made once."""
    await way(port, tool)  # type: ignore[misc]
    with uncollected():
        for _ in range(3):
            await way(port, tool)  # type: ignore[misc]
        # Reference counts free an object as soon as the hub has seen the end of the connection.
        with contextlib.suppress(AssertionError):
            await until(lambda: not left(), within=120)
        assert left() == []


def left() -> list[str]:
    """Objects since the freeze: the collector no longer lists those from before it.

    Their own type is asked: a weak proxy whose object is gone raises when it is asked for its class.
    """
    return [type(each).__name__ for each in gc.get_objects() if issubclass(type(each), KINDS)]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _frozen_until_the_end() -> Iterator[None]:
    """Each freeze adds to the ones before it. Without them, the collector would walk over all tests again each time."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()
