"""One connection to a database, used by one thread at a time: the little of SQL that the house needs, made equal.

Statements are written once, with `?` for values, in the SQL that SQLite and PostgreSQL share. Every failure is a
`StoreError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import StoreUnavailable

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]
T = TypeVar("T")

_CHUNKS: Final = (256, 64, 16, 4, 1)


class Database(Protocol):
    """A connection."""

    shared: bool
    """Whether other nodes may write to the same database."""

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run one statement and give all it returns."""

    def run_script(self, sql: str) -> None:
        """Run several statements, inside the transaction that is open."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows in as few steps as the database allows. A row that is there already is a `Conflict`."""

    def begin(self, *, read_only: bool = False, alone: bool = False) -> None:
        """Begin a transaction. `read_only` sees one moment; `alone` waits until no other node changes the schema."""

    def commit(self) -> None:
        """Make everything since `begin` durable."""

    def rollback(self) -> None:
        """Forget everything since `begin`. Never fails."""

    def hold(self, name: str) -> None:
        """Until the end of this transaction, have every other transaction that wants to hold the same name wait."""

    def announce(self) -> None:
        """With the commit, wake the nodes that follow this database."""

    def others(self) -> int:
        """How many other connections of a hub there are to the same database, as far as can be told."""

    def tables(self) -> set[str]:
        """The names of the tables there are."""

    def interrupt(self) -> None:
        """From another thread: make the statement that runs fail."""

    def close(self) -> None:
        """End the connection. Never fails."""


@contextmanager
def transaction(database: Database, *, read_only: bool = False, alone: bool = False) -> Iterator[None]:
    """Everything inside happens, or nothing does."""
    database.begin(read_only=read_only, alone=alone)
    try:
        yield
        database.commit()
    except BaseException:
        database.rollback()
        raise


def in_chunks(items: Sequence[T], most: int = 256) -> Iterator[Sequence[T]]:
    """Pieces of a few fixed sizes: statements that differ only in their number of values are compiled once for each."""
    at = 0
    for size in _CHUNKS:
        while most >= size <= len(items) - at:
            yield items[at : at + size]
            at += size


def is_shared(where: str) -> bool:
    """Whether a place is one that several hubs can use at the same time."""
    return _parts(where).scheme in ("postgresql", "postgres")


def connect(where: str, *, read_only: bool = False) -> Database:
    """Connect to a path, a `sqlite:` URL or a `postgresql:` URL."""
    if is_shared(where):
        try:
            from .postgres import Postgres
        except ImportError:
            hint = "install it with `pip install 'interlock[postgres]'`"
            raise StoreUnavailable("the driver for PostgreSQL is not installed", hint) from None
        return Postgres(where, read_only=read_only)
    from .sqlite import Sqlite

    return Sqlite(sqlite_path(where), read_only=read_only)


def sqlite_path(where: str) -> Path:
    """The file that a path or a `sqlite:` URL names."""
    parts = _parts(where)
    if parts.scheme != "sqlite":
        if "://" in where:
            raise StoreUnavailable(f"{parts.scheme} is no kind of database that is known here", _WRITTEN)
        return Path(where)
    if parts.netloc:
        raise StoreUnavailable(f"{where!r} names a host", "write sqlite:/// and the path")
    return Path(unquote(parts.path))


def _parts(where: str) -> SplitResult:
    try:
        return urlsplit(where)
    except ValueError:
        # Said without the address: there may be a password in it.
        raise StoreUnavailable("the address of the database cannot be read", _WRITTEN) from None


_WRITTEN: Final = "write a path, sqlite:///path or postgresql://user:password@host/database, percent-encoded"
