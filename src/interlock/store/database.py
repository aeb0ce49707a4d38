"""The interface of a database connection, the same for SQLite and PostgreSQL.

One thread uses a connection at a time. Statements use `?` for values and only SQL that both databases share. Every
failure is a `StoreError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

Value: TypeAlias = str | int | bytes | None
Row: TypeAlias = tuple[Value, ...]
T = TypeVar("T")

_ONLY: Final = "-- only: "
_CHUNKS: Final = (256, 64, 16, 4, 1)


class Database(Protocol):
    shared: bool
    """Whether other nodes may write to the same database."""

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run one statement and return all rows. Text that is no UTF-8 is returned as bytes."""

    def run_script(self, sql: str) -> None:
        """Run several statements inside the open transaction, without those for another kind of database."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows in as few statements as the database allows. Raises `Conflict` if a row exists already."""

    def begin(self, *, read_only: bool = False, exclusive: bool = False) -> None:
        """Begin a transaction. `read_only` sees a snapshot; `exclusive` waits while another node changes the schema."""

    def commit(self) -> None:
        """Make everything since `begin` durable."""

    def rollback(self) -> None:
        """Discard everything since `begin`. Never fails."""

    def lock(self, name: str) -> None:
        """Take a named lock until the transaction ends. Other transactions that want the same name wait."""

    def hold(self, name: str, about: str) -> str | None:
        """Take a named lock for the life of this connection. None if it is taken; else the holder's `about`."""

    def announce(self) -> None:
        """Notify other nodes of the change when this transaction commits."""

    def other_connections(self) -> int:
        """How many other hub connections to this database are known."""

    def tables(self) -> set[str]:
        """The names of all tables."""

    def listen(self) -> None:
        """Subscribe to the commits of other nodes; `wait` returns when one arrives."""

    def wait(self, seconds: float) -> None:
        """Return when another node commits a change, as far as the database announces it, or after that time."""

    def interrupt(self) -> None:
        """Make the running statement fail. Called from another thread."""

    def close(self) -> None:
        """End the connection. Never fails."""


@contextmanager
def transaction(database: Database, *, read_only: bool = False, exclusive: bool = False) -> Iterator[None]:
    """Commits at the end of the block; an exception inside rolls everything back."""
    database.begin(read_only=read_only, exclusive=exclusive)
    try:
        yield
        database.commit()
    except BaseException:
        database.rollback()
        raise


def script_for(dialect: Literal["sqlite", "postgres"], sql: str) -> str:
    """A script without the sections of the other database: a section begins with a line `-- only: NAME`."""
    kept, ours = [], True
    for line in sql.splitlines(keepends=True):
        if line.startswith(_ONLY):
            ours = line.removeprefix(_ONLY).strip() == dialect
        if ours:
            kept.append(line)
    return "".join(kept)


def decoded(text: bytes) -> str | bytes:
    """Stored text; its bytes if it is no UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def in_chunks(items: Sequence[T], limit: int = 256) -> Iterator[Sequence[T]]:
    """Splits items into chunks of a few fixed sizes, so that the database compiles only a few different statements."""
    at = 0
    for size in _CHUNKS:
        while limit >= size <= len(items) - at:
            yield items[at : at + size]
            at += size
