"""A keep-alive connection pool for one HTTP/1.1 origin, as lean as a hub's hot path needs it.

One request at a time on a connection, one write per request. Nothing is ever sent twice here: whoever asked is told how
far it got, and decides.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from interlock.transports.http.known_heads import KnownHeads
from interlock.wire.errors import Fault

HEAD_BYTES: Final = 64 * 1024
HEADERS: Final = 128
CONNECT_SECONDS: Final = 10.0

IDLE_SECONDS: Final = 4.0
"""Shorter than the five seconds after which the common servers hang up, so that a request seldom meets that."""

DRAIN_SECONDS: Final = 1.0
"""How long a response may go on after what was wanted of it has come."""


class Origin(msgspec.Struct, frozen=True):
    """Where connections go."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.scheme == "https" else 80
        return host if self.port == default else f"{host}:{self.port}"


def split_url(url: str) -> tuple[Origin, str]:
    """An http(s) URL's origin and request target. Raises INVALID_PARAMS, saying what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as cause:
        raise Fault("INVALID_PARAMS", f"not a URL: {cause}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Fault("INVALID_PARAMS", f"not an http or https URL: {url[:200]!r}")
    if parts.username is not None or parts.password is not None:
        raise Fault("INVALID_PARAMS", "a URL must not hold a password", mend="configure an Authorization header")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or any(char <= " " or char == "\x7f" for char in target + parts.hostname):
        raise Fault("INVALID_PARAMS", "a URL must be plain ASCII without spaces", mend="percent-encode it")
    return Origin(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)), target


class Failed(msgspec.Struct, frozen=True):
    """How a request ended without a whole response."""

    why: str
    sent: bool
    """Whether any of it may have reached the server."""
    began: bool = False
    """Whether any of the response came."""
    reused: bool = False
    """Whether the connection had carried a request before, so that the server may just have closed it for idleness."""


class Reply(Protocol):
    """Who takes the response to one request."""

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        """The status and the headers, names in lower case. A repeated header is joined with commas."""

    def body(self, data: bytes) -> None:
        """A piece of the body."""

    def done(self) -> None:
        """The response is complete."""

    def failed(self, how: Failed) -> None:
        """There is no (more) response."""


class Ticket(msgspec.Struct, eq=False):
    """One request's place in the pool."""

    payload: bytes
    reply: Reply
    connection: Connection | None = None
    over: bool = False


