"""The one thread that writes. What waits while it commits goes into the next commit together: group commit.

A unit of work either fails by itself before it has changed anything, or its whole group stands or falls with it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from .database import Database
from .errors import Conflict, StoreBusy, StoreError, StoreUnavailable

MOST_WAITING: Final = 10_000
MOST_TOGETHER: Final = 256
LONGEST_COMMIT_S: Final = 30.0
"""After this a group is given up and its connection dropped: a database that hangs must not hang the hub."""

Work = Callable[[Database], object]
Done = Callable[[object, StoreError | None], None]


class Unit:
    """Something to write, and whom to tell. `work` may be run again after a failure; `done` is called once."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Work, done: Done) -> None:
        self.work = work
        self.done = done
        self.result: object = None
        self.error: StoreError | None = None


class Writer:
    """Owns the writing connection. Made and told on the loop's thread; `done` is called there too."""

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._database: Database | None = connect()
        self.shared = self._database.shared
        self._loop = asyncio.get_running_loop()
        self._units: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        self._waiting = 0
        self._busy_since: float | None = None
        self._closed = False
        self._watch = self._loop.call_later(1.0, self._watch_over)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        """Have something written. Raises StoreBusy when too much waits already, and StoreUnavailable after the end."""
        if self._closed:
            raise StoreUnavailable("the store is closed", "open it again")
        if self._waiting >= MOST_WAITING:
            raise StoreBusy(f"{MOST_WAITING} changes wait to be written")
        self._waiting += 1
        self._units.put(Unit(work, done))

    async def close(self) -> None:
        """Write what waits, then end."""
        if not self._closed:
            self._closed = True
            self._watch.cancel()
            self._units.put(None)
        await asyncio.to_thread(self._thread.join)

    def _watch_over(self) -> None:
        since, database = self._busy_since, self._database
        if since is not None and database is not None and time.monotonic() - since > LONGEST_COMMIT_S:
            database.interrupt()
        self._watch = self._loop.call_later(1.0, self._watch_over)

    def _run(self) -> None:
        ending = False
        while not ending:
            group: list[Unit] = []
            unit = self._units.get()
            while unit is not None:
                group.append(unit)
                if len(group) == MOST_TOGETHER:
                    break
                try:
                    unit = self._units.get_nowait()
                except queue.Empty:
                    break
            ending = unit is None
            if group:
                self._busy_since = time.monotonic()
                self._write(group)
                self._busy_since = None
                self._tell(group)
        if self._database is not None:
            self._database.close()

    def _write(self, group: Sequence[Unit]) -> None:
        try:
            database = self._opened()
            database.begin()
            for unit in group:
                try:
                    unit.result, unit.error = unit.work(database), None
                except Unchanged as refusal:
                    unit.error = refusal.error
            database.commit()
        except StoreError as error:
            self._undo(error)
            if len(group) > 1 and type(error) in (Conflict, StoreError):
                # One of them cannot be written at all; it must not take its neighbours with it.
                for unit in group:
                    self._write([unit])
            else:
                _fail(group, error)
        except Exception as bug:
            self._undo(StoreError(""))
            _fail(group, StoreError(f"{type(bug).__name__} while writing: {bug}", "report this as a bug"))

    def _opened(self) -> Database:
        if self._database is None:
            self._database = self._connect()
        return self._database

    def _undo(self, error: StoreError) -> None:
        if self._database is None:
            return
        self._database.rollback()
        if isinstance(error, StoreUnavailable):
            self._database.close()
            self._database = None

    def _tell(self, group: list[Unit]) -> None:
        # The loop may be gone already, and with it everyone who could be told.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._told, group)

    def _told(self, group: list[Unit]) -> None:
        self._waiting -= len(group)
        for unit in group:
            unit.done(unit.result, unit.error)


class Unchanged(Exception):
    """Raised by a unit that refuses before it has changed anything."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self.error = error


def refuse(error: StoreError) -> Exception:
    """What a unit raises to fail by itself, having changed nothing."""
    return Unchanged(error)


def _fail(group: Sequence[Unit], error: StoreError) -> None:
    for unit in group:
        unit.result, unit.error = None, error
