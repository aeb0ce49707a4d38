"""Reader threads, each with its own connection. A query sees a snapshot of the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from .connect import connect
from .database import Database, transaction
from .errors import StoreBusy, StoreUnavailable

R = TypeVar("R")

COUNT: Final = 2
MAX_WAITING: Final = 1000


class Readers:
    """Used from the loop's thread; queries run on the reader threads."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._own = threading.local()
        self._open: list[Database] = []
        self._waiting = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(COUNT, thread_name_prefix="store-reader")

    def submit(self, query: Callable[[Database], R]) -> Future[R]:
        with self._lock:
            if self._waiting >= MAX_WAITING:
                raise StoreBusy(f"{MAX_WAITING} queries are waiting already")
            self._waiting += 1
        try:
            return self._threads.submit(self._run, query)
        except RuntimeError:
            raise StoreUnavailable("the database is closed", "the hub is stopping") from None

    def close(self) -> None:
        """Finish the waiting queries, then close the connections."""
        self._threads.shutdown()
        for database in self._open:
            database.close()

    def _run(self, query: Callable[[Database], R]) -> R:
        with self._lock:
            self._waiting -= 1
        kept: Database | None = getattr(self._own, "database", None)
        if kept is not None:
            try:
                return self._ask(kept, query)
            except StoreUnavailable:
                # The connection may have died while nobody used it. A query changes nothing, so it can be repeated.
                pass
        database = self._own.database = connect(self._where, read_only=True)
        self._open.append(database)
        return self._ask(database, query)

    def _ask(self, database: Database, query: Callable[[Database], R]) -> R:
        try:
            with transaction(database, read_only=True):
                return query(database)
        except StoreUnavailable:
            self._open.remove(database)
            self._own.database = None
            database.close()
            raise
