"""A web server that does to each request what the test says, byte by byte, and remembers what came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from interlock.client.sinks import FutureSink
from interlock.transports.http.client.link import HttpLink
from interlock.transports.link import Outgoing
from interlock.wire.errors import Fault
from interlock.wire.messages import Request, Result

Json = dict[str, object] | None
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ReceivedRequest:
    """One request as it came, and the way back."""

    def __init__(self, head: bytes, body: bytes, connection: int, streams: Streams) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.verb, self.target, _ = first.split(" ")
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self.message = msgspec.json.decode(body) if body else {}
        self.connection = connection
        self._reader, self._writer = streams

    @property
    def id(self) -> int:
        return self.message["id"]

    async def raw(self, data: bytes) -> None:
        if self._writer.is_closing():  # uvloop raises an error of its own kind
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)
        await self._writer.drain()

    async def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode()
        await self.raw(head + body)

    async def result(self, result: object = None, **headers: str) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": self.id, "result": result or {}})
        await self.reply(200, body, Content_Type="application/json", **headers)

    async def stream(self) -> None:
        await self.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )

    async def event(self, message: object = None, id: str = "", retry: int | None = None) -> None:
        text = f"id: {id}\n" if id else ""
        text += f"retry: {retry}\n" if retry is not None else ""
        text += f"data: {msgspec.json.encode(message).decode()}\n\n" if message is not None else "data:\n\n"
        await self.chunk(text.encode())

    async def answer(self, result: object = None) -> None:
        await self.event({"jsonrpc": "2.0", "id": self.id, "result": result or {}})

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    def hang_up(self) -> None:
        self._writer.close()

    async def gone(self) -> None:
        """Wait until the client has hung up."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read()


Script = Callable[[ReceivedRequest], Awaitable[None]]


class WebPeer:
    """The server."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.visits: list[ReceivedRequest] = []
        self.connections = 0
        self.open = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        number = self.connections
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
                visit = ReceivedRequest(head, b"", number, (reader, writer))
                length = int(visit.headers.get("content-length", "0"))
                visit = ReceivedRequest(head, await reader.readexactly(length), number, (reader, writer))
                self.visits.append(visit)
                await self.script(visit)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    def methods(self) -> list[str]:
        return [visit.message.get("method", visit.verb) for visit in self.visits]


class RecordingListener:
    """Hears everything that belongs to no request."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, bytes]] = []
        self.questions: asyncio.Queue[Request] = asyncio.Queue()
        self.lines: list[str] = []
        self.ends: list[Fault] = []
        self.heard = asyncio.Event()

    def on_notification(self, method: str, params: bytes) -> None:
        self.notes.append((method, params))
        self.heard.set()

    def on_request(self, request: Request) -> None:
        self.questions.put_nowait(request)

    def on_closed(self, fault: Fault) -> None:
        self.ends.append(fault)

    def on_log(self, stream: str, text: str) -> None:
        self.lines.append(text)


class LinkPeer:
    """A link to such a server."""

    def __init__(self, web: WebPeer, link: HttpLink, listener: RecordingListener) -> None:
        self.web = web
        self.link = link
        self.listener = listener
        self.notes: list[tuple[str, bytes]] = []
        self.questions: asyncio.Queue[Request] = asyncio.Queue()
        self.handle: object = None

    def start(
        self, method: str = "tools/call", params: Json = None, seconds: float = 120, **more: object
    ) -> FutureSink:
        """Send a request; nobody has to wait for its answer."""
        waiting = FutureSink(lambda *note: self.notes.append(note), self.questions.put_nowait)
        waiting.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        outgoing = Outgoing(method, msgspec.json.encode(params or {}), asyncio.get_running_loop().time() + seconds)
        for name, value in more.items():
            setattr(outgoing, name, value)
        self.handle = self.link.send(outgoing, waiting)
        return waiting

    async def ask(self, method: str = "tools/call", params: Json = None, **more: object) -> dict[str, object]:
        answer = await self.start(method, params, **more).future
        assert isinstance(answer, Result)
        return msgspec.json.decode(answer.result)

    async def lose(self, method: str = "tools/call", params: Json = None, **more: object) -> Fault:
        with pytest.raises(Fault) as lost:
            await asyncio.wait_for(self.start(method, params, **more).future, 120)
        return lost.value


Open = Callable[..., Awaitable[LinkPeer]]


@asynccontextmanager
async def opened(script: Script, **options: object) -> AsyncIterator[LinkPeer]:
    web = WebPeer(script)
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0)
    web.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    listener = RecordingListener()
    link = HttpLink(web.url, listener, **options)
    try:
        yield LinkPeer(web, link, listener)
    finally:
        await link.close()
        server.close()
