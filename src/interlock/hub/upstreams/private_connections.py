"""Private connections of one server: opened on demand, bounded, closed when idle, never handed to another owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from interlock.client.connection import Connection
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.wire.errors import Fault


class _PrivateConnection:
    __slots__ = ("line", "opening", "used")

    def __init__(self, opening: asyncio.Future[UpstreamConnection], used: float) -> None:
        self.opening = opening
        self.line: UpstreamConnection | None = None
        self.used = used


class PrivateConnections:
    """By the name of whom each belongs to."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._private_connections: dict[str, _PrivateConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._private_connections)

    def get(self, name: str) -> UpstreamConnection | None:
        """The connection, if it is there already."""
        connection_key = self._private_connections.get(name)
        if connection_key is None:
            return None
        connection_key.used = asyncio.get_running_loop().time()
        return connection_key.line

    def lines(self) -> list[UpstreamConnection]:
        """Every connection that is there."""
        return [
            connection_key.line
            for connection_key in self._private_connections.values()
            if connection_key.line is not None
        ]

    async def open(self, name: str, opener: Callable[[], Awaitable[UpstreamConnection]]) -> UpstreamConnection:
        """The connection, opened if it is not there. Two who want the same one at once get the same one."""
        connection_key = self._private_connections.get(name)
        if connection_key is None:
            if len(self._private_connections) >= self._most and not self._evict():
                raise Fault(
                    "RESOURCE_EXHAUSTED",
                    f"{self._most} private sessions are in use on this server",
                    hint="wait, or raise [hub.limits] private_sessions_per_server",
                    retry_after_ms=5000,
                )
            loop = asyncio.get_running_loop()
            connection_key = _PrivateConnection(asyncio.ensure_future(opener()), loop.time())
            self._private_connections[name] = connection_key
        try:
            line = await asyncio.shield(connection_key.opening)
        except BaseException:
            if connection_key.opening.done() and self._private_connections.get(name) is connection_key:
                del self._private_connections[name]
            raise
        connection_key.line = line
        return line

    def lost(self, connection: Connection) -> None:
        """A connection ended by itself."""
        for name, connection_key in list(self._private_connections.items()):
            if connection_key.line is not None and connection_key.line.connection is connection:
                del self._private_connections[name]

    def drop(self, name: str) -> None:
        """Its owner is gone."""
        connection_key = self._private_connections.pop(name, None)
        if connection_key is not None:
            task = asyncio.ensure_future(self._close(connection_key))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def reap(self, unused_since: float) -> None:
        """Drop those that nobody used since then, and that have nothing under way."""
        for name, connection_key in list(self._private_connections.items()):
            if connection_key.used < unused_since and _idle(connection_key):
                self.drop(name)

    async def close(self) -> None:
        """Drop all of them, and wait until they are gone."""
        for name in list(self._private_connections):
            self.drop(name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _evict(self) -> bool:
        """Make room by dropping the one that was unused for longest; not one with something under way."""
        idle = [
            (connection_key.used, name)
            for name, connection_key in self._private_connections.items()
            if _idle(connection_key)
        ]
        if not idle:
            return False
        self.drop(min(idle)[1])
        return True

    async def _close(self, connection_key: _PrivateConnection) -> None:
        if not connection_key.opening.done():
            connection_key.opening.cancel()
        try:
            line = await connection_key.opening
        except (asyncio.CancelledError, Exception):
            return
        await line.connection.close()


def _idle(connection_key: _PrivateConnection) -> bool:
    line = connection_key.line
    return line is not None and not line.connection.pending and not (line.owner is not None and line.owner.tasks)
