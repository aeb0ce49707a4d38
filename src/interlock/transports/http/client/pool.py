"""A keep-alive connection pool for one server over HTTP/1.1. Idle connections are shared by all servers of an origin.

One request at a time on a connection, one write per request. The pool never sends twice: it reports how far a request
got, and its sender decides. The number of connections in use is each server's own, so a slow one takes nobody else's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from interlock.transports.batching import Batching
from interlock.transports.fairness import Share
from interlock.transports.http.client.channel import HttpChannel, KnownHeads
from interlock.transports.http.client.origin import Origin
from interlock.transports.http.client.outside import client_context, open_tunnel, proxy_for, why_no_connection
from interlock.transports.http.client.reply import Reply, ReplyFailed, fail
from interlock.wire.errors import Fault

CONNECT_SECONDS: Final = 10.0

DRAIN_SECONDS: Final = 1.0
"""How long a response may go on after its answer has come."""

MAX_IDLE: Final = 1_024
"""Connections kept for one origin."""


Guard: TypeAlias = Callable[[Origin], Awaitable[str]]
"""Which address to connect to, for an origin that is not to be taken at its word. Raises a `Fault`."""


class Pool:
    """The connections to one origin."""

    def __init__(
        self,
        origin: Origin,
        *,
        size: int = 256,
        queue: int = 4_096,
        context: ssl.SSLContext | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._origin = origin
        self._guard = guard
        self._size = size
        self._queue_limit = queue
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self.batching = Batching.of(self._loop)
        self.share = Share()
        """How much of the loop's time its event streams may take, all together."""
        self._idle = IdleConnections.shared(origin, context, guard)
        self._context = self._idle.context
        self.heads = self._idle.heads
        self._busy: set[HttpChannel] = set()
        """Channels that carry a request of ours."""
        self._opening: set[asyncio.Task[None]] = set()
        self._queue: deque[Reply] = deque()
        self._closed = False

    @property
    def connections(self) -> int:
        """How many carry a request or are being opened."""
        return len(self._busy) + len(self._opening)

    def submit(self, payload: bytes, reply: Reply, *, fresh: bool = False) -> None:
        """Send a request: at once on an idle connection, else on a new one or in its turn.

        `fresh` asks for a new one, if there may be one more. Raises RESOURCE_EXHAUSTED when too many wait already.
        """
        idle, busy = self._idle.connections, self._busy
        while idle and not fresh and len(busy) < self._size and not self._queue:
            connection = idle.pop()
            if connection.idle_until > self._now() and not connection.transport.is_closing():
                busy.add(connection)
                connection.pool, connection.reply = self, reply
                reply.connection, reply.over = connection, False
                if self.batching.running:
                    self.batching.write(connection.transport, payload)
                else:
                    connection.transport.write(payload)
                return
            connection.abort()
        if self._closed:
            raise Fault("UPSTREAM_UNAVAILABLE", "the connection was closed")
        opens = fresh and self.connections < self._size
        if not opens and len(self._queue) >= self._queue_limit:
            raise Fault("RESOURCE_EXHAUSTED", "too many requests wait for a connection", retry_after_ms=1000)
        reply.connection, reply.payload, reply.over = None, payload, False
        if opens:
            self._start(reply)
        else:
            self._queue.append(reply)
            self._open_more()

    def drop(self, reply: Reply) -> None:
        """The response is no longer wanted: close its connection, and tell nobody."""
        if reply.over:
            return
        reply.over = True
        if reply.connection is not None:
            reply.connection.abort()

    def drain(self, reply: Reply) -> None:
        """The answer has come: keep the connection if the response ends soon, else close it."""
        if not reply.over:
            self._loop.call_later(DRAIN_SECONDS, self.drop, reply)

    async def close(self) -> None:
        """Close every connection. Requests that still wait fail."""
        if not self._closed:
            self._closed, self._size = True, 0
            self._idle.leave()
        for task in list(self._opening):
            task.cancel()
        for connection in tuple(self._busy):
            connection.abort()
        queued, self._queue = self._queue, deque()
        for reply in queued:
            fail(reply, ReplyFailed("the connection was closed", sent=False))
        if self._opening:
            await asyncio.wait(self._opening)

    # Connections call these (`channel.Principal`).

    def release(self, connection: HttpChannel, keep: bool) -> None:
        """A connection is free again."""
        if not keep or self._closed:
            self._busy.discard(connection)
            connection.abort()
            return
        reply = self._next() if self._queue else None
        if reply is not None:
            self._begin(connection, reply)
            return
        self._busy.discard(connection)
        idle = self._idle
        if len(idle.connections) >= MAX_IDLE:
            connection.abort()
            return
        connection.idle_until = self._now() + connection.keep_seconds
        idle.connections.append(connection)
        if idle.reaper is None:
            idle.reap_in(connection.keep_seconds)

    def lost(self, connection: HttpChannel) -> None:
        """A connection is gone."""
        if connection in self._busy:
            self._busy.remove(connection)
        elif connection in self._idle.connections:
            self._idle.connections.remove(connection)
        self._open_more()

    def _begin(self, connection: HttpChannel, reply: Reply) -> None:
        """Send a request that had to wait for a connection."""
        payload, reply.payload = reply.payload, b""
        self._busy.add(connection)
        reply.connection, connection.reply = connection, reply
        self.batching.write(connection.transport, payload)

    def _next(self) -> Reply | None:
        while self._queue:
            reply = self._queue.popleft()
            if not reply.over:
                return reply
        return None

    def _open_more(self) -> None:
        """One connection on its way for each request in the queue, as far as the size allows."""
        while len(self._opening) < len(self._queue) and self.connections < self._size and not self._closed:
            self._start(None)

    def _start(self, reply: Reply | None) -> None:
        task = self._loop.create_task(self._open(reply))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, reply: Reply | None) -> None:
        """Open a connection for one request, or for the one that waits longest. If that fails, so does the request."""
        origin = self._origin
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self._connect(origin)
        except (OSError, TimeoutError, ssl.SSLError, ValueError, Fault) as cause:
            self._cannot_open(reply, why_no_connection(cause))
            return
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._opening.discard(task)
        if connection.transport.is_closing():
            self._cannot_open(reply, "the server closed the connection at once")
            return
        if reply is not None and not reply.over:
            self._begin(connection, reply)
        else:
            self.release(connection, keep=True)

    async def _connect(self, origin: Origin) -> HttpChannel:
        """A connection to the address that the guard judged, directly or through a proxy."""
        address = origin.host if self._guard is None else await self._guard(origin)
        proxy, context = proxy_for(origin), self._context
        if proxy is not None:
            return await open_tunnel(proxy, address, origin.port, HttpChannel(self), context, origin.host)
        _, connection = await self._loop.create_connection(
            lambda: HttpChannel(self),
            address,
            origin.port,
            ssl=context,
            server_hostname=origin.host if context is not None else None,
        )
        return connection

    def _cannot_open(self, reply: Reply | None, why: str) -> None:
        reply = reply or self._next()
        if reply is not None:
            fail(reply, ReplyFailed(f"cannot connect to {self._origin.authority}: {why}", sent=False))


