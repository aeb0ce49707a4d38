"""The writer thread. Units of work that wait while it commits share the next commit (group commit).

A unit either fails by itself before it changes anything, or its whole group commits or fails together.
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

MAX_WAITING: Final = 10_000
MAX_GROUP: Final = 256
MAX_COMMIT_S: Final = 30.0
"""After this time a group fails and its connection is closed: a database that hangs must not hang the hub."""

Work = Callable[[Database], object]
Done = Callable[[object, StoreError | None], None]


class WriteUnit:
    """One unit of work. `work` may run again after a failure; `done` is called once."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Work, done: Done) -> None:
        self.work = work
        self.done = done
        self.result: object = None
        self.error: StoreError | None = None


class Writer:
    """Owns the writing connection. Used on the loop's thread, which also calls `done`."""

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._database: Database | None = None
        self._loop = asyncio.get_running_loop()
        self._units: queue.SimpleQueue[WriteUnit | None] = queue.SimpleQueue()
        self._waiting = 0
        self._busy_since: float | None = None
        self._closed = False
        self._watchdog = self._loop.call_later(1.0, self._interrupt_slow_commit)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        """Queue work. Raises StoreBusy when the queue is full and StoreUnavailable after `close`."""
        if self._closed:
            raise StoreUnavailable("the store is closed", "open it again")
        if self._waiting >= MAX_WAITING:
            raise StoreBusy(f"{MAX_WAITING} changes are waiting to be written")
        self._waiting += 1
        self._units.put(WriteUnit(work, done))

    async def close(self) -> None:
        """Write the queued work, then stop."""
        if not self._closed:
            self._closed = True
            self._watchdog.cancel()
            self._units.put(None)
        await asyncio.to_thread(self._thread.join)

    def _interrupt_slow_commit(self) -> None:
        since, database = self._busy_since, self._database
        if since is not None and database is not None and time.monotonic() - since > MAX_COMMIT_S:
            database.interrupt()
        self._watchdog = self._loop.call_later(1.0, self._interrupt_slow_commit)

    def _run(self) -> None:
        closing = False
        while not closing:
            group: list[WriteUnit] = []
            unit = self._units.get()
            while unit is not None:
                group.append(unit)
                if len(group) == MAX_GROUP:
                    break
                try:
                    unit = self._units.get_nowait()
                except queue.Empty:
                    break
            closing = unit is None
            if group:
                self._busy_since = time.monotonic()
                self._write(group)
                self._busy_since = None
                with suppress(RuntimeError):  # The loop may be closed already.
                    self._loop.call_soon_threadsafe(self._finish, group)
        if self._database is not None:
            self._database.close()

    def _write(self, group: Sequence[WriteUnit]) -> None:
        try:
            database = self._begin()
            for unit in group:
                try:
                    unit.result, unit.error = unit.work(database), None
                except Unchanged as refusal:
                    unit.error = refusal.error
            database.commit()
        except StoreError as error:
            self._undo(error)
            if len(group) > 1 and type(error) in (Conflict, StoreError):
                # One unit cannot be written at all. The others must not fail with it.
                for unit in group:
                    self._write([unit])
            else:
                _fail(group, error)
        except Exception as bug:
            self._undo(StoreError(""))
            text = f"{type(bug).__name__}: {bug}"
            _fail(group, StoreError("the hub failed while writing", "report this as a bug", operator_text=text))

    def _begin(self) -> Database:
        """Begin a transaction, on a new connection if the kept one died while nobody used it."""
        if self._database is not None:
            try:
                self._database.begin()
                return self._database
            except StoreUnavailable as error:
                self._undo(error)
        self._database = self._connect()
        self._database.begin()
        return self._database

    def _undo(self, error: StoreError) -> None:
        if self._database is None:
            return
        self._database.rollback()
        if isinstance(error, StoreUnavailable):
            self._database.close()
            self._database = None

    def _finish(self, group: list[WriteUnit]) -> None:
        self._waiting -= len(group)
        for unit in group:
            unit.done(unit.result, unit.error)


class Unchanged(Exception):
    """Raised by a unit that fails by itself, before it has changed anything."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self.error = error


def _fail(group: Sequence[WriteUnit], error: StoreError) -> None:
    for unit in group:
        unit.result, unit.error = None, error
