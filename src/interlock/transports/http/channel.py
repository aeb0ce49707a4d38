"""One HTTP/1.1 connection: requests one at a time, each in one write, and its responses parsed as they come."""

from __future__ import annotations

import abc
import asyncio
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Final, cast

import httptools
import msgspec

if TYPE_CHECKING:
    from interlock.transports.http.pool import Pool

HEAD_BYTES: Final = 64 * 1024
HEADERS: Final = 128

IDLE_SECONDS: Final = 4.0
"""Shorter than the five seconds after which the common servers hang up, so that a request seldom meets that."""


PIECE: Final = 4 * 1024
"""How much of an event stream is gone through before it is looked how long that took."""


class Failed(msgspec.Struct, frozen=True):
    """How a request ended without a whole response."""

    why: str
    sent: bool
    """Whether any of it may have reached the server."""
    began: bool = False
    """Whether any of the response came."""
    reused: bool = False
    """Whether the connection had carried a request before, so that the server may just have closed it for idleness."""


class Reply(abc.ABC):
    """Who takes the response to one request. It is its request's place in the pool, too, and has one at a time."""

    connection: Channel | None = None
    """What carries it; None while it waits."""
    payload = b""
    """What is to be sent, while it waits."""
    over = True
    """Whether nothing more will come."""

    @abc.abstractmethod
    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        """The status and the headers, names in lower case. A repeated header is joined with commas."""

    @abc.abstractmethod
    def body(self, data: bytes) -> None:
        """A piece of the body."""

    @abc.abstractmethod
    def done(self) -> None:
        """The response is complete."""

    @abc.abstractmethod
    def failed(self, how: Failed) -> None:
        """There is no (more) response."""

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        """A good response of JSON that came in one piece: head, body and end at once."""
        self.head(200, headers)
        self.body(body)
        self.done()


