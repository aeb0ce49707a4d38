"""One HTTP request on an MCP path and the answer it gets. A connection serves its requests one after the other.

Bytes written to a request that is over, or whose client has gone, are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.sessions.session import SessionChannel, SessionEnd
from interlock.wire.large_messages import Outcome
from interlock.wire.sse import KEEP_ALIVE

STREAM_HEADERS: Final = (
    b"content-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n"
)
CLOSE: Final = b"connection: close\r\n"


class RequestHead(msgspec.Struct):
    """A request without its body. Equal requests may share one."""

    method: bytes
    path: str
    headers: dict[bytes, bytes]
    """Names in lower case."""
    keep_alive: bool
    chunked: bool
    """Whether the client understands an answer in chunks."""
    length: int = 0
    """The body's length, where the head names it."""
    fit: bool = False
    """Whether the endpoint has found that it may carry an MCP message."""
    session: SessionChannel | None = None
    """The session that this head names, once the endpoint has found it and checked its version (handshake era)."""
    mirrored: tuple[str, str | None, str | None] | None = None
    """The method, name and version that this head repeats correctly (stateless era)."""


NO_HEAD: Final = RequestHead(b"", "", {}, keep_alive=False, chunked=False)
"""For a request that is refused before its head was understood."""


class AnswerHeads(Protocol):
    """Writes the heads of answers. A listener does."""

    ok_head: bytes
    """The head of a 200 with JSON, up to its length."""

    def render(self, status: int, body: bytes, headers: bytes, keep_alive: bool) -> bytes:
        """A whole answer with its status line and headers."""


class AnswerWriter(Protocol):
    """Writes answers to one client."""

    def write(self, data: bytes) -> None:
        """Write a piece of an answer."""

    def begin_stream(self, request: HttpRequest, headers: bytes) -> None:
        """Write the first bytes of an event stream."""

    def send(self, request: HttpRequest, event: bytes) -> bool:
        """Write an event. False when nobody reads it any more."""

    def streams_to(self, request: HttpRequest) -> bool:
        """Whether the answer to this request is an event stream."""

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""


class RequestConnection(Protocol):
    """The connection that a request is answered on."""

    client: tuple[str, int] | None

    @property
    def listener(self) -> AnswerHeads:
        """The listening address."""

    @property
    def owner(self) -> str:
        """The caller that the endpoint admitted, or the client's address."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that were written and not read by the client."""

    @property
    def writer(self) -> AnswerWriter:
        """Writes to the client."""

    def finish(self, request: HttpRequest, data: bytes) -> None:
        """Write the last bytes of an answer."""

    def on_body_released(self) -> None:
        """The request under way needs its body no more."""


class HttpRequest(msgspec.Struct, eq=False):
    """A request as it came, and the one way to answer it: a body at once, or a stream piece by piece."""

    connection: RequestConnection | None
    """None once the answer is complete or the client has gone."""
    head: RequestHead
    keep_alive: bool
    body: bytes = b""
    refusal: GuardRefusal | None = None
    on_gone: Callable[[], None] | None = None
    """Called when the client goes before the answer is complete."""
    on_stop: Callable[[SessionEnd], None] | None = None
    """Called when the server stops before the answer is complete, for a request without a session: it is answered."""
    message: Outcome | None = None
    """The message read from a large body; the body itself is gone then."""
    owner: str = ""
    """The caller's owner, once the endpoint has admitted the caller with a key. Callers without one may share an owner,
    so their address counts."""

    @property
    def address(self) -> str:
        """The client's address."""
        client = None if self.connection is None else self.connection.client
        return "" if client is None else client[0]

    @property
    def sender(self) -> str:
        """The caller that the endpoint admitted with a key, or the client's address: for whom its bytes count."""
        return "" if self.connection is None else self.connection.owner

    @property
    def received(self) -> int:
        """The bytes of the body."""
        return len(self.body)

    def release_body(self) -> None:
        """Let go of the body, which counts no more from here on, though the request is not answered."""
        self.body, self.message = b"", None
        if self.connection is not None:
            self.connection.on_body_released()

    def answer(self, status: int, body: bytes = b"", headers: bytes = b"") -> None:
        """Answer with a body of JSON, or none. `headers` are complete lines."""
        connection = self.connection
        if connection is None:
            return
        if connection.writer.streams_to(self):
            self.end()
            return
        if self.head.method == b"HEAD":
            body = b""
        connection.finish(self, connection.listener.render(status, body, headers, self.keep_alive))

    def begin_stream(self, headers: bytes = b"") -> None:
        """Turn the answer into an event stream."""
        if self.connection is not None:
            self.connection.writer.begin_stream(self, STREAM_HEADERS + headers)

    def send(self, event: bytes) -> bool:
        """Write to the stream. False when nobody reads it any more."""
        return self.connection is not None and self.connection.writer.send(self, event)

    def keep_alive_stream(self) -> None:
        """Write a comment to the stream, unless the client has bytes to read: those keep the connection alive."""
        if self.connection is not None and not self.connection.unread_bytes:
            self.send(KEEP_ALIVE)

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""
        return None if self.connection is None else self.connection.writer.drained()

    def end(self) -> None:
        """Complete the stream."""
        if self.connection is not None:
            self.connection.finish(self, b"0\r\n\r\n" if self.head.chunked else b"")

    def end_connection(self) -> None:
        """Have the connection closed after the answer."""
        self.keep_alive = False

    def on_connection_lost(self) -> None:
        """The client has gone."""
        gone, self.on_gone = self.on_gone, None
        self.connection = self.on_stop = None
        if gone is not None:
            gone()
