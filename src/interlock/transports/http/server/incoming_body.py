"""The body of the request that is being read on one connection, and the memory that the connection's requests take."""

from __future__ import annotations

from typing import Protocol

from interlock.transports.http.bounds import FREE_CHUNKS, MIN_CHUNK
from interlock.transports.http.paced_reading import PacedReading
from interlock.transports.http.server.asgi import AsgiRequest
from interlock.transports.http.server.bodies import CROWDED
from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.http.server.http_request import RequestHead
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.read_queue import REQUEST_PIECE_BYTES, ReadQueue
from interlock.wire.limits import over_message_bytes

_TINY_CHUNKS = GuardRefusal(400, f"the body has over {FREE_CHUNKS} chunks of fewer than {MIN_CHUNK} bytes on average")


class BodyConnection(Protocol):
    """The connection of a body."""

    @property
    def peer(self) -> str:
        """The caller that the endpoint admitted, or the client's address."""

    def unanswered_bytes(self) -> int:
        """The bytes of the whole requests that are not answered yet."""

    def refuse(self, refusal: GuardRefusal) -> None:
        """Answer with a refusal, after the requests before it, and have nothing more read."""


class IncomingBody:
    """The body that is being read, of an MCP request or of one for the ASGI application."""

    __slots__ = (
        "_began",
        "_bytes",
        "_chunks",
        "_connection",
        "_flow",
        "_length",
        "_listener",
        "_reads",
        "_sender",
        "application_request",
        "head",
    )

    def __init__(
        self, connection: BodyConnection, listener: HttpListener, flow: PacedReading, reads: ReadQueue
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._flow = flow
        self._reads = reads
        self.head: RequestHead | None = None
        """The head of the MCP request whose body is coming in."""
        self.application_request: AsgiRequest | None = None
        """The last request for the ASGI application, whose body may be coming in."""
        self._bytes: bytes | bytearray = b""
        self._length = 0
        """The length of the body, where the head names it."""
        self._chunks = 0
        self._began = 0
        """Sequence number of a body in chunks. Older ones are read first."""
        self._sender = ""
        """The principal that sends it; empty for a small body, or a caller without a valid key."""

    def begin(self, request: RequestHead | AsgiRequest, length: int, sender: str) -> None:
        """The body of this request comes next. `sender` is its principal, for a large body with a valid key."""
        self._length = length
        self._chunks = 0
        self._sender = sender
        if isinstance(request, RequestHead):
            self.head = request
        else:
            self.application_request = request

    def received(self) -> int:
        """The bytes so far."""
        if self.head is not None:
            return len(self._bytes)
        return 0 if self.application_request is None else self.application_request.received

    def next_piece(self) -> int:
        """How many bytes the parser gets at once: the rest of a body whose length is known, as it is one piece."""
        return max(REQUEST_PIECE_BYTES, self._length - self.received())

    def is_far_from_end(self) -> bool:
        """Whether so much of the application's request is to come that closing the connection is cheaper."""
        return not self._length or self._length - self.received() > self._listener.bounds.early_bytes

    def began(self) -> int | None:
        """The sequence number of a large body; None for any other."""
        return self._began if self.received() > self._listener.bounds.early_bytes else None

    def begin_chunk(self) -> GuardRefusal | None:
        """Another chunk. Each costs the same, however few bytes it has."""
        self._chunks += 1
        if self._chunks == 1:
            self._began = self._reads.begin()
        too_small = self._chunks > FREE_CHUNKS and self.received() < (self._chunks - 1) * MIN_CHUNK
        return _TINY_CHUNKS if too_small else None

    def add(self, data: bytes) -> GuardRefusal | None:
        """Keep a piece of the body, or pass it to the application. Returns the refusal of a body that is too large."""
        so_far = self._bytes
        if self.head is None:
            if self.application_request is not None:
                self.application_request.feed(data)
        elif not so_far:
            self._bytes = data
        elif type(so_far) is bytearray:
            so_far += data
        else:
            self._bytes = bytearray(so_far) + data
        limit = self._listener.limits.message_bytes
        if self.received() > limit:
            return GuardRefusal(413, over_message_bytes("the body", limit), "TOO_LARGE")
        return None if self._listener.bodies.hold(self, self._size()) else CROWDED

    def end(self) -> bytes:
        """Note that it is complete. Returns the body of an MCP request."""
        self._listener.bodies.received(self)
        if self.head is None and self.application_request is not None:
            self.application_request.end_body()
        self.head = None
        body, self._bytes = self._bytes, b""
        return body if type(body) is bytes else bytes(body)

    def has_room(self) -> bool:
        """Count the bytes of all requests on this connection. False where there is no room for them."""
        return self._listener.bodies.hold(self, self._size())

    def recount(self) -> None:
        """A request was answered, or waits behind another."""
        size = self._size()
        if self._bytes or size > self._listener.bounds.early_bytes:
            self._listener.bodies.hold(self, size)
        else:
            self._listener.bodies.release(self)

    def drop(self) -> None:
        """Drop an MCP request and the bytes that wait: nothing more is read."""
        self.head = None
        self._bytes = b""
        self._flow.release()
        self._listener.bodies.release(self)

    def close(self) -> None:
        """Refer neither to the connection nor to a request any more."""
        self.drop()
        self.application_request = None
        del self._connection

    # The listener's count of bodies calls these (`bodies.BodySender`).

    @property
    def sender(self) -> str:
        """The caller that sends the body, or the client's address."""
        return f"caller {self._sender}" if self._sender else self._connection.peer

    def give_way(self) -> None:
        """Refuse a body that comes in slowly: others need its memory."""
        self._connection.refuse(CROWDED)

    def _size(self) -> int:
        return self._connection.unanswered_bytes() + len(self._bytes) + len(self._flow.waiting)
