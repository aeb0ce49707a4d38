"""The SQL of audit log rows: append, read in order, search, and delete the oldest. A row is never changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain as chained
from typing import Any, Final, cast

import msgspec

from .database import Database, Row, Value

_COLUMNS: Final = ("chain", "seq", "at", "event", "actor", "server", "name", "trace", "result", "body", "hash")
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM records"
_MAX_COLUMN_CHARS: Final = 200
_NUMBERED: Final = "seq = CAST(seq AS BIGINT)"
"""Leaves out rows whose sequence number is not a whole number, which SQLite would store."""
_NEWEST_FIRST: Final = "ORDER BY at DESC, chain DESC, seq DESC"
_BEFORE: Final = " AND at <= ? AND (at, chain, seq) < (?, ?, ?)"
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
    damage: str = ""
    """Which columns hold a value of another type or encoding than the hub writes."""


class Search(msgspec.Struct, frozen=True):
    """The rows to find. An empty field matches every row."""

    event: str = ""
    actor: str = ""
    server: str = ""
    name: str = ""
    trace: str = ""
    result: str = ""
    except_result: str = ""
    """Rows with this result are left out."""
    chain: str = ""
    since: int | None = None
    until: int | None = None


def column(value: str) -> str:
    """The form of a text in a search column."""
    if len(value) <= _MAX_COLUMN_CHARS and "\0" not in value:
        return value
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
    sql = f"{_SELECT} WHERE chain = ? AND seq <= ? AND {_NUMBERED} ORDER BY seq DESC LIMIT 1"
    rows = database.execute(sql, (chain, min(seq, sys.maxsize)))
    return _row(rows[0]) if rows else None


def last_beyond(database: Database, chain: str, max_bytes: int) -> int:
    """The newest row that no longer fits if the newest rows may take `max_bytes`; 0 when all fit."""
    total, before = 0, sys.maxsize
    sql = (
        "SELECT seq, length(body) FROM records"
        f" WHERE chain = ? AND seq < ? AND {_NUMBERED} ORDER BY seq DESC LIMIT {PAGE}"
    )
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
    """The row with a sequence number."""
    row = at_or_before(database, chain, seq)
    return row if row is not None and row.seq == seq else None


def chains(database: Database) -> list[str]:
    """The names of all chains."""
    return [name for name in _chains(database) if isinstance(name, str)]


def misnamed(database: Database) -> dict[str, int]:
    """How many rows belong to chains whose names are not text, by the name as Python shows it."""
    strays = [name for name in _chains(database) if not isinstance(name, str)]
    if not strays:
        return {}
    rows = database.execute("SELECT chain, count(*) FROM records GROUP BY chain")
    return {repr(name): int(count or 0) for name, count in rows if not isinstance(name, str)}


def _chains(database: Database) -> list[Value]:
    # One index lookup for each chain; DISTINCT would read every row.
    found: list[Value] = []
    while True:
        after = found[-1] if found else ""
        rows = database.execute("SELECT chain FROM records WHERE chain > ? ORDER BY chain LIMIT 1", (after,))
        if not rows:
            return found
        if not isinstance(rows[0][0], str):
            # Nobody but an intruder writes such a name. It cannot be compared with others in every database.
            return [name for (name,) in database.execute("SELECT DISTINCT chain FROM records")]
        found.append(rows[0][0])


def in_order(database: Database, chain: str, after: int = 0) -> Iterator[RecordRow]:
    """Every row of a chain after a sequence number, read page by page, also rows whose number is none."""
    return chained.from_iterable(pages(database, chain, after))


def pages(database: Database, chain: str, after: int) -> Iterator[list[RecordRow]]:
    """The same, a page at a time."""
    sql, last = f"{_SELECT} WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?", cast(Value, after)
    while rows := database.execute(sql, (chain, last, PAGE)):
        yield [_row(row) for row in rows]
        last = rows[-1][1]


def page(database: Database, chain: str, after: int, limit: int) -> list[RecordRow]:
    """The next rows of a chain after a sequence number."""
    sql = f"{_SELECT} WHERE chain = ? AND seq > ? AND {_NUMBERED} ORDER BY seq LIMIT ?"
    return [_row(row) for row in database.execute(sql, (chain, after, limit))]


def newest_first(
    database: Database,
    search: Search,
    limit: int,
    before: RecordRow | None = None,
    down_to: RecordRow | None = None,
) -> list[RecordRow]:
    """The newest matching rows; `before` is the last row of the previous page, `down_to` the last to look at."""
    sql, values = f"{_SELECT} WHERE 1 = 1", list[Value]()
    for name in ("event", "actor", "server", "name", "trace", "result", "chain"):
        if wanted := getattr(search, name):
            # The index on `chain` has no order by time: with it the database would sort the whole chain.
            sql += f" AND {name} = ?" if name != "chain" else " AND chain || '' = ?"
            values.append(column(wanted))
    if search.except_result:
        sql += " AND result <> ?"
        values.append(search.except_result)
    if search.since is not None:
        sql += " AND at >= ?"
        values.append(search.since)
    if search.until is not None:
        sql += " AND at < ?"
        values.append(search.until)
    if before is not None:
        sql += _BEFORE
        values += [before.at, before.at, before.chain, before.seq]
    if down_to is not None:
        sql += " AND at >= ? AND (at, chain, seq) >= (?, ?, ?)"
        values += [down_to.at, down_to.at, down_to.chain, down_to.seq]
    return [_row(row) for row in database.execute(f"{sql} {_NEWEST_FIRST} LIMIT ?", (*values, limit))]


def around(database: Database, search: Search, row: RecordRow, count: int) -> tuple[list[RecordRow], bool]:
    """The rows that match among the `count` rows on either side of a row, newest first; and whether these are all."""
    newer = database.execute(
        "SELECT at, chain, seq FROM records WHERE at >= ? AND (at, chain, seq) > (?, ?, ?)"
        " ORDER BY at, chain, seq LIMIT 1 OFFSET ?",
        (row.at, row.at, row.chain, row.seq, count),
    )
    before = get(database, _as_text(newer[0][1]), _as_number(newer[0][2])) if newer else None
    down_to = last_of_next(database, count, row)
    return newest_first(database, search, 2 * count, before, down_to), before is None and down_to is None


def last_of_next(database: Database, count: int, before: RecordRow | None = None) -> RecordRow | None:
    """The last of the next `count` rows, newest first; None if no row follows them. Reads only the index."""
    sql, values = "SELECT at, chain, seq FROM records WHERE 1 = 1", list[Value]()
    if before is not None:
        sql += _BEFORE
        values += [before.at, before.at, before.chain, before.seq]
    found = database.execute(f"{sql} {_NEWEST_FIRST} LIMIT 2 OFFSET ?", (*values, count - 1))
    return None if len(found) < 2 else get(database, _as_text(found[0][1]), _as_number(found[0][2]))


def _row(values: Row) -> RecordRow:
    if tuple(map(type, values)) == _TYPES:
        return RecordRow(*values)  # type: ignore[arg-type]
    wrong = [name for name, value, kind in zip(_COLUMNS, values, _TYPES, strict=True) if type(value) is not kind]
    readable: Any = [_AS[kind](value) for value, kind in zip(values, _TYPES, strict=True)]
    return msgspec.structs.replace(
        RecordRow(*readable), damage=f"{', '.join(wrong)}: not of the type or encoding that was written"
    )


def _as_text(value: Value) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _as_bytes(value: Value) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _as_number(value: Value) -> int:
    return value if isinstance(value, int) else 0


_TYPES: Final = (str, int, int, str, str, str, str, str, str, str, bytes)
"""The types of the columns. SQLite stores any type in any column."""
_AS: Final[dict[type, Callable[[Value], Any]]] = {str: _as_text, int: _as_number, bytes: _as_bytes}
