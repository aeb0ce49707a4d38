"""One HTTP/1.1 connection: requests one at a time, each in one write, and its responses parsed as they come.

A response head that equals one that the parser has read, apart from its length, is not parsed again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import thread_time
from typing import Final, Protocol, cast

import httptools

from interlock.transports.batching import Batching
from interlock.transports.fairness import Share
from interlock.transports.http.bounds import FREE_CHUNKS, MIN_CHUNK
from interlock.transports.http.client.reply import Reply, ReplyFailed, fail
from interlock.transports.http.client.response_headers import IDLE_SECONDS, body_length, keep_alive_seconds
from interlock.transports.http.lengths import cut_length
from interlock.transports.http.paced_reading import PacedReading
from interlock.transports.read_queue import ReadQueue

HEAD_BYTES: Final = 64 * 1024
HEADERS: Final = 128

RESPONSE_PIECE_BYTES: Final = 4 * 1024
"""Bytes of a response that are read between two measurements of the time."""

KNOWN_HEADS: Final = 16
KNOWN_LENGTHS: Final = 64
KNOWN_BYTES: Final = 2_048
"""Longer heads are not kept."""


class KnownHeads:
    """The headers of each response head that the parser has read, by the head."""

    __slots__ = ("_whole", "_without_length")

    def __init__(self) -> None:
        self._without_length: dict[bytes, dict[bytes, bytes]] = {}
        self._whole: dict[bytes, tuple[dict[bytes, bytes], int]] = {}
        """By the whole head, with the body's length: many answers are as long as one before."""

    def find(self, data: bytes) -> tuple[dict[bytes, bytes], bytes] | None:
        """The headers and the body of a whole response; None where it must be parsed. Content-Length is missing."""
        head, _, body = data.partition(b"\r\n\r\n")
        whole = self._whole.get(head) or self._find_alike(head)
        return (whole[0], body) if whole is not None and len(body) == whole[1] else None

    def _find_alike(self, head: bytes) -> tuple[dict[bytes, bytes], int] | None:
        cut = cut_length(head) if len(head) <= KNOWN_BYTES else None
        headers = None if cut is None else self._without_length.get(cut[0])
        if cut is None or headers is None:
            return None
        if len(self._whole) >= KNOWN_LENGTHS:
            self._whole.clear()
        whole = self._whole[head] = headers, cut[1]
        return whole

    def remember(self, data: bytes, headers: dict[bytes, bytes]) -> None:
        """Keep the head that `data` begins with. The parser must have read it from the first byte on."""
        head = data.partition(b"\r\n\r\n")[0]
        cut = cut_length(head) if len(head) <= KNOWN_BYTES else None
        if cut is not None:
            if len(self._without_length) >= KNOWN_HEADS:
                self._without_length.clear()
            self._without_length[cut[0]] = headers


class ChannelPool(Protocol):
    """A pool, as its connections see it."""

    batching: Batching
    heads: KnownHeads
    share: Share
    """How much of the loop's time its event streams may take, all together."""

    def release(self, connection: HttpChannel, keep: bool) -> None:
        """A connection is free again."""

    def lost(self, connection: HttpChannel) -> None:
        """A connection is gone."""