_Key = tuple[Origin, ssl.SSLContext | None, object]


class IdleConnections:
    """The idle connections to one origin. The last one put in is the first one taken."""

    def __init__(self, key: _Key) -> None:
        origin, context, _ = self._key = key
        self.context = (context or default_context()) if origin.scheme == "https" else None
        self.connections: deque[HttpChannel] = deque()
        self.heads = KnownHeads()
        """The heads of good responses."""
        self.reaper: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._users = 0

    @classmethod
    def shared(cls, origin: Origin, context: ssl.SSLContext | None, guard: object) -> IdleConnections:
        """The idle connections to an origin, one object for all pools that connect in the same way. Each pool must
        `leave` in the end."""
        all_ = _IDLE.setdefault(asyncio.get_running_loop(), {})
        key = (origin, context, guard)
        found = all_.get(key)
        if found is None:
            found = all_[key] = cls(key)
        found._users += 1
        return found

    def leave(self) -> None:
        """One user less. The last one closes every connection."""
        self._users -= 1
        if self._users:
            return
        _IDLE.get(self._loop, {}).pop(self._key, None)
        if self.reaper is not None:
            self.reaper.cancel()
        while self.connections:
            self.connections.pop().abort()

    def reap_in(self, seconds: float) -> None:
        """Look for connections that have been idle for too long, after a while."""
        self.reaper = self._loop.call_later(seconds, self._reap)

    def _reap(self) -> None:
        # The oldest stand first.
        self.reaper = None
        now = self._loop.time()
        while self.connections and self.connections[0].idle_until <= now:
            self.connections.popleft().abort()
        if self.connections:
            self.reap_in(max(self.connections[0].idle_until - now, 0.1))


def default_context() -> ssl.SSLContext:
    """The system's trust, and HTTP/1.1 alone."""
    return client_context()


_IDLE: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, IdleConnections]] = WeakKeyDictionary()
