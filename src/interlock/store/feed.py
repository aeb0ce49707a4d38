"""Follows the commits of other nodes to a shared database.

A notification only wakes the thread. It reads the changes by revision, so none is missed while the connection is down.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from .database import transaction
from .documents import Change, counter, since
from .errors import StoreError
from .postgres import Postgres

POLL_S: Final = 2.0
"""How long to wait for a notification before reading anyway."""
_RECONNECT_S: Final = 0.5

Deliver = Callable[[list[Change], int], None]


class Feed:
    """A thread that follows a database. It calls `deliver` and `missed` on the loop."""

    def __init__(self, where: str, deliver: Deliver, missed: Callable[[], None]) -> None:
        self._where = where
        self._deliver = deliver
        self._missed = missed
        self._loop = asyncio.get_running_loop()
        self._database: Postgres | None = self._connect()
        self._seen = counter(self._database, "revision")
        self._closing = threading.Event()
        self.current_at = time.monotonic()
        """When the feed last knew every change."""
        self._thread = threading.Thread(target=self._run, name="store-feed", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        self._closing.set()
        if self._database is not None:
            self._database.interrupt()
        await asyncio.to_thread(self._thread.join)

    def _connect(self) -> Postgres:
        database = Postgres(self._where, read_only=True)
        try:
            database.listen()
        except StoreError:
            database.close()
            raise
        return database

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self._database is None:
                    self._database = self._connect()
                self._poll(self._database)
                self._database.wait(POLL_S)
            except StoreError:
                if self._database is not None:
                    self._database.close()
                    self._database = None
                self._closing.wait(_RECONNECT_S)
        if self._database is not None:
            self._database.close()

    def _poll(self, database: Postgres) -> None:
        started = time.monotonic()
        purged, changes = self._next(database)
        if purged > self._seen:
            self._call_on_loop(self._missed)
        while changes:
            self._seen = changes[-1].revision
            self._call_on_loop(partial(self._deliver, changes, self._seen))
            _, changes = self._next(database)
        self._seen = max(self._seen, purged)
        self.current_at = started

    def _next(self, database: Postgres) -> tuple[int, list[Change]]:
        """The revision up to which deletions were purged, and the next changes."""
        with transaction(database, read_only=True):
            return counter(database, "purged"), since(database, self._seen)

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The loop may be closed already.
            self._loop.call_soon_threadsafe(callback)
