"""A client that writes and reads plain bytes, and a service whose requests the test answers itself."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.transports.exchange import AdmittedCaller, Exchange, TransportSession
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import HttpServer, start
from interlock.transports.large_reading import LargeReading
from interlock.transports.sessions.registry import SessionLimits, SessionRegistry
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import Notification

MODERN = "2026-07-28"
PATIENCE_S = 120.0


class NamedCaller(msgspec.Struct, frozen=True):
    """A caller."""

    principal_name: str


class WaitingService:
    """Answers `echo` at once; every other request waits in `asked` for the test."""

    def __init__(self, limits: SessionLimits | None = None) -> None:
        limits = limits or SessionLimits()
        self.asked: asyncio.Queue[Exchange] = asyncio.Queue()
        self.heard: list[Notification] = []
        self.sessions: list[TransportSession] = []
        self.over: list[TransportSession] = []
        self.registry: SessionRegistry[TransportSession] = SessionRegistry(
            limits, time.monotonic, self.sessions.append, self._on_session_ended
        )
        self.paths: list[str] = []
        self.served = 0
        self.one_over = asyncio.Event()

    worker = Worker("ntest")

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> AdmittedCaller:
        self.paths.append(path)
        said = headers.get(b"authorization", b"Bearer anyone").removeprefix(b"Bearer ").decode()
        if said == "nobody":
            raise Fault("AUTH_REQUIRED", "who are you?")
        if said == "busy":
            raise Fault("RATE_LIMITED", "later", retry_after_ms=2500)
        return NamedCaller(said)

    def prepare_session(self, caller: AdmittedCaller, dialect: Dialect) -> None:
        pass

    def open_session(
        self, channel: SessionChannel, caller: AdmittedCaller, dialect: Dialect
    ) -> tuple[TransportSession, bytes]:
        session = TransportSession(self.worker.new_id(), channel, caller, dialect)
        self.registry.open(session)
        version = dialect.revision.name
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "service"}}
        return session, msgspec.json.encode(result)

    def resume_session(self, channel: SessionChannel, id: str, caller: AdmittedCaller) -> TransportSession | None:
        return None

    def end_session(self, session: TransportSession, event: SessionEvent, reason: str) -> None:
        self.registry.end(session, event, reason)

    def serve(self, exchange: Exchange) -> None:
        self.served += 1
        match exchange.preview.name:
            case "echo":
                exchange.result(b'{"said":"echo"}')
            case "unknown":
                exchange.fail(Fault("METHOD_NOT_FOUND", "no such thing"))
            case "broken":
                raise ZeroDivisionError
            case _:
                self.asked.put_nowait(exchange)

    def on_notification(
        self, caller: AdmittedCaller, session: TransportSession | None, notification: Notification
    ) -> None:
        self.heard.append(notification)

    def check_rate(self, caller: AdmittedCaller) -> None:
        pass

    def count_malformed(self, caller: AdmittedCaller) -> None:
        pass

    def _on_session_ended(self, session: TransportSession, event: SessionEvent) -> None:
        self.over.append(session)
        self.one_over.set()

    async def next(self) -> Exchange:
        """The next request that waits."""
        return await asyncio.wait_for(self.asked.get(), PATIENCE_S)


class RunningEndpoint(msgspec.Struct):
    """A service and where it listens."""

    service: WaitingService
    server: HttpServer
    endpoint: McpEndpoint

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def connect(self) -> Peer:
        return Peer(self.host, *await asyncio.open_connection("127.0.0.1", self.server.port))

    @contextlib.asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        peer = await self.connect()
        try:
            yield peer
        finally:
            await peer.close()

    async def handshake(
        self, version: str = "2025-11-25", principal_name: str = "anyone", **capabilities: Any
    ) -> Client:
        """A client with an open session."""
        client = Client(self, principal_name, version)
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
        answer = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert answer.status == 200
        client.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        client.headers["MCP-Protocol-Version"] = version
        await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client


@contextlib.asynccontextmanager
async def opened(
    service: WaitingService, bounds: HttpBounds | None = None, limits: Limits = DEFAULT, **more: Any
) -> AsyncIterator[RunningEndpoint]:
    """A service that listens."""
    bounds = bounds or HttpBounds()
    endpoint = McpEndpoint(service, limits, bounds)
    server = await start(endpoint, app, bounds=bounds, limits=limits, **more)
    try:
        yield RunningEndpoint(service, server, endpoint)
    finally:
        await server.stop(0)


@contextlib.contextmanager
def reading_delayed() -> Iterator[threading.Event]:
    """No large message is read until the event is set."""
    go_on = threading.Event()

    def wait(payload: bytes) -> bytes:
        go_on.wait()
        return payload

    LargeReading.here().work("another", b"", wait, lambda _: None)
    try:
        yield go_on
    finally:
        go_on.set()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The rest of the house: repeats the body of a request."""
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    body = scope["path"].encode() + b" " + body
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class Answer(msgspec.Struct):
    """A response's beginning, and its body where it has a length."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def streams(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"


class Peer:
    """One connection."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.host = host
        self.reader = reader
        self.writer = writer
        self._events = b""

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> Answer:
        """The next response, up to its body if it is a stream."""
        async with asyncio.timeout(PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
            return Answer(int(first.split()[1]), headers, body)

    async def event(self) -> dict[str, str]:
        """The next event of a chunked stream that is not a comment; empty at the stream's end."""
        while True:
            while b"\n\n" not in self._events:
                chunk = await self.chunk()
                if not chunk:
                    return {}
                self._events += chunk
            block, _, self._events = self._events.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            if fields:
                return fields

    async def chunk(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Client:
    """A client of the handshake era: every message on a connection of its own."""

    def __init__(self, place: RunningEndpoint, principal_name: str, version: str) -> None:
        self.place = place
        self.version = version
        self.headers = {"Authorization": f"Bearer {principal_name}"}

    async def post(self, message: object) -> Answer:
        async with self.place.peer() as peer:
            peer.send(post(self.place.host, message, self.headers))
            return await peer.answer()

    async def open(self, message: object) -> Peer:
        """Send, and leave the connection open."""
        peer = await self.place.connect()
        peer.send(post(self.place.host, message, self.headers))
        return peer

    async def listen(self, last_event: str | None = None) -> Peer:
        peer = await self.place.connect()
        more = {} if last_event is None else {"Last-Event-ID": last_event}
        peer.send(request("GET", self.place.host, self.headers | more))
        return peer


def request(method: str, host: str, headers: Mapping[str, str], body: bytes | None = None, path: str = "/mcp") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    if "Accept" not in headers:
        lines.append("Accept: application/json, text/event-stream")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def post(host: str, message: object, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> bytes:
    body = message if isinstance(message, bytes) else msgspec.json.encode(message)
    return request("POST", host, {"Content-Type": "application/json"} | dict(headers or {}), body, path)


def call(name: str, id: int | str = 1, **params: object) -> dict[str, object]:
    """A `tools/call` of the handshake era."""
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}, **params}}


def modern(host: str, name: str = "echo", id: int | str = 1, method: str = "tools/call", **headers: str) -> bytes:
    """A request of the stateless era with its headers, as bytes. `headers` replace or, when empty, remove."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": name, "_meta": meta}}
    said = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": name}
    said |= {key.replace("_", "-"): value for key, value in headers.items()}
    return post(host, message, {key: value for key, value in said.items() if value})
