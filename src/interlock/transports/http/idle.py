"""Connections to one origin that carry nothing at the moment.

Whoever has a request for it takes one, for whichever of its servers: many that live at one address need no more
connections than have calls under way. How many a server may use at once stays its own pool's affair, so that a slow one
takes nobody else's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from interlock.transports.http.known_heads import KnownHeads
from interlock.transports.http.origin import Origin

if TYPE_CHECKING:
    from interlock.transports.http.channel import Channel

MOST: Final = 1_024
"""Connections kept for one origin."""

_Key = tuple[Origin, ssl.SSLContext | None, object]


class Idle:
    """What waits for use. The last one put in is the first one taken."""

    def __init__(self, key: _Key) -> None:
        origin, context, _ = self._key = key
        self.context = (context or default_context()) if origin.scheme == "https" else None
        self._loop = asyncio.get_running_loop()
        self._users = 0
        self._reaper: asyncio.TimerHandle | None = None
        self.connections: deque[Channel] = deque()
        self.heads = KnownHeads()
        """Of good responses: those that come again need no parser."""

    @classmethod
    def shared(cls, origin: Origin, context: ssl.SSLContext | None, guard: object) -> Idle:
        """That of an origin, for those who connect to it in the same way. `leave` it in the end."""
        all_ = _IDLE.setdefault(asyncio.get_running_loop(), {})
        key = (origin, context, guard)
        found = all_.get(key)
        if found is None:
            found = all_[key] = cls(key)
        found._users += 1
        return found

    def leave(self) -> None:
        """One user less. After the last one nothing is kept."""
        self._users -= 1
        if self._users:
            return
        _IDLE.get(self._loop, {}).pop(self._key, None)
        if self._reaper is not None:
            self._reaper.cancel()
        while self.connections:
            self.connections.pop().abort()

    def put(self, connection: Channel) -> None:
        """Keep a connection for a while."""
        if not self._users or len(self.connections) >= MOST:
            connection.abort()
            return
        self.connections.append(connection)
        if self._reaper is None:
            self._reaper = self._loop.call_later(connection.keep_seconds, self._reap)

    def drop(self, connection: Channel) -> None:
        """It is gone."""
        if connection in self.connections:
            self.connections.remove(connection)

    def _reap(self) -> None:
        """Close what has been idle for long. The oldest stand first."""
        self._reaper = None
        now = self._loop.time()
        while self.connections and self.connections[0].idle_until <= now:
            self.connections.popleft().abort()
        if self.connections:
            pause = max(self.connections[0].idle_until - now, 0.1)
            self._reaper = self._loop.call_later(pause, self._reap)


def default_context() -> ssl.SSLContext:
    """The system's trust, and HTTP/1.1 alone."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


_IDLE: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Idle]] = WeakKeyDictionary()
