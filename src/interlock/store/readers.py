"""A few threads that read, each with a connection of its own. A query sees one moment of the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from .database import Database, connect, transaction
from .errors import StoreBusy, StoreUnavailable

R = TypeVar("R")

COUNT: Final = 2
MOST_WAITING: Final = 1000


class Readers:
    """Reading threads. Used from the loop's thread; queries run on theirs."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._own = threading.local()
        self._open: list[Database] = []
        self._waiting = 0
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(COUNT, thread_name_prefix="store-reader")

    def submit(self, query: Callable[[Database], R]) -> Future[R]:
        """Have a query run."""
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise StoreBusy(f"{MOST_WAITING} queries wait already")
            self._waiting += 1
        return self._threads.submit(self._run, query)

    def close(self) -> None:
        """Finish what was asked, then end the connections."""
        self._threads.shutdown()
        for database in self._open:
            database.close()

    def _run(self, query: Callable[[Database], R]) -> R:
        with self._lock:
            self._waiting -= 1
        database: Database | None = getattr(self._own, "database", None)
        if database is None:
            database = self._own.database = connect(self._where, read_only=True)
            self._open.append(database)
        try:
            with transaction(database, read_only=True):
                return query(database)
        except StoreUnavailable:
            # A connection that broke is not used again.
            self._open.remove(database)
            self._own.database = None
            database.close()
            raise
