"""The private connections of one server by name: opened on demand, bounded in number, and closed when idle."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from interlock.client.connection import Connection
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.process.task_set import TaskSet
from interlock.wire.errors import Fault


class _PrivateConnection:
    __slots__ = ("began", "connection", "opening", "principal")

    def __init__(self, opening: asyncio.Future[UpstreamConnection], principal: str, began: float) -> None:
        self.opening = opening
        self.principal = principal
        self.connection: UpstreamConnection | None = None
        self.began = began

    @property
    def used(self) -> float:
        """When the owner last sent a call."""
        owner = None if self.connection is None else self.connection.owner
        return self.began if owner is None else max(self.began, owner.used)


class PrivateConnections:
    """Each entry has one owner and is never handed to another."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[str, _PrivateConnection] = {}
        self._open: dict[str, UpstreamConnection] = {}
        self.get = self._open.get
        """The open connection of a name, if there is one. The dictionary's own method: every call uses it."""
        self._closing = TaskSet()

    def open_connections(self) -> list[UpstreamConnection]:
        """Every open connection."""
        return list(self._open.values())

    def items(self) -> list[tuple[str, UpstreamConnection]]:
        """Every open connection with its name."""
        return list(self._open.items())

    def rename(self, name: str, other: str) -> None:
        """Give a connection another name from now on. Where that name is taken, nobody gets this connection any more,
        and it is closed when it is idle."""
        entry, connection = self._entries.pop(name), self._open.pop(name)
        if other in self._entries:
            self._entries[f"{other}.{secrets.token_hex(8)}"] = entry
        else:
            self._entries[other], self._open[other] = entry, connection

    async def open(
        self, name: str, principal: str, opener: Callable[[], Awaitable[UpstreamConnection]]
    ) -> UpstreamConnection:
        """The connection of this name, opened for its principal if it is not there. Simultaneous callers get the same
        connection."""
        entry = self._entries.get(name)
        if entry is None:
            if len(self._entries) >= self._limit and not self._evict_for(principal):
                raise Fault(
                    "RESOURCE_EXHAUSTED",
                    f"{self._limit} private sessions are in use on this server",
                    hint="wait, or raise [hub.limits] private_sessions_per_server",
                    retry_after_ms=5000,
                )
            loop = asyncio.get_running_loop()
            entry = _PrivateConnection(asyncio.ensure_future(opener()), principal, loop.time())
            self._entries[name] = entry
            entry.opening.add_done_callback(partial(self._on_opened, name, entry))
        return await asyncio.shield(entry.opening)

    def _on_opened(self, name: str, entry: _PrivateConnection, opening: asyncio.Future[UpstreamConnection]) -> None:
        """Lend a connection that is open, and give the place of one that failed back. Its callers may all have left."""
        failed = opening.cancelled() or opening.exception() is not None
        if self._entries.get(name) is not entry:
            return
        if failed:
            del self._entries[name]
        else:
            entry.connection = self._open[name] = opening.result()

    def on_lost(self, connection: Connection) -> None:
        """Forget a connection that the server closed."""
        for name, entry in list(self._entries.items()):
            if entry.connection is not None and entry.connection.connection is connection:
                del self._entries[name]
                self._open.pop(name, None)

    def drop(self, name: str) -> None:
        """Close a connection."""
        entry = self._entries.pop(name, None)
        self._open.pop(name, None)
        if entry is not None:
            self._closing.begin(self._close(entry))

    def drop_idle(self, name: str) -> None:
        """Close a connection, unless it has a request pending or a task running."""
        if name in self._open and _idle(self._entries[name]):
            self.drop(name)

    def reap(self, unused_since: float) -> None:
        """Close idle connections that nobody used since then."""
        for name, entry in list(self._entries.items()):
            if entry.used < unused_since and _idle(entry):
                self.drop(name)

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        for name in list(self._entries):
            self.drop(name)
        await self._closing.settled()

    def _evict_for(self, principal: str) -> bool:
        """Close an idle connection of the principal that has most, the one that was unused for longest.

        A principal takes no place from one that has no more than itself. Returns False if no connection can be closed.
        """
        counts = Counter(entry.principal for entry in self._entries.values())
        idle = [
            (-counts[entry.principal], entry.used, name)
            for name, entry in self._entries.items()
            if _idle(entry) and (entry.principal == principal or counts[entry.principal] > counts[principal])
        ]
        if not idle:
            return False
        self.drop(min(idle)[2])
        return True

    async def _close(self, entry: _PrivateConnection) -> None:
        if not entry.opening.done():
            entry.opening.cancel()
        try:
            opened = await entry.opening
        except (asyncio.CancelledError, Exception):
            return
        await opened.connection.close()


def _idle(entry: _PrivateConnection) -> bool:
    """Whether a connection has no request pending and no task running."""
    found = entry.connection
    return found is not None and not found.connection.pending and not (found.owner is not None and found.owner.tasks)
