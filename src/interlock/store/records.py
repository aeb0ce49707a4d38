"""The SQL of audit log rows: append, read in order, search, and delete the oldest. A row is never changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain as chained
from typing import Final

import msgspec

from .database import Database, Row, Value

_COLUMNS: Final = ("chain", "seq", "at", "event", "actor", "server", "name", "trace", "result", "body", "hash")
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM records"
_MAX_COLUMN_CHARS: Final = 200
PAGE: Final = 2000
_ROW_BYTES: Final = 300
"""The approximate size of a row without its body."""


class RecordRow(msgspec.Struct, frozen=True):
    """One row. All columns but `body` and `hash` are copies for searching, cut to the length that an index can hold."""

    chain: str
    seq: int
    at: int
    """Microseconds since 1970."""
    event: str
    actor: str
    server: str
    name: str
    trace: str
    result: str
    body: str
    hash: bytes


class Search(msgspec.Struct, frozen=True):
    """The rows to find. An empty field matches every row."""

    event: str = ""
    actor: str = ""
    server: str = ""
    name: str = ""
    trace: str = ""
    result: str = ""
    chain: str = ""
    since: int | None = None
    until: int | None = None


def column(value: str) -> str:
    """The form of a text in a search column."""
    return value[:_MAX_COLUMN_CHARS].replace("\0", "�")


def values_of(row: RecordRow) -> Row:
    """A row as column values."""
    return (
        row.chain, row.seq, row.at, column(row.event), column(row.actor), column(row.server), column(row.name),
        column(row.trace), row.result, row.body, row.hash,
    )  # fmt: skip


def append(database: Database, rows: Sequence[RecordRow]) -> None:
    """Append rows. Raises Conflict if a sequence number is taken: another process writes the same chain."""
    append_values(database, [values_of(row) for row in rows])


def append_values(database: Database, rows: Sequence[Row]) -> None:
    """Append rows given as the column values of `values_of`."""
    database.insert("records", _COLUMNS, rows)


def last(database: Database, chain: str) -> RecordRow | None:
    return at_or_before(database, chain, sys.maxsize)


def first(database: Database, chain: str) -> RecordRow | None:
    return next(iter(page(database, chain, 0, 1)), None)


def at_or_before(database: Database, chain: str, seq: int) -> RecordRow | None:
    """The row with a sequence number, or the last one before it where there is a gap."""
    rows = database.execute(f"{_SELECT} WHERE chain = ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (chain, seq))
    return _row(rows[0]) if rows else None


def last_beyond(database: Database, chain: str, max_bytes: int) -> int:
    """The newest row that no longer fits if the newest rows may take `max_bytes`; 0 when all fit."""
    total, before = 0, sys.maxsize
    sql = f"SELECT seq, length(body) FROM records WHERE chain = ? AND seq < ? ORDER BY seq DESC LIMIT {PAGE}"
    while True:
        rows = database.execute(sql, (chain, before))
        for before, size in rows:  # type: ignore[assignment]
            total += size + _ROW_BYTES  # type: ignore[operator]
            if total > max_bytes:
                return before
        if len(rows) < PAGE:
            return 0


def drop_page(database: Database, chain: str, through: int) -> int:
    """Delete the oldest rows of a chain up to a sequence number, at most one page. Returns how many."""
    oldest = first(database, chain)
    if oldest is None or oldest.seq > through:
        return 0
    last = min(through, oldest.seq + PAGE - 1)
    database.execute("DELETE FROM records WHERE chain = ? AND seq <= ?", (chain, last))
    return last - oldest.seq + 1


def get(database: Database, chain: str, seq: int) -> RecordRow | None:
    row = at_or_before(database, chain, seq)
    return row if row is not None and row.seq == seq else None


def chains(database: Database) -> list[str]:
    """The names of all chains."""
    # One index lookup for each chain; DISTINCT would read every row.
    found: list[str] = []
    while True:
        after = found[-1] if found else ""
        rows = database.execute("SELECT chain FROM records WHERE chain > ? ORDER BY chain LIMIT 1", (after,))
        if not rows:
            return found
        found.append(str(rows[0][0]))


def in_order(database: Database, chain: str, after: int = 0) -> Iterator[RecordRow]:
    """Every row of a chain after a sequence number, read page by page."""
    return chained.from_iterable(pages(database, chain, after))


def pages(database: Database, chain: str, after: int) -> Iterator[list[RecordRow]]:
    while rows := page(database, chain, after, PAGE):
        yield rows
        after = rows[-1].seq


def page(database: Database, chain: str, after: int, limit: int) -> list[RecordRow]:
    """The next rows of a chain after a sequence number."""
    rows = database.execute(f"{_SELECT} WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?", (chain, after, limit))
    return [_row(row) for row in rows]


def newest_first(database: Database, search: Search, limit: int, before: RecordRow | None = None) -> list[RecordRow]:
    """The newest matching rows; `before` is the last row of the previous page."""
    sql, values = f"{_SELECT} WHERE 1 = 1", list[Value]()
    for name in ("event", "actor", "server", "name", "trace", "result", "chain"):
        if wanted := getattr(search, name):
            sql += f" AND {name} = ?"
            values.append(column(wanted))
    if search.since is not None:
        sql += " AND at >= ?"
        values.append(search.since)
    if search.until is not None:
        sql += " AND at < ?"
        values.append(search.until)
    if before is not None:
        sql += " AND at <= ? AND (at, chain, seq) < (?, ?, ?)"
        values += [before.at, before.at, before.chain, before.seq]
    sql += " ORDER BY at DESC, chain DESC, seq DESC LIMIT ?"
    return [_row(row) for row in database.execute(sql, (*values, limit))]


def _row(values: Row) -> RecordRow:
    return RecordRow(*values)  # type: ignore[arg-type]