class HttpChannel(asyncio.Protocol):
    """One connection. The parser's callbacks only store what they get; it is handed over when the parser returns."""

    def __init__(self, pool: ChannelPool) -> None:
        self.pool = pool
        """The pool whose request it carries, or carried last."""
        self.data_received = partial(pool.batching.received, self)  # type: ignore[method-assign]
        """Bytes in pieces of any size. `take_in` gets them in their turn."""
        self.transport: asyncio.Transport
        self._flow: PacedReading
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self.reply: Reply | None = None
        """Takes the response to the request that it carries."""
        self._served = 0
        self.keep_seconds = IDLE_SECONDS
        self.idle_until = 0.0
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._headers_complete = False
        self._head_given = False
        self._until_eof = False
        self._is_stream = False
        self._more = False
        """Whether bytes behind the present piece have arrived: then they follow the end of the response."""
        self._complete = False
        self._keep = False
        self._excess = False
        self._chunks: list[bytes] = []
        self._fed = 0
        self.held = False
        """Whether the reader of its response has paused it."""
        self._resting = False
        """Whether its server has used up its share of the loop."""
        self._reads = ReadQueue.of(self._loop)
        self._ended = False
        """Whether the server sends no more, so that nothing waits any longer."""
        self._length = 0
        """The length of the body, where the head names it."""
        self._received = 0
        self._chunk_count = 0

    def hold(self, *, on: bool) -> None:
        """Pause reading the response, or resume it."""
        if on is self.held or self.transport.is_closing():
            return
        self.held = on
        if on:
            self._flow.pause_reading()
        else:
            self._loop.call_soon(self._go_on)

    def abort(self) -> None:
        """Close at once, and tell nobody."""
        self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._flow = PacedReading(self.transport)

    def eof_received(self) -> None:
        """The server sends no more. Everything it sent is read before the connection closes."""
        self.pool.batching.settle()
        if self._flow.waiting and not self._is_stream:
            self._ended = True
            self._flow.read_waiting(self)

    def take_in(self, data: bytes) -> None:
        reply = self.reply
        if reply is None or reply.over:
            self.abort()  # no request was sent
            return
        fresh = not self._fed
        if fresh and not self.held:
            known = self.pool.heads.find(data)
            if known is not None:
                # The parser would read the same from it, and keeps waiting for the next response.
                reply.over = True
                self.reply = None
                self._served += 1
                self.pool.release(self, True)
                reply.whole(*known)
                return
        if self._is_stream and (self.held or self._resting):
            self._flow.hold(data, self)
        elif self._is_stream or self._flow.waiting or len(data) > RESPONSE_PIECE_BYTES:
            self._flow.read(data, self)
        else:
            self._feed(reply, data, fresh)

    def read_on(self) -> None:
        """Read the bytes that waited for a turn of the loop."""
        if not self.held and not self._resting and not self.transport.is_closing():
            self._flow.read_waiting(self)

    def give_up(self) -> None:
        self.abort()

    def _feed(self, reply: Reply, data: bytes, fresh: bool = False) -> None:
        if not self._headers_complete:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, _TooMuch) as cause:
            why = cause.__context__ or cause
            self._break(str(why) if isinstance(why, _TooMuch) else f"its answer is not valid HTTP: {why}")
            return
        if not self._headers_complete and self._fed > HEAD_BYTES:
            self._break("its headers are too large")
            return
        if fresh and self._complete and self._status == 200 and self._keep and not self._excess:
            self._remember(data)
        self._hand_over(reply)

    # The paced reading calls these (`paced_reading.PieceReader`).

    def read_piece(self, data: bytes, at: int) -> int:
        """Read a piece of a response: of one that is neither in chunks nor an event stream, all that has come."""
        reply, size = self.reply, len(data)
        if self.transport.is_closing():
            return size
        if reply is None or reply.over:
            self.abort()  # bytes behind the response, without a request
            return size
        length, is_stream = RESPONSE_PIECE_BYTES, self._is_stream
        if self._headers_complete and not is_stream:
            length = size if self._until_eof else max(RESPONSE_PIECE_BYTES, self._length - self._received)
        end = at + length
        self._more = end < size
        began = thread_time() if is_stream else 0.0
        self._feed(reply, data[at:end])
        if is_stream:
            self._rest_after(reply, thread_time() - began)
        return end

    def must_wait(self) -> bool:
        """Whether the next piece waits: of an event stream for its reader or for its server's share of the loop, of
        another response for a turn of the loop that has time for it."""
        if self.reply is None or self.transport.is_closing():
            return False
        if self._is_stream:
            return self.held or self._resting
        return not self._ended and self._reads.is_spent()

    def on_waiting(self) -> None:
        """Bytes wait: those of an event stream until `_go_on`."""
        if not self._is_stream:
            self._reads.add(self)

    def _rest_after(self, reply: Reply, seconds: float) -> None:
        """Count the time of a piece of an event stream, and pause the stream when its server has used up its share of
        the loop. A stream that was asked for only yields after each piece, so that a call beside it hardly waits."""
        rest = 0.0 if reply.streams else self.pool.share.spend(seconds, self._loop.time())
        if self.held or self.reply is None or self.transport.is_closing():
            return
        if rest or (reply.streams and self._more):
            self._resting = True
            self._flow.pause_reading()
            self._loop.call_later(rest, self._wake)

    def _wake(self) -> None:
        self._resting = False
        self._go_on()

    def _go_on(self) -> None:
        """Resume reading, unless it is paused for another reason."""
        if not self.held and not self._resting and not self.transport.is_closing():
            self._flow.resume_reading()
            self._flow.read_waiting(self)

    def connection_lost(self, exc: Exception | None) -> None:
        reply = self.reply
        if reply is not None and not reply.over and self._headers_complete and self._until_eof:
            self._complete = True
            self._hand_over(reply, keep=False)
        else:
            self._break("the server closed the connection" if exc is None else f"the connection broke: {exc}")
        self.pool.lost(self)
        self._reads.discard(self)
        # Parser and callback refer to this object. Without them reference counts free it.
        del self._parser, self.data_received

    # httptools' callbacks

    def on_message_begin(self) -> None:
        # A second response without a request: its bytes must never become the next request's answer.
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
            self._length = body_length(headers)
            self._is_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        elif self._status == 101:
            raise _TooMuch("it switches protocols")

    def on_chunk_header(self) -> None:
        before = self._chunk_count
        self._chunk_count += 1
        if before >= FREE_CHUNKS and self._received < before * MIN_CHUNK and not self._is_stream:
            raise _TooMuch(f"its answer has over {FREE_CHUNKS} chunks of fewer than {MIN_CHUNK} bytes on average")

    def on_body(self, data: bytes) -> None:
        if not self._excess:
            self._received += len(data)
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
        if not self._head_given:
            self._head_given = True
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
        keep_alive = self._headers.get(b"keep-alive")
        if keep_alive is not None:
            self.keep_seconds = keep_alive_seconds(keep_alive)
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
            fail(reply, ReplyFailed(why, sent=True, began=began, reused=self._served > 0))

    def _reset(self) -> None:
        self._headers = {}
        self._header_count = 0
        self._headers_complete = self._head_given = self._until_eof = self._complete = False
        self._is_stream = self._more = self._resting = self.held = False
        self._length = self._received = self._chunk_count = 0
        self._flow.resume_reading()
        self._flow.release()
        self._chunks = []
        self._fed = 0


class _TooMuch(Exception):
    pass


_UNUSUAL = frozenset({b"content-encoding", b"keep-alive", b"transfer-encoding"})
"""Headers that change how a response is read. Heads with them are not kept."""
