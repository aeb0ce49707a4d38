"""SQLite in WAL mode, every commit synced to the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from interlock.config.files import try_lock

from .database import Row, Value, decoded, in_chunks, script_for
from .errors import (
    Conflict,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    no_descriptor_left,
)

BUSY_S: Final = 5.0
"""How long to wait for another process that writes."""
POLL_S: Final = 0.5
"""How often a process looks for commits of others to the same file."""
_UNDECODABLE: Final = "Could not decode to UTF-8"
SYNCHRONOUS = "FULL"
"""A commit is on the disk when it returns."""
MAX_ABOUT: Final = 200
"""Bytes of a lock file that say who holds it."""
_WAL_BYTES: Final = 64 * 1024 * 1024
_WRITER_CACHE_KIB: Final = 256
_READER_CACHE_KIB: Final = 128
"""Pages that a connection keeps. SQLite's own 2 MiB hold pages that the system caches too; rows are written in their
order, so a writer returns to few pages."""


class FileId(NamedTuple):
    """The identity of a file, whatever its path is by now."""

    device: int
    inode: int


def file_id(path: Path) -> FileId | None:
    """The identity of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileId(found.st_dev, found.st_ino)


class Sqlite:
    """A connection to a database file. Its file and folder are the owner's alone.

    `file` is the only file that may be written: SQLite itself writes on to a file that was deleted or replaced, and all
    that is committed to it would be lost with the process.
    """

    shared = False

    def __init__(self, path: Path, *, read_only: bool = False, file: FileId | None = None) -> None:
        self.path = path
        self._file = file
        self._woken = threading.Event()
        self._held: list[int] = []
        """The locked files beside the database."""
        self._demand_file()
        with _store_errors(path):
            if read_only:
                self._connection = _open(f"{path.absolute().as_uri()}?mode=ro")
            else:
                _make_private(path)
                self._connection = _open(path.absolute().as_uri())
            self._configure(read_only)

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with _store_errors(self.path):
            try:
                return self._connection.execute(sql, values).fetchall()
            except sqlite3.OperationalError as cause:
                if not str(cause).startswith(_UNDECODABLE) or not sql.startswith("SELECT"):
                    raise
            # Decoding by a function costs a call for each text, so only this statement pays for it.
            self._connection.text_factory = decoded
            try:
                return self._connection.execute(sql, values).fetchall()
            finally:
                self._connection.text_factory = str

    def run_script(self, sql: str) -> None:
        # executescript would commit first.
        for statement in statements(script_for("sqlite", sql)):
            self.execute(statement)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        # Each statement releases the interpreter lock and takes it again, so many rows share one statement.
        for chunk in in_chunks(rows):
            self.execute(_insert(table, tuple(columns), len(chunk)), list(chain.from_iterable(chunk)))

    def begin(self, *, read_only: bool = False, exclusive: bool = False) -> None:
        if not read_only:
            self._demand_file()
        self.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        with suppress(StoreError):
            if self._connection.in_transaction:
                self.execute("ROLLBACK")

    def lock(self, name: str) -> None:
        """A write transaction locks the whole file already."""

    def hold(self, name: str, about: str) -> str | None:
        beside = f"{self.path.name}.{hashlib.sha256(name.encode()).hexdigest()[:12]}.lock"
        with _store_errors(self.path):
            handle = os.open(self.path.with_name(beside), os.O_CREAT | os.O_RDWR, 0o600)
        if not try_lock(handle):
            with suppress(OSError):
                about = os.read(handle, MAX_ABOUT).decode(errors="replace")
            os.close(handle)
            return about or "another process"
        self._held.append(handle)
        # The lock alone counts. On a full disk, its file cannot say who holds it.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.write(handle, about.encode())
        return None

    def announce(self) -> None:
        """A file cannot notify anyone: other processes look for changes every `POLL_S`."""

    def listen(self) -> None:
        """A file announces no commits."""

    def wait(self, seconds: float) -> None:
        self._woken.wait(min(seconds, POLL_S))

    def other_connections(self) -> int:
        # A file does not show who has it open; the hub's lock file does.
        return 0

    def tables(self) -> set[str]:
        found = self.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return {str(name) for (name,) in found}

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of the whole database to a new path while others read and write."""
        with _store_errors(path), sqlite3.connect(path, isolation_level=None) as copy:
            # All pages in one step: with several steps, each commit in between would restart the copy.
            self._connection.backup(copy, pages=-1)
            copy.execute("PRAGMA journal_mode = DELETE")
        copy.close()

    def problems(self) -> list[str]:
        """The faults that SQLite's integrity check finds in the file."""
        return [str(row[0]) for row in self.execute("PRAGMA integrity_check") if row[0] != "ok"]

    def interrupt(self) -> None:
        self._woken.set()
        with suppress(sqlite3.Error):  # The connection may be closed already.
            self._connection.interrupt()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
        for handle in self._held:
            os.close(handle)
        self._held.clear()

    def _demand_file(self) -> None:
        """Raises StoreReadOnly if another file, or none, is at the path of the database by now."""
        if self._file is not None and file_id(self.path) != self._file:
            hint = "stop the hub, put the file back or restore a backup with `interlock restore`, and start the hub"
            raise StoreReadOnly("the database was deleted or replaced", hint, operator_text=str(self.path))

    def _configure(self, read_only: bool) -> None:
        if not read_only:
            mode = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                place = str(self.path)
                raise StoreUnavailable(
                    f"the database cannot use WAL ({mode})", "keep it on a local disk", operator_text=place
                )
            self._connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            self._connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        cache_kib = _READER_CACHE_KIB if read_only else _WRITER_CACHE_KIB
        self._connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        self._connection.execute("PRAGMA cell_size_check = ON")
        self._connection.execute("SELECT count(*) FROM sqlite_master")


def statements(script: str) -> Iterator[str]:
    """Splits a script into its statements."""
    gathered = ""
    for line in script.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered
            gathered = ""
    if gathered.strip():
        raise ValueError(f"a statement is not complete: {gathered.strip()[:80]}")


def _open(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _make_private(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


@lru_cache(maxsize=64)
def _insert(table: str, columns: tuple[str, ...], count: int) -> str:
    one = "(" + ", ".join("?" * len(columns)) + ")"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES " + ", ".join([one] * count)


_KINDS: Final[dict[int, type[StoreError]]] = {
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_CANTOPEN: StoreReadOnly,
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_CORRUPT: StoreDamaged,
    sqlite3.SQLITE_NOTADB: StoreDamaged,
    sqlite3.SQLITE_CONSTRAINT: Conflict,
}


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and of the file system into `StoreError`s."""
    try:
        yield
    except sqlite3.Error as cause:
        kind = _KINDS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF, StoreUnavailable)
        if kind is StoreReadOnly and (exhausted := no_descriptor_left()) is not None:
            raise exhausted from cause
        hint = "check that the disk is healthy and has free space" if kind is StoreUnavailable else ""
        if "no such table" in str(cause):
            hint = "another program changed it; restore a backup with `interlock restore`"
        raise kind(str(cause), hint, operator_text=str(path)) from cause
    except OverflowError as cause:
        raise StoreError(str(cause), "use a smaller number", operator_text=str(path)) from cause
    except OSError as cause:
        if cause.errno == errno.ENOSPC:
            raise StoreFull("the disk of the database is full", operator_text=str(path)) from cause
        if (exhausted := no_descriptor_left()) is not None:
            raise exhausted from cause
        place = f"{path}: {cause.strerror or cause}"
        raise StoreReadOnly("the database cannot be written", operator_text=place) from cause
