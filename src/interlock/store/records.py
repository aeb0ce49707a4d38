"""The rows of the audit record: appended, read in order, searched, cut off at the front; never changed.

Their meaning is the hub's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .database import Database, Row, Value

_COLUMNS: Final = ("chain", "seq", "at", "event", "actor", "server", "name", "trace", "result", "body", "hash")
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM records"
_LONGEST: Final = 200
PAGE: Final = 2000
_ROW_BYTES: Final = 300
"""About what a row takes beside its body."""


class RecordRow(msgspec.Struct, frozen=True):
    """One row. All but `body` and `hash` are copies for searching, cut to what an index can hold."""

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
    """What records to look for; what is left empty does not matter."""

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
    """A text as it stands in a column for searching."""
    return value if len(value) <= _LONGEST and "\0" not in value else value[:_LONGEST].replace("\0", "�")


def values_of(row: RecordRow) -> Row:
    """A row as the database takes it."""
    return (
        row.chain, row.seq, row.at, column(row.event), column(row.actor), column(row.server), column(row.name),
        column(row.trace), row.result, row.body, row.hash,
    )  # fmt: skip


def append(database: Database, rows: Sequence[RecordRow]) -> None:
    """Add rows. One whose number is taken is a Conflict: somebody else writes the same chain."""
    append_values(database, [values_of(row) for row in rows])


def append_values(database: Database, rows: Sequence[Row]) -> None:
    """The same for rows that are what `values_of` makes of them already."""
    database.insert("records", _COLUMNS, rows)


def last(database: Database, chain: str) -> RecordRow | None:
    """The newest row of a chain."""
    rows = database.execute(f"{_SELECT} WHERE chain = ? ORDER BY seq DESC LIMIT 1", (chain,))
    return _row(rows[0]) if rows else None


def first(database: Database, chain: str) -> RecordRow | None:
    """The oldest row of a chain that is there."""
    found = page(database, chain, 0, 1)
    return found[0] if found else None


def at_or_before(database: Database, chain: str, seq: int) -> RecordRow | None:
    """The row with a number, or the one before it where there is a gap."""
    rows = database.execute(f"{_SELECT} WHERE chain = ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (chain, seq))
    return _row(rows[0]) if rows else None


def beyond(database: Database, chain: str, most_bytes: int) -> int:
    """The newest row of a chain before those that take so many bytes together; 0 when all take less."""
    total, before = 0, None
    while True:
        newer = "" if before is None else " AND seq < ?"
        sql = f"SELECT seq, length(body) FROM records WHERE chain = ?{newer} ORDER BY seq DESC LIMIT {PAGE}"
        rows = database.execute(sql, (chain,) if before is None else (chain, before))
        for seq, size in rows:
            assert isinstance(seq, int)
            assert isinstance(size, int)
            total += size + _ROW_BYTES
            if total > most_bytes:
                return seq
            before = seq
        if len(rows) < PAGE:
            return 0


def drop_page(database: Database, chain: str, through: int) -> int:
    """Delete the oldest rows of a chain, up to a number and not too many at once. Says how many those were."""
    oldest = first(database, chain)
    if oldest is None or oldest.seq > through:
        return 0
    last = min(through, oldest.seq + PAGE - 1)
    database.execute("DELETE FROM records WHERE chain = ? AND seq <= ?", (chain, last))
    return last - oldest.seq + 1


def get(database: Database, chain: str, seq: int) -> RecordRow | None:
    """One row."""
    rows = database.execute(f"{_SELECT} WHERE chain = ? AND seq = ?", (chain, seq))
    return _row(rows[0]) if rows else None


def chains(database: Database) -> list[str]:
    """The chains there are."""
    # One step of the index for each chain, where DISTINCT would read every row.
    found: list[str] = []
    while True:
        after = found[-1] if found else ""
        rows = database.execute("SELECT chain FROM records WHERE chain > ? ORDER BY chain LIMIT 1", (after,))
        if not rows:
            return found
        found.append(str(rows[0][0]))


def in_order(database: Database, chain: str, after: int = 0) -> Iterator[RecordRow]:
    """Every row of a chain after a number, read page by page."""
    while True:
        sql = f"{_SELECT} WHERE chain = ? AND seq > ? ORDER BY seq LIMIT {PAGE}"
        rows = database.execute(sql, (chain, after))
        for row in rows:
            yield _row(row)
        if len(rows) < PAGE:
            return
        after = _row(rows[-1]).seq


def page(database: Database, chain: str, after: int, most: int) -> list[RecordRow]:
    """The next rows of a chain after a number, at most so many."""
    rows = database.execute(f"{_SELECT} WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?", (chain, after, most))
    return [_row(row) for row in rows]


def newest_first(database: Database, search: Search, most: int, before: RecordRow | None = None) -> list[RecordRow]:
    """The newest rows that fit, at most so many; `before` continues where an earlier answer ended."""
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
    return [_row(row) for row in database.execute(sql, (*values, most))]


def _row(values: Row) -> RecordRow:
    return RecordRow(*values)  # type: ignore[arg-type]