class Channel(asyncio.Protocol):
    """One connection. The parser's callbacks only note; what was noted is handed over when the parser has returned."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        """Whose request it carries, or carried last."""
        self.data_received = partial(pool.rounds.received, self)  # type: ignore[method-assign]
        """Bytes, in whatever pieces they come: in their turn they are taken in."""
        self.transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self.reply: Reply | None = None
        """Whose request it carries."""
        self._served = 0
        self.keep_seconds = IDLE_SECONDS
        self.idle_until = 0.0
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._headers_complete = False
        self._head_told = False
        self._until_eof = False
        self._is_stream = False
        self._more = False
        """Whether more has come than what is being read: then the end of a response is not the end of what was sent."""
        self._complete = False
        self._keep = False
        self._excess = False
        self._chunks: list[bytes] = []
        self._fed = 0

    def abort(self) -> None:
        """Close at once, without a word to whoever waits."""
        self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def eof_received(self) -> None:
        self.pool.rounds.settle()

    def take_in(self, data: bytes) -> None:
        reply = self.reply
        if reply is None or reply.over:
            self.abort()  # nobody asked
            return
        fresh = not self._fed
        if fresh:
            known = self.pool.heads.find(data)
            if known is not None:
                # A whole response, the like of which the parser has read: it is not asked, and stays between two.
                reply.over = True
                self.reply = None
                self._served += 1
                self.pool.release(self, True)
                reply.whole(*known)
                return
        if not self._headers_complete and len(data) > PIECE:
            # Only its head says what the rest is.
            self._feed(reply, data[:PIECE], fresh=False)
            data = data[PIECE:]
            if self.reply is not reply or self.transport.is_closing():
                return
        if self._is_stream:
            self._go_through(data)
            return
        self._feed(reply, data, fresh and len(data) <= PIECE)

    def give_up(self) -> None:
        self.abort()

    def _feed(self, reply: Reply, data: bytes, fresh: bool = False) -> None:
        if not self._headers_complete:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, _TooMuch) as cause:
            why = cause.__context__ or cause
            self._break(str(why) if isinstance(why, _TooMuch) else f"its answer is no proper HTTP: {why}")
            return
        if not self._headers_complete and self._fed > HEAD_BYTES:
            self._break("its headers are too large")
            return
        if fresh and self._complete and self._status == 200 and self._keep and not self._excess:
            self._remember(data)
        self._hand_over(reply)

    def _go_through(self, data: bytes) -> None:
        """More of an event stream: a piece at a time, and no more of them now than the server's share of the loop."""
        for at in range(0, len(data), PIECE):
            reply = self.reply
            if reply is None or reply.over:
                self.abort()  # more than the response, and nobody asked for that
                return
            began = thread_time()
            self._more = at + PIECE < len(data)
            self._feed(reply, data[at : at + PIECE])
            rest = self.pool.share.spend(thread_time() - began, self.pool.now())
            if rest and self.reply is not None and not self.transport.is_closing():
                self.transport.pause_reading()
                self.pool.later(rest, self._go_on, data[at + PIECE :])
                return

    def _go_on(self, data: bytes) -> None:
        if self.reply is None or self.transport.is_closing():
            return
        self.transport.resume_reading()
        self._go_through(data)

    def connection_lost(self, exc: Exception | None) -> None:
        reply = self.reply
        if reply is not None and not reply.over and self._headers_complete and self._until_eof:
            self._complete = True
            self._hand_over(reply, keep=False)
        else:
            self._break("the server closed the connection" if exc is None else f"the connection broke: {exc}")
        self.pool.lost(self)

    # httptools' callbacks

    def on_message_begin(self) -> None:
        # A second response that nobody asked for: its bytes must never be taken for the next request's answer.
        self._excess = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._excess:
            return
        self._header_count += 1
        if self._header_count > HEADERS:
            raise _TooMuch("it sends too many headers")
        name = name.lower()
        before = self._headers.get(name)
        self._headers[name] = value if before is None else before + b", " + value

    def on_headers_complete(self) -> None:
        if self._excess:
            return
        self._status = self._parser.get_status_code()
        if self._status >= 200:
            headers = self._headers
            self._headers_complete = True
            self._until_eof = b"content-length" not in headers and b"transfer-encoding" not in headers
            self._is_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        elif self._status == 101:
            raise _TooMuch("it switches protocols")

    def on_body(self, data: bytes) -> None:
        if not self._excess:
            self._chunks.append(data)

    def on_message_complete(self) -> None:
        if self._excess:
            return
        if self._headers_complete:
            self._complete = True
            self._keep = self._parser.should_keep_alive()
        else:
            self._headers.clear()  # an interim response (100, 103): the real one follows

    # Handing over

    def _hand_over(self, reply: Reply, keep: bool = True) -> None:
        if not self._headers_complete:
            return
        if not self._head_told:
            self._head_told = True
            reply.head(self._status, self._headers)
        if self._chunks and not reply.over:
            data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            reply.body(data)
        if not self._complete or reply.over:
            return
        reply.over = True
        self.reply = None
        keep = keep and self._keep and not self._excess and not self._more
        self._served += 1
        said = self._headers.get(b"keep-alive")
        if said is not None:
            self.keep_seconds = keep_alive_seconds(said)
        self._reset()
        self.pool.release(self, keep)
        reply.done()

    def _remember(self, data: bytes) -> None:
        headers = self._headers
        plain = _UNUSUAL.isdisjoint(headers)
        if plain and headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            self.pool.heads.remember(data, headers)

    def _break(self, why: str) -> None:
        reply, self.reply = self.reply, None
        self.abort()
        if reply is not None:
            began = self._fed > 0
            fail(reply, Failed(why, sent=True, began=began, reused=self._served > 0))

    def _reset(self) -> None:
        self._headers = {}
        self._header_count = 0
        self._headers_complete = self._head_told = self._until_eof = self._complete = False
        self._is_stream = self._more = False
        self._chunks = []
        self._fed = 0


class _TooMuch(Exception):
    pass


_UNUSUAL = frozenset({b"content-encoding", b"keep-alive", b"transfer-encoding"})
"""Headers of responses that say more than what their body is and how long."""


def fail(reply: Reply, how: Failed) -> None:
    """End a request without a whole response, unless it has ended already."""
    if not reply.over:
        reply.over = True
        reply.failed(how)


def keep_alive_seconds(said: bytes) -> float:
    """How long a server says it keeps an idle connection, less a second for the way."""
    for part in said.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.lower() == b"timeout" and value.isdigit() and len(value) < 6:
            return max(min(float(value) - 1.0, 60.0), 0.0)
    return IDLE_SECONDS