class Pool:
    """The connections to one origin."""

    def __init__(
        self, origin: Origin, *, size: int = 256, queue: int = 4_096, context: ssl.SSLContext | None = None
    ) -> None:
        self._origin = origin
        self._size = size
        self._queue_limit = queue
        self._context = (context or default_context()) if origin.scheme == "https" else None
        self._loop = asyncio.get_running_loop()
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._queue: deque[Ticket] = deque()
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False
        self.heads = KnownHeads()
        """Of good responses; those that come again need no parser (measured: 1.5 µs instead of 9)."""

    @property
    def connections(self) -> int:
        """How many are open or being opened."""
        return len(self._idle) + len(self._busy) + len(self._opening)

    def submit(self, payload: bytes, reply: Reply, *, fresh: bool = False) -> Ticket:
        """Send a request: at once on an idle connection, else on a new one or in its turn.

        Raises RESOURCE_EXHAUSTED when too many wait already.
        """
        if self._closed:
            raise Fault("UPSTREAM_UNAVAILABLE", "the connection was closed")
        ticket = Ticket(payload, reply)
        connection = None if fresh else self._take_idle()
        if connection is not None:
            self._busy.add(connection)
            connection.begin(ticket)
            return ticket
        if len(self._queue) >= self._queue_limit:
            raise Fault("RESOURCE_EXHAUSTED", "too many requests wait for a connection", retry_after_ms=1000)
        self._queue.append(ticket)
        self._open_more()
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """The response is no longer wanted: its connection is closed, and nobody is told."""
        if ticket.over:
            return
        ticket.over = True
        if ticket.connection is not None:
            ticket.connection.abort()

    def drain(self, ticket: Ticket) -> None:
        """All that was wanted has come: keep the connection if the response ends soon, else close it."""
        if not ticket.over:
            self._loop.call_later(DRAIN_SECONDS, self.drop, ticket)

    async def close(self) -> None:
        """Close every connection. Whoever still waits is told."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        for task in list(self._opening):
            task.cancel()
        for connection in (*self._idle, *self._busy):
            connection.abort()
        queued, self._queue = self._queue, deque()
        for ticket in queued:
            _fail(ticket, Failed("the connection was closed", sent=False))
        if self._opening:
            await asyncio.wait(self._opening)

    # What connections report.

    def release(self, connection: Connection, keep: bool) -> None:
        """A connection is free again."""
        self._busy.discard(connection)
        if not keep or self._closed:
            connection.abort()
            return
        ticket = self._next_ticket() if self._queue else None
        if ticket is not None:
            self._busy.add(connection)
            connection.begin(ticket)
            return
        connection.idle_until = self._loop.time() + connection.keep_seconds
        self._idle.append(connection)
        if self._reaper is None:
            self._reaper = self._loop.call_later(IDLE_SECONDS, self._reap)

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self._busy.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._open_more()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_until > self._loop.time() and connection.usable:
                return connection
            connection.abort()
        return None

    def _next_ticket(self) -> Ticket | None:
        while self._queue:
            ticket = self._queue.popleft()
            if not ticket.over:
                return ticket
        return None

    def _open_more(self) -> None:
        """One connection on its way for each request in the queue, as far as the size allows."""
        while len(self._opening) < len(self._queue) and self.connections < self._size and not self._closed:
            task = self._loop.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self) -> None:
        """Open a connection for whoever waits longest; if that fails, that request is told so."""
        origin = self._origin
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self),
                    origin.host,
                    origin.port,
                    ssl=self._context,
                    server_hostname=origin.host if self._context is not None else None,
                )
        except (OSError, TimeoutError, ssl.SSLError) as cause:
            self._cannot_open(str(cause) or "no connection in time")
            return
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._opening.discard(task)
        if connection.usable:
            self.release(connection, keep=True)
        else:
            self._cannot_open("the server closed the connection at once")

    def _cannot_open(self, why: str) -> None:
        ticket = self._next_ticket()
        if ticket is not None:
            _fail(ticket, Failed(f"cannot connect to {self._origin.authority}: {why}", sent=False))

    def _reap(self) -> None:
        """Close what has been idle for long. The oldest stand first."""
        self._reaper = None
        now = self._loop.time()
        while self._idle and self._idle[0].idle_until <= now:
            self._idle.popleft().abort()
        if self._idle:
            self._reaper = self._loop.call_later(max(self._idle[0].idle_until - now, 0.1), self._reap)


class Connection(asyncio.Protocol):
    """One connection. The parser's callbacks only note; what was noted is handed over when the parser has returned."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._ticket: Ticket | None = None
        self._served = 0
        self.keep_seconds = IDLE_SECONDS
        self.idle_until = 0.0
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._headers_complete = False
        self._head_told = False
        self._until_eof = False
        self._complete = False
        self._keep = False
        self._excess = False
        self._chunks: list[bytes] = []
        self._fed = 0

    @property
    def usable(self) -> bool:
        """Whether a request may still be put on it."""
        return not self._transport.is_closing()

    def begin(self, ticket: Ticket) -> None:
        """Send a request. The connection must be idle."""
        self._ticket = ticket
        ticket.connection = self
        self._transport.write(ticket.payload)
        ticket.payload = b""

    def abort(self) -> None:
        """Close at once, without a word to whoever waits."""
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        ticket = self._ticket
        if ticket is None or ticket.over:
            self.abort()  # nobody asked
            return
        fresh = not self._fed
        if fresh:
            known = self._pool.heads.find(data)
            if known is not None:
                self._hand_over_known(ticket, *known)
                return
        if not self._headers_complete:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, _TooMuch) as cause:
            self._break(str(cause.__context__ or cause) or type(cause).__name__)
            return
        if not self._headers_complete and self._fed > HEAD_BYTES:
            self._break("its headers are too large")
            return
        if fresh and self._complete and self._status == 200 and self._keep and not self._excess:
            self._remember(data)
        self._hand_over(ticket)

    def connection_lost(self, exc: Exception | None) -> None:
        ticket = self._ticket
        if ticket is not None and not ticket.over and self._headers_complete and self._until_eof:
            self._complete = True
            self._hand_over(ticket, keep=False)
        else:
            self._break("the server closed the connection" if exc is None else f"the connection broke: {exc}")
        self._pool.lost(self)

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

    def _hand_over_known(self, ticket: Ticket, headers: dict[bytes, bytes], body: bytes) -> None:
        """A whole good response, the like of which the parser has read before: it stays as it is, between two."""
        reply = ticket.reply
        reply.head(200, headers)
        if not ticket.over:
            reply.body(body)
        if ticket.over:
            return
        ticket.over = True
        self._ticket = None
        self._served += 1
        self._pool.release(self, True)
        reply.done()

    def _remember(self, data: bytes) -> None:
        if b"transfer-encoding" not in self._headers and b"keep-alive" not in self._headers:
            self._pool.heads.remember(data, self._headers)

    def _hand_over(self, ticket: Ticket, keep: bool = True) -> None:
        if not self._headers_complete:
            return
        reply = ticket.reply
        if not self._head_told:
            self._head_told = True
            reply.head(self._status, self._headers)
        if self._chunks and not ticket.over:
            data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            reply.body(data)
        if not self._complete or ticket.over:
            return
        ticket.over = True
        self._ticket = None
        keep = keep and self._keep and not self._excess
        self._served += 1
        said = self._headers.get(b"keep-alive")
        if said is not None:
            self.keep_seconds = _keep_alive_seconds(said)
        self._reset()
        self._pool.release(self, keep)
        reply.done()

    def _break(self, why: str) -> None:
        ticket, self._ticket = self._ticket, None
        self.abort()
        if ticket is not None:
            began = self._fed > 0
            _fail(ticket, Failed(why, sent=True, began=began, reused=self._served > 0))

    def _reset(self) -> None:
        self._headers = {}
        self._header_count = 0
        self._headers_complete = self._head_told = self._until_eof = self._complete = False
        self._chunks = []
        self._fed = 0


def default_context() -> ssl.SSLContext:
    """The system's trust, and HTTP/1.1 alone."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _TooMuch(Exception):
    pass


def _fail(ticket: Ticket, how: Failed) -> None:
    if not ticket.over:
        ticket.over = True
        ticket.reply.failed(how)


def _keep_alive_seconds(said: bytes) -> float:
    """How long a server says it keeps an idle connection, less a second for the way."""
    for part in said.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name.lower() == b"timeout" and value.isdigit() and len(value) < 6:
            return max(min(float(value) - 1.0, 60.0), 0.0)
    return IDLE_SECONDS
