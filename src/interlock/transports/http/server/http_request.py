"""One HTTP request on an MCP path and the answer it gets. A connection serves its requests one after the other.

Bytes written to a request that is over, or whose client has gone, are dropped.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.sessions.session import SessionChannel
from interlock.wire.large_messages import Outcome
from interlock.wire.messages import one_line
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

    def carries_message(self) -> None:
        """The endpoint has found that this head may carry an MCP message."""
        self.fit = True

    def names_session(self, session: SessionChannel) -> None:
        """The endpoint has found the session that this head names."""
        self.session = session

    def mirrors(self, mirrored: tuple[str, str | None, str | None] | None) -> None:
        """The endpoint has found that this head repeats these correctly."""
        self.mirrored = mirrored


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
    def active(self) -> object:
        """The request that is being answered."""

    @property
    def watcher(self) -> RequestWatcher | None:
        """The watcher of that request."""

    @property
    def listener(self) -> AnswerHeads:
        """The listening address."""

    @property
    def peer(self) -> str:
        """The caller that the endpoint admitted, or the client's address."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that were written and not read by the client."""

    @property
    def writer(self) -> AnswerWriter:
        """Writes to the client."""

    def watch(self, request: HttpRequest, watcher: RequestWatcher | None) -> None:
        """Tell the watcher if the client goes before this request is answered."""

    def admit(self, request: HttpRequest, principal_name: str) -> None:
        """Count the bytes of this request for the principal of its key, and no longer for its address. Callers without
        a key may share a principal, so their address counts."""

    def finish(self, request: HttpRequest, data: bytes) -> None:
        """Write the last bytes of an answer."""

    def on_body_released(self) -> None:
        """The request under way needs its body no more."""


class RequestWatcher(Protocol):
    """Works for a request, and stops when its client has gone."""

    def on_request_gone(self, http: HttpRequest) -> None:
        """The client went before the answer was complete."""


class HttpRequest(msgspec.Struct, eq=False):
    """A request as it came, and the one way to answer it: a body at once, or a stream piece by piece."""

    connection: RequestConnection
    head: RequestHead
    keep_alive: bool
    body: bytes = b""
    refusal: GuardRefusal | None = None
    message: Outcome | None = None
    """The message read from a large body; the body itself is gone then."""

    @property
    def over(self) -> bool:
        """Whether the answer is complete or the client has gone."""
        return self.connection.active is not self

    @property
    def address(self) -> str:
        """The client's address."""
        client = self.connection.client
        return "" if client is None else client[0]

    @property
    def sender(self) -> str:
        """The caller that the endpoint admitted with a key, or the client's address: for whom its bytes count."""
        return "" if self.over else self.connection.peer

    @property
    def received(self) -> int:
        """The bytes of the body."""
        return len(self.body)

    def release_body(self) -> None:
        """Let go of the body, which counts no more from here on, though the request is not answered."""
        self.body, self.message = b"", None
        if not self.over:
            self.connection.on_body_released()

    def take_body(self) -> bytes:
        """The body, which is read elsewhere: `replace_body` brings the message in it."""
        body, self.body = self.body, b""
        return body

    def replace_body(self, message: Outcome) -> None:
        """Go on with the message that was read from the body."""
        self.message = message

    def join_lines(self) -> None:
        """Write the body on one line. Raises UnicodeDecodeError or `msgspec.DecodeError`."""
        self.body = one_line(self.body)

    def answer(self, status: int, body: bytes = b"", headers: bytes = b"") -> None:
        """Answer with a body of JSON, or none. `headers` are complete lines."""
        connection = self.connection
        if self.over:
            return
        if connection.writer.streams_to(self):
            self.end()
            return
        if self.head.method == b"HEAD":
            body = b""
        connection.finish(self, connection.listener.render(status, body, headers, self.keep_alive))

    def begin_stream(self, headers: bytes = b"") -> None:
        """Turn the answer into an event stream."""
        if not self.over:
            self.connection.writer.begin_stream(self, STREAM_HEADERS + headers)

    def send(self, event: bytes) -> bool:
        """Write to the stream. False when nobody reads it any more."""
        return not self.over and self.connection.writer.send(self, event)

    def keep_alive_stream(self) -> None:
        """Write a comment to the stream, unless the client has bytes to read: those keep the connection alive."""
        if not self.over and not self.connection.unread_bytes:
            self.send(KEEP_ALIVE)

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up; otherwise a future that completes when it reads again, or has gone."""
        return None if self.over else self.connection.writer.drained()

    def end(self) -> None:
        """Complete the stream."""
        if not self.over:
            self.connection.finish(self, b"0\r\n\r\n" if self.head.chunked else b"")

    def end_connection(self) -> None:
        """Have the connection closed after the answer."""
        self.keep_alive = False
