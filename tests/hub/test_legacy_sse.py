"""The transport of revision 2024-11-05, on both sides of the hub, with the official SDK at the other end of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import uvicorn
from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from interlock.client import Client
from interlock.client.dial import to_service
from interlock.client.handlers import Handlers
from interlock.client.sinks import FutureSink
from interlock.config.settings import ServerSettings
from interlock.hub.node_id import node_id
from interlock.transports.exchange import Service
from interlock.transports.http.client.link import HttpLink
from interlock.transports.http.client.origin import Origin
from interlock.transports.http.client.sse_client import SseLink
from interlock.transports.link import Outgoing
from interlock.wire.errors import Fault
from interlock.wire.messages import Request
from unread_answers import FEW_MEMBERS, UNREAD

from .asking_server import Counts, asking_server
from .modern_client import ModernClient
from .running_hub import RawClient, RunningHub, child, running_hub, text_of, until


class Age(BaseModel):
    years: int = 7


@contextlib.asynccontextmanager
async def official_sse_server() -> AsyncIterator[str]:
    """The SDK's own server, over HTTP+SSE alone."""
    server = MCPServer("official")

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask the person behind the client."""
        answer = await ctx.elicit("How old?", Age)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    @server.tool()
    async def wait() -> str:
        """Never come back."""
        await asyncio.sleep(600)
        return "late"

    warnings.simplefilter("ignore")
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(server.sse_app(), log_level="error", timeout_graceful_shutdown=1))
    task = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        await until(lambda: running.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/sse"
    finally:
        running.should_exit = True
        await task


@contextlib.asynccontextmanager
async def official_sse_client(hub: RunningHub, key: str | None = None) -> AsyncIterator[ClientSession]:
    async def elicited(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "ada"})

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        sse_client(hub.url + "/sse", headers=headers) as (reading, writing),
        ClientSession(reading, writing, elicitation_callback=elicited) as session,
    ):
        await session.initialize()
        yield session


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_sse_client_calls_and_is_asked_through_the_hub(tmp_path: Path, era: Any) -> None:
    async with running_hub(tmp_path, {"a": child("asking_server.py", era=era)}) as hub:
        async with official_sse_client(hub, hub.key("ada")) as session:
            assert "a__order" in {tool.name for tool in (await session.list_tools()).tools}
            answer = await session.call_tool("a__order", {})
            assert isinstance(answer.content[0], types.TextContent)
            assert '"name": "ada"' in answer.content[0].text
        await until(lambda: len(hub.endpoint.legacy_sse) == 0)


async def test_a_server_that_only_has_sse_is_found_out_and_asks_clients_of_both_eras(tmp_path: Path) -> None:
    async with official_sse_server() as url, running_hub(tmp_path, {"o": ServerSettings(url=url)}) as hub:
        reply = {"elicitation/create": {"action": "accept", "content": {"years": 5}}}
        assert text_of(await ModernClient(hub.url + "/mcp", reply).call("o__ask")) == "accept years=5"
        hanging = asyncio.ensure_future(RawClient(hub.url + "/mcp").modern("tools/call", {"name": "o__wait"}))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        hanging.cancel()
        await until(lambda: hub.hub_app.hub.open_calls == 0)


async def test_the_messages_of_a_stream_are_its_openers_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child("asking_server.py")}) as hub:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(hub.url.rpartition(":")[2]))
        try:
            host = hub.url.removeprefix("http://")
            head = f"GET /servers/a/sse HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {hub.key('ada')}\r\n\r\n"
            writer.write(head.encode())
            while not (line := await reader.readline()).startswith(b"data:"):
                pass
            address = line[5:].strip().decode()
            assert address.startswith("/servers/a/messages/")
            ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
            thief = RawClient(hub.url + address, hub.key("bob"))
            nobody = RawClient(hub.url + address[:-3] + "abc", hub.key("bob"))
            stolen, unknown = await thief.post(ping), await nobody.post(ping)
            assert stolen[0] == unknown[0] == 404
            assert stolen[2] == unknown[2]
            assert (await RawClient(hub.url + address, "wrong").post(ping))[0] == 401
            # The id names its node, so that a message which reaches another one is told where it belongs.
            node = node_id(tmp_path / "home")
            assert address.startswith(f"/servers/a/messages/{node}.w0.")
            elsewhere = RawClient(hub.url + address.replace(node, "nother"), hub.key("ada"))
            status, _, body = await elsewhere.post(ping)
            assert (status, f"at nother.w0; this is {node}.w0".encode() in body) == (404, True), body
            assert (await RawClient(hub.url + address).send("POST", ping, {"origin": "https://evil.example"}))[0] == 403
            assert (await RawClient(hub.url + "/sse").send("POST", ping))[0] == 405
            assert (await RawClient(hub.url + "/sse").send("GET", b"", {"host": "evil.example"}))[0] == 403
        finally:
            writer.close()
        await until(lambda: len(hub.endpoint.legacy_sse) == 0)


async def test_a_client_that_goes_cancels_what_it_had_under_way(tmp_path: Path) -> None:
    counts = Counts()
    async with (
        asking_server(counts).http() as address,
        running_hub(tmp_path, {"a": ServerSettings(url=address.url)}) as hub,
    ):
        async with official_sse_client(hub) as session:
            task = asyncio.create_task(session.call_tool("a__hang", {"mark": "x"}))
            await until(lambda: counts.runs["x"] == 1)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await until(lambda: counts.ended["cancelled x"] == 1)
        assert hub.hub_app.hub.open_calls == 0


async def test_an_endpoint_at_another_origin_is_not_gone_to() -> None:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readline()).startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: http://evil.example/messages\n\n")
        else:
            writer.write(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(lie, "127.0.0.1", 0) as liar:
        url = f"http://127.0.0.1:{liar.sockets[0].getsockname()[1]}/sse"
        with pytest.raises(Fault, match="another origin"):
            await SseLink.open(url, None)  # type: ignore[arg-type]
        with pytest.raises(Fault, match="HTTP 405"):
            async with Client(url):
                pass


async def test_t13_a_server_is_reached_where_its_guard_says_by_the_older_transport_too() -> None:
    """A name that was good for the newer transport may lead elsewhere a moment later."""

    async def guard(origin: Origin) -> str:
        assert origin.host == "nowhere.invalid"
        return "127.0.0.1"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(b"event: endpoint\ndata: /messages/1\n\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        newer = HttpLink(f"http://nowhere.invalid:{port}/sse", _NullListener(), guard=guard)
        older = await newer.legacy_sse()
        await older.close()
        await newer.close()


@pytest.mark.parametrize(("message", "reason"), UNREAD.values(), ids=UNREAD.keys())
async def test_the_caller_gets_the_reason_why_an_answer_cannot_be_read(message: bytes, reason: str) -> None:
    posted: list[dict[str, Any]] = []
    streams: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            streams.append(writer)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /messages/1\n\n")
        else:
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            posted.append(msgspec.json.decode(await reader.readexactly(length)))
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            streams[0].write(b"event: message\ndata: " + message % posted[0]["id"] + b"\n\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
        link = await SseLink.open(url, _NullListener(), limits=FEW_MEMBERS)
        waiting = FutureSink(lambda *_: None, lambda _: None)
        link.send(Outgoing("tools/list", b"{}", asyncio.get_running_loop().time() + 120), waiting)
        with pytest.raises(Fault, match=f"^its answer cannot be read: {re.escape(reason)}"):
            await waiting.future
        await link.close()
    assert [message["method"] for message in posted] == ["tools/list"], "the server gets no answer to an answer"


class _NullListener:
    """Hears nothing."""

    def on_notification(self, method: str, params: bytes) -> None:
        pass

    def on_request(self, request: Request) -> None:
        pass

    def on_closed(self, fault: Fault) -> None:
        pass

    def on_log(self, stream: str, text: str) -> None:
        pass


async def test_sessions_without_an_address_share_nothing_either(tmp_path: Path) -> None:
    """On standard streams and in memory a session has no id that a client knows; the hub must tell them apart."""

    def answering(name: str) -> Handlers:
        async def elicited(params: dict[str, object]) -> dict[str, object]:
            return {"action": "accept", "content": {"name": name}}

        return Handlers(elicit_form=elicited)

    async with (
        running_hub(tmp_path, {"a": child("asking_server.py", era="legacy")}) as hub,
        contextlib.AsyncExitStack() as stack,
    ):
        said = []
        for name in ("ada", "bob"):
            service = _DirectCaller(hub, hub.hub_app.authenticator.admit_key(hub.key(name), "/mcp"))
            client = Client(to_service(cast(Service, service)), handlers=answering(name), era="legacy")
            await stack.enter_async_context(client)
            said.append((await client.call_tool("a__order"))["content"])
        assert "ada" in msgspec.json.encode(said[0]).decode()
        assert "bob" in msgspec.json.encode(said[1]).decode()
        assert len(hub.hub_app.upstreams["a"].pool.private.open_connections()) == 2


class _DirectCaller:
    """The hub as one caller meets it, without a transport in between."""

    def __init__(self, hub: RunningHub, caller: Any) -> None:
        self._caller = caller
        for name in ("open_session", "serve", "on_notification", "end_session"):
            setattr(self, name, getattr(hub.hub_app.hub, name))

    def admit(self, path: str, headers: Any) -> Any:
        return self._caller
