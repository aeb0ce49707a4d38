"""One HTTP request on an MCP path and the answer it gets. A connection serves its turns one after the other.

What is written to a turn that is over, or whose client has gone, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.transports.http.guard import Refusal
from interlock.wire.large_messages import Outcome

if TYPE_CHECKING:
    from interlock.transports.http.protocol import HubProtocol
    from interlock.transports.http.sessions import HttpSession

STREAM_HEADERS: Final = (
    b"content-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n"
)


class Head(msgspec.Struct):
    """A request without its body. Requests that are alike may share one."""

    method: bytes
    path: str
    headers: dict[bytes, bytes]
    """Names in lower case."""
    keep_alive: bool
    chunked: bool
    """Whether the client understands an answer in chunks."""
    length: int = 0
    """The body's, where it was said."""
    fit: bool = False
    """Whether the endpoint found once that it may carry an MCP message."""
    session: HttpSession | None = None
    """The session that this head names, once it was found and its version checked (handshake era)."""
    mirrored: tuple[str, str | None, str | None] | None = None
    """The method, name and version that this head was found to repeat rightly (stateless era)."""


NO_HEAD: Final = Head(b"", "", {}, keep_alive=False, chunked=False)
"""For a request that is refused before its head was understood."""


class Turn(msgspec.Struct, eq=False):
    """A request as it came, and the one way to answer it: a body at once, or a stream piece by piece."""

    connection: HubProtocol | None
    """None once the answer is complete or the client has gone."""
    head: Head
    keep_alive: bool
    body: bytes = b""
    refusal: Refusal | None = None
    on_gone: Callable[[], None] | None = None
    """Called when the client goes before the answer is complete."""
    message: Outcome | None = None
    """What a large body was read as; then the body itself is gone."""

    @property
    def address(self) -> str:
        """Where it comes from."""
        client = None if self.connection is None else self.connection.client
        return "" if client is None else client[0]

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for the answer."""
        return self.connection is not None

    def answer_json(self, body: bytes) -> None:
        """The common answer: 200 with one JSON body."""
        connection = self.connection
        if connection is None:
            return
        if self.keep_alive:
            connection.finish(self, b"%b%d\r\n\r\n%b" % (connection.listener.ok_head, len(body), body))
        else:
            self.answer(200, body)

    def answer(self, status: int, body: bytes = b"", headers: bytes = b"") -> None:
        """Any other answer. `headers` are complete lines; a body is JSON."""
        connection = self.connection
        if connection is None:
            return
        if self in connection.listener.streams:
            self.end()
        elif self.head.method == b"HEAD":
            connection.finish(self, connection.listener.render(status, b"", headers, self.keep_alive))
        else:
            connection.finish(self, connection.listener.render(status, body, headers, self.keep_alive))

    def begin_stream(self, headers: bytes = b"") -> None:
        """Turn the answer into an event stream."""
        if self.connection is not None:
            self.connection.begin_stream(self, STREAM_HEADERS + headers)

    def send(self, event: bytes) -> bool:
        """Write to the stream. False when nobody reads it any more."""
        return self.connection is not None and self.connection.send(self, event)

    def end(self) -> None:
        """The stream is complete."""
        if self.connection is not None:
            self.connection.finish(self, b"0\r\n\r\n" if self.head.chunked else b"")
