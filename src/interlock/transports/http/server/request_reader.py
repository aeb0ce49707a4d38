"""Feeds the parser of one client's requests, and turns its callbacks into requests. The connection answers them.

The parser gets the received bytes a piece at a time, and one turn of the loop reads no more than its share
(`paced_reading.py`, `read_queue.py`). After a refusal nothing more is read. `incoming_headers.py` collects the headers
of a request, `incoming_body.py` its body.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

import httptools

from interlock.transports.http.paced_reading import PacedReading
from interlock.transports.http.server import asgi, guard, http_request
from interlock.transports.http.server.asgi import AsgiRequest, scope_of
from interlock.transports.http.server.bodies import CROWDED
from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.http.server.http_request import HttpRequest, RequestHead
from interlock.transports.http.server.incoming_body import BodyConnection, IncomingBody
from interlock.transports.http.server.incoming_headers import IncomingHeaders
from interlock.transports.http.server.listener import ENTRANCE, HttpListener, Known
from interlock.transports.http.server.phase import RequestPhase
from interlock.transports.http.server.response_writer import ResponseWriter
from interlock.transports.http.server.template import HeadTemplate
from interlock.transports.http.server.upgrades import UpgradeRequest
from interlock.transports.read_queue import REQUEST_PIECE_BYTES, ReadQueue

_IDLE, _HEAD, _BODY, _CLOSING = RequestPhase.IDLE, RequestPhase.HEAD, RequestPhase.BODY, RequestPhase.CLOSING
_MAX_LINGER_BYTES: Final = 16 * 1024 * 1024
"""Bytes that a refused client may go on sending before it is cut off."""


class ReadConnection(http_request.RequestConnection, asgi.AsgiConnection, BodyConnection, Protocol):
    """The connection whose requests are read."""

    listener: HttpListener
    writer: ResponseWriter

    def is_idle(self) -> bool:
        """Whether all requests before the one that is read are answered."""

    def is_behind(self) -> bool:
        """Whether the next queued request could be answered now, but waits for loop time or for a slow client."""

    def take(self, request: HttpRequest, *, follows: bool) -> None:
        """A whole request. `follows`: the bytes that it came with held one before it."""

    def take_for_application(self, request: AsgiRequest) -> None:
        """A request for the ASGI application, whose head is read."""

    def take_upgrade(self, request: UpgradeRequest, rest: bytes) -> None:
        """A request for a protocol that is spoken here; `rest` came behind it."""

    def expect_continue(self) -> None:
        """The client waits for `100 Continue` before it sends the body."""

    def read_later(self, began: int | None) -> None:
        """Bytes wait, to be read in a later turn of the loop. `began`: the sequence number of a large body."""


class RequestReader:
    """Reads from one client."""

    __slots__ = (
        "_connection",
        "_declined",
        "_fed",
        "_first",
        "_follows",
        "_headers",
        "_listener",
        "_parser",
        "_reads",
        "_transport",
        "_upgrade",
        "begun",
        "body",
        "flow",
        "phase",
        "target",
        "template",
    )

    def __init__(
        self, connection: ReadConnection, listener: HttpListener, transport: asyncio.Transport, reads: ReadQueue
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._transport = transport
        self._reads = reads
        self._parser = _new_parser(self)
        self.flow = PacedReading(transport)
        self.body = IncomingBody(connection, listener, self.flow, reads)
        self.phase = _IDLE
        self.begun = 0
        """Requests that the parser has begun to read."""
        self.target = b""
        """The target of the request that was read last."""
        self.template: HeadTemplate | None = None
        """The head that was read last, where heads like it need no parser."""
        self._headers: IncomingHeaders | None = None
        """The headers so far, until the head is complete."""
        self._first: bytes | None = None
        """The bytes that begin with the request being read, where one piece of them does."""
        self._fed = 0
        """Bytes since the last whole request."""
        self._follows = False
        """Whether these bytes held a whole request already."""
        self._upgrade: UpgradeRequest | None = None
        """The request that asks for another protocol, until its head is read."""
        self._declined: UpgradeRequest | None = None
        """The request with an offer to upgrade that is ignored, until its head is read again."""

    # The connection calls these.

    def read(self, data: bytes) -> None:
        """Read received bytes, as far as this turn of the loop lasts."""
        self._follows = False
        self.flow.read(data, self)

    def read_waiting(self) -> None:
        """Read the bytes that wait."""
        self._follows = False
        self.flow.read_waiting(self)

    def find_alike(self, start: bytes, data: bytes) -> Known | None:
        """The head of a request that differs from the one before it only in values, and its body's length."""
        template = self.template
        return None if template is None else self._listener.understand(start, partial(template.match, data))

    def unfinished(self) -> AsgiRequest | None:
        """The application's request whose body is coming in."""
        return self.body.application_request if self.phase is _BODY and self.body.head is None else None

    def ignore_rest(self) -> None:
        """Take no more requests."""
        self.phase = _CLOSING

    def stop(self) -> None:
        """Take no more requests, and drop the one that is being read and the bytes that wait."""
        self.phase = _CLOSING
        self.body.drop()

    def close(self) -> None:
        """Refer neither to the connection nor to a request any more: the client has gone, or has another protocol."""
        self.phase = _CLOSING
        self.body.close()
        self._first = self._headers = self.template = None
        del self._parser, self._connection

    # The paced reading calls these (`paced_reading.PieceReader`).

    def must_wait(self) -> bool:
        """Whether requests before the next piece wait to be answered, or this turn of the loop has no time for it."""
        return self.phase is not _CLOSING and (self._connection.is_behind() or self._reads.is_spent())

    def on_waiting(self) -> None:
        """Bytes wait until the requests before them are answered, or until a later turn of the loop."""
        if self.phase is _CLOSING:
            self.flow.release()
            return
        if not self.body.has_room():
            self._connection.refuse(CROWDED)
        self._connection.read_later(self.body.began() if self.phase is _BODY else None)

    def read_piece(self, data: bytes, at: int) -> int:
        """Have the parser read a piece. The bytes behind a refused request are dropped."""
        size = len(data)
        if self.phase is _CLOSING:
            self._fed += size - at
            if self._fed > _MAX_LINGER_BYTES:
                self._transport.abort()
            return size
        end = at + (self.body.next_piece() if self.phase is _BODY else REQUEST_PIECE_BYTES)
        if self.phase is _IDLE:
            self._first = None if at else data
        upgrade_at = self._feed(data if not at and end >= size else data[at:end])
        if upgrade_at is not None:
            end = at + upgrade_at
            if self.phase is not _CLOSING and not self._read_again():
                self._pass_upgrade(data[end:])
                return size
        if self.phase is _HEAD and self._fed > self._listener.bounds.header_bytes:
            in_target = self._headers is None or not self._headers.values
            self._connection.refuse(guard.too_long(self._listener.bounds, target=in_target))
        return end

    # The parser calls these.

    def on_message_begin(self) -> None:
        """A request starts. Reading pauses if others are not answered yet."""
        if self.phase is _CLOSING:
            return
        self.phase = _HEAD
        self.begun += 1
        self.target = b""
        self._headers = IncomingHeaders(self._listener)
        if not self._connection.is_idle():
            self.flow.pause_reading()

    def on_url(self, url: bytes) -> None:
        """The request target, or a piece of it."""
        if self.phase is not _CLOSING:
            self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or refuse the request: for a bad header, or one behind the body."""
        headers = self._headers
        if headers is None or self.phase is not _HEAD:
            self._connection.refuse(GuardRefusal(400, "trailers are not supported"))
        elif (refusal := headers.add(name, value)) is not None:
            self._connection.refuse(refusal)

    def on_headers_complete(self) -> None:
        """Check the head, and begin the request: for the endpoint on an MCP path, else for ASGI."""
        headers = self._headers
        if headers is None or self.phase is not _HEAD:
            return
        self._headers = None
        first, self._first = self._first, None
        listener, parser, head = self._listener, self._parser, headers.values
        method, version = parser.get_method(), parser.get_http_version()
        # A request that began in the middle of a piece of bytes was not counted from its beginning.
        fits = first is not None and self._fed <= listener.bounds.header_bytes
        refusal = headers.check(method, self.target, version, fits=fits)
        found = listener.resolve(self.target) if refusal is None else refusal
        if isinstance(found, GuardRefusal):
            self._connection.refuse(found)
            return
        path, is_mcp = found
        if listener.upgrader is not None and path == listener.upgrader.path:
            if parser.should_upgrade():
                self._upgrade = UpgradeRequest(method, self.target, head, version)
            else:
                needed = GuardRefusal(426, "this address speaks WebSocket", headers=b"upgrade: websocket\r\n")
                self._connection.refuse(needed)
            return
        if b"upgrade" in head and parser.should_upgrade():
            self._declined = UpgradeRequest(method, self.target, head, version)
            self.phase = _IDLE
            return
        keep_alive = version == "1.1" and parser.should_keep_alive()
        length = int(head.get(b"content-length", b"0"))
        self.phase = _BODY
        is_large = length > listener.bounds.early_bytes or b"transfer-encoding" in head
        sender = listener.endpoint.principal_name_of(path if is_mcp else ENTRANCE, head) if is_large else ""
        if is_mcp:
            understood = RequestHead(method, path, head, keep_alive, version == "1.1", length)
            self.body.begin(understood, length, sender)
            self._check(understood, first)
        else:
            scope = scope_of(self.target, method, version, list(head.items()), self._transport)
            request = AsgiRequest(scope, self._connection, keep_alive=keep_alive)
            self.body.begin(request, length, sender)
            self._connection.take_for_application(request)

    def on_chunk_header(self) -> None:
        """Another chunk of the body."""
        refusal = self.body.begin_chunk()
        if refusal is not None:
            self._connection.refuse(refusal)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        refusal = self.body.add(body) if self.phase is _BODY else None
        if refusal is not None:
            self._connection.refuse(refusal)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self.phase is not _BODY:
            return
        self.phase = _IDLE
        self._fed = 0
        head, body = self.body.head, self.body.end()
        if head is not None:
            follows, self._follows = self._follows, True
            self._connection.take(HttpRequest(self._connection, head, head.keep_alive, body), follows=follows)

    def _check(self, head: RequestHead, first: bytes | None) -> None:
        """Refuse an MCP request before its body is read, if the body does not matter."""
        expectation = head.headers.get(b"expect")
        if expectation is None:
            if first is not None:
                self.template = HeadTemplate.of(first, head)
        elif head.chunked:
            if expectation.lower() == b"100-continue":
                self._connection.expect_continue()
            else:
                self._connection.refuse(GuardRefusal(417, "the only supported expectation is 100-continue"))
        if (head.length or b"transfer-encoding" in head.headers) and not _is_whole(first, head):
            refusal = self._listener.endpoint.early_refusal(head)
            if refusal is not None:
                self._connection.refuse(refusal)

    def _feed(self, piece: bytes) -> int | None:
        """Have the parser read a piece. Returns where it stopped, behind a head that offers an upgrade."""
        self._fed += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            return int(upgrade.args[0])
        except httptools.HttpParserCallbackError as failed:
            raise failed.__context__ or failed from None  # a defect of ours, not of the request
        except httptools.HttpParserError as error:
            self._connection.refuse(GuardRefusal(400, f"not a valid HTTP request: {error}"))
        return None

    def _read_again(self) -> bool:
        """Parse a head again without its offer to upgrade. False where there is none."""
        declined, self._declined = self._declined, None
        if declined is None:
            return False
        self._first = None
        self._parser = _new_parser(self)
        self._feed(declined.without_offer())
        return True

    def _pass_upgrade(self, rest: bytes) -> None:
        request, self._upgrade = self._upgrade, None
        if request is not None:
            self.flow.pause_reading()
            self._connection.take_upgrade(request, rest)


def _new_parser(reader: RequestReader) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(reader)
    # A client may send more behind a request with `connection: close`; that request is answered all the same.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _is_whole(first: bytes | None, head: RequestHead) -> bool:
    """Whether the body came together with its head, so that nothing more has to be read."""
    if first is None or b"transfer-encoding" in head.headers or head.length >= len(first):
        return False
    return first.find(b"\r\n\r\n") + 4 + head.length <= len(first)
