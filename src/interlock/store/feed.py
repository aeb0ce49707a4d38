"""Follows the commits of other hubs to the same database.

A notification only wakes the thread. It reads the changes by revision, so none is missed while the connection is down.
The feed reads at least once a second, and the event loop cuts a connection whose reads hang: this heartbeat bounds how
long a change can stay unknown.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from .connect import connect
from .database import Database, transaction
from .documents import Change, counter, since
from .errors import StoreDamaged, StoreError

POLL_S: Final = 1.0
"""How long to wait for a notification before reading anyway."""
STALLED_S: Final = 2.5
"""A connection is cut when the last complete read began this long ago."""
WATCH_S: Final = 0.5
"""How often the event loop looks whether the feed is stalled."""
_RECONNECT_S: Final = 0.5
_HOLD_AGAIN_S: Final = 0.2
"""While another hub has the name of this one, it is tried again after this time."""

Deliver = Callable[[list[Change], int], None]


now_s: Callable[[], float] = time.monotonic
"""The clock of the feed, in seconds. On Linux it also runs while the machine sleeps."""
if sys.platform == "linux":
    now_s = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


class Feed:
    """A thread that follows a database. It calls `deliver` and `missed` on the loop."""

    def __init__(
        self, where: str, seen: int, deliver: Deliver, missed: Callable[[], None], node: str | None = None
    ) -> None:
        self._where = where
        self._node = node
        """The name that no other hub of the database may have meanwhile."""
        self._is_held = node is None
        """Whether the connection holds the lock of the name."""
        self.holder: str | None = None
        """The hub that has the name of this one."""
        self.failure: StoreError | None = None
        """Why the last connection failed."""
        self._deliver = deliver
        self._missed = missed
        self._loop = asyncio.get_running_loop()
        self.claimed = asyncio.Event()
        """Set once the lock of the name was held for the first time."""
        self.current_at = now_s()
        """When the last read began whose changes all reached the loop."""
        self.database: Database | None = None
        """The connection that it reads and listens on."""
        self._cut: Database | None = None
        """The connection that the event loop cut last."""
        self._seen = seen
        """The revision up to which changes were read."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-feed", daemon=True)
        self._thread.start()
        self._watchdog = self._loop.call_later(WATCH_S, self._watch)

    async def close(self) -> None:
        self._watchdog.cancel()
        self._closing.set()
        if self.database is not None:
            self.database.interrupt()
        await asyncio.to_thread(self._thread.join)

    def _watch(self) -> None:
        """Cut a connection that hangs, so that the thread connects anew."""
        database = self.database
        if database is not None and database is not self._cut and now_s() - self.current_at > STALLED_S:
            self._cut = database
            database.interrupt()
        self._watchdog = self._loop.call_later(WATCH_S, self._watch)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self.database is None:
                    # Assigned before its first statement, so that `_watch` can cut it.
                    self.database = connect(self._where, read_only=True)
                    self.database.listen()
                if not self._is_held:
                    self._hold(self.database)
                self._poll(self.database)
                self.database.wait(POLL_S if self._is_held else _HOLD_AGAIN_S)
            except StoreError as cause:
                self.failure = cause
                self._disconnect()
                self._closing.wait(_RECONNECT_S)
        self._disconnect()

    def _hold(self, database: Database) -> None:
        """Take the lock of the name. It ends with the connection, and is taken again with the next."""
        about = f"process {os.getpid()} on {socket.gethostname()[:30]}"
        holder = database.hold(f"interlock node {self._node}", about)
        self._is_held = holder is None
        self._call_on_loop(partial(self._on_held, holder))

    def _on_held(self, holder: str | None) -> None:
        self.holder = holder
        if holder is None:
            self.claimed.set()

    def _disconnect(self) -> None:
        self._is_held = self._node is None
        database, self.database = self.database, None
        if database is not None:
            database.close()

    def _poll(self, database: Database) -> None:
        started = now_s()
        purged, revision, changes = self._next(database)
        if revision < self._seen:
            # Further changes would have revisions that count as read, so they could not be told from old ones.
            raise StoreDamaged("the counter of the store's changes went back", operator_text=f"it is {revision}")
        if purged > self._seen:
            self._call_on_loop(self._missed)
        while changes:
            self._seen = changes[-1].revision
            self._call_on_loop(partial(self._deliver, changes, self._seen))
            *_, changes = self._next(database)
        self._seen = max(self._seen, min(purged, revision))
        self._call_on_loop(partial(self._caught_up, started))

    def _caught_up(self, at: float) -> None:
        self.current_at = at

    def _next(self, database: Database) -> tuple[int, int, list[Change]]:
        """The revision up to which deletions were purged, that of the last change, and the next changes."""
        with transaction(database, read_only=True):
            return counter(database, "purged"), counter(database, "revision"), since(database, self._seen)

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The loop may be closed already.
            self._loop.call_soon_threadsafe(callback)
