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
        self._lanes: dict[str, _PrivateConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._lanes)

    def get(self, name: str) -> UpstreamConnection | None:
        """The connection, if it is there already."""
        lane = self._lanes.get(name)
        if lane is None:
            return None
        lane.used = asyncio.get_running_loop().time()
        return lane.line

    def lines(self) -> list[UpstreamConnection]:
        """Every connection that is there."""
        return [lane.line for lane in self._lanes.values() if lane.line is not None]

    async def open(self, name: str, opener: Callable[[], Awaitable[UpstreamConnection]]) -> UpstreamConnection:
        """The connection, opened if it is not there. Two who want the same one at once get the same one."""
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= self._most and not self._evict():
                raise Fault(
                    "RESOURCE_EXHAUSTED",
                    f"{self._most} private sessions are in use on this server",
                    mend="wait, or raise [hub.limits] private_sessions_per_server",
                    retry_after_ms=5000,
                )
            loop = asyncio.get_running_loop()
            lane = _PrivateConnection(asyncio.ensure_future(opener()), loop.time())
            self._lanes[name] = lane
        try:
            line = await asyncio.shield(lane.opening)
        except BaseException:
            if lane.opening.done() and self._lanes.get(name) is lane:
                del self._lanes[name]
            raise
        lane.line = line
        return line

    def lost(self, connection: Connection) -> None:
        """A connection ended by itself."""
        for name, lane in list(self._lanes.items()):
            if lane.line is not None and lane.line.connection is connection:
                del self._lanes[name]

    def drop(self, name: str) -> None:
        """Its owner is gone."""
        lane = self._lanes.pop(name, None)
        if lane is not None:
            task = asyncio.ensure_future(self._close(lane))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def reap(self, unused_since: float) -> None:
        """Drop those that nobody used since then, and that have nothing under way."""
        for name, lane in list(self._lanes.items()):
            if lane.used < unused_since and _idle(lane):
                self.drop(name)

    async def close(self) -> None:
        """Drop all of them, and wait until they are gone."""
        for name in list(self._lanes):
            self.drop(name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _evict(self) -> bool:
        """Make room by dropping the one that was unused for longest; not one with something under way."""
        idle = [(lane.used, name) for name, lane in self._lanes.items() if _idle(lane)]
        if not idle:
            return False
        self.drop(min(idle)[1])
        return True

    async def _close(self, lane: _PrivateConnection) -> None:
        if not lane.opening.done():
            lane.opening.cancel()
        try:
            line = await lane.opening
        except (asyncio.CancelledError, Exception):
            return
        await line.connection.close()


def _idle(lane: _PrivateConnection) -> bool:
    line = lane.line
    return line is not None and not line.connection.pending and not (line.owner is not None and line.owner.tasks)
