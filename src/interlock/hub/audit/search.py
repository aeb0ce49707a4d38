"""Reads the audit log: the newest records, a search, one record with its trace, or all as JSON lines.

These functions use a reading connection, in the hub's process or without a hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from interlock.hub.audit.anchors import anchor_of
from interlock.hub.audit.chain import UnreadableRecord, record_of
from interlock.hub.audit.record import Record
from interlock.hub.audit.verify import ExportLine
from interlock.protocols.traces import trace_id_from
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import RecordRow, Search

MAX_RESULTS: Final = 10_000
MAX_SCANNED: Final = 50_000
"""Records that one part of a search examines, which takes about 15 ms. A search without matches stops there."""


class FoundEntry(msgspec.Struct, frozen=True):
    """A record with its chain, sequence number and hash."""

    chain: str
    seq: int
    hash: str
    record: Record
    result: str
    problem: str = ""
    """Why the stored record cannot be read; then only its columns are shown."""


class RecordId(msgspec.Struct, frozen=True):
    """The chain and sequence number of a record."""

    chain: str
    seq: int


class SearchPart(msgspec.Struct, frozen=True):
    """Records that match, newest first."""

    entries: list[FoundEntry]
    searched_to: RecordId | None = None
    """Where the search stopped because it looked at `MAX_SCANNED` records: the next part begins before it."""


def tail(database: Database, limit: int) -> list[FoundEntry]:
    """The newest records, oldest of them first."""
    return [_entry(row) for row in reversed(rows.newest_first(database, Search(), min(limit, MAX_RESULTS)))]


def search(
    database: Database,
    wanted: Search,
    limit: int,
    before: tuple[str, int] | None = None,
    down_to: RecordRow | None = None,
) -> list[FoundEntry]:
    """The newest records that match, newest first; `before` names the last of an earlier page."""
    if wanted.trace:
        wanted = msgspec.structs.replace(wanted, trace=trace_id_from(wanted.trace))
    last = None if before is None else rows.get(database, *before)
    return [_entry(row) for row in rows.newest_first(database, wanted, min(limit, MAX_RESULTS), last, down_to)]


def search_part(
    database: Database, wanted: Search, limit: int, before: tuple[str, int] | None = None
) -> SearchPart | None:
    """The same, among the next `MAX_SCANNED` records. None if there is no record `before`: it may be pruned."""
    last = None if before is None else rows.get(database, *before)
    if before is not None and last is None:
        return None
    if wanted == Search():
        return SearchPart(search(database, wanted, limit, before))  # Every record matches.
    down_to = rows.last_of_next(database, MAX_SCANNED, last)
    found = search(database, wanted, limit, before, down_to)
    if down_to is None or len(found) >= min(limit, MAX_RESULTS):
        return SearchPart(found)
    return SearchPart(found, RecordId(down_to.chain, down_to.seq))


def show(database: Database, chain: str, seq: int) -> tuple[FoundEntry, list[FoundEntry], bool] | None:
    """One record, the records of its trace in order, and whether the search for those ended at its bound.

    Records of one trace lie close together, so it looks at the `MAX_SCANNED` records on either side. None if there is
    no such record.
    """
    row = rows.get(database, chain, seq)
    if row is None:
        return None
    entry = _entry(row)
    if not entry.record.trace:
        return entry, [entry], False
    related, complete = rows.around(database, Search(trace=entry.record.trace), row, MAX_SCANNED)
    return entry, [_entry(one) for one in reversed(related[-MAX_RESULTS:])], not complete


def export(database: Database) -> Iterator[bytes]:
    """Every record as a JSON line, chain by chain in order. `verify_export` checks such an export."""
    for chain in rows.chains(database):
        for row in rows.in_order(database, chain, anchor_of(database, chain)):
            yield msgspec.json.encode(_line(row)) + b"\n"


def _entry(row: RecordRow) -> FoundEntry:
    try:
        record = record_of(row.body)
    except UnreadableRecord as cause:
        record = Record(row.seq, row.at, row.event, row.actor, server=row.server, name=row.name, trace=row.trace)
        return FoundEntry(row.chain, row.seq, row.hash.hex(), record, row.result, f"was altered: {row.damage or cause}")
    problem = f"was altered: {row.damage}" if row.damage else ""
    return FoundEntry(row.chain, row.seq, row.hash.hex(), record, record.result, problem)


def _line(row: RecordRow) -> ExportLine:
    line = ExportLine(row.chain, row.seq, row.hash.hex(), msgspec.Raw(row.body.encode(errors="backslashreplace")))
    try:
        record_of(row.body)
    except UnreadableRecord as cause:
        return ExportLine(row.chain, row.seq, line.hash, msgspec.Raw(b"null"), row.damage or str(cause), row.body)
    if row.damage or "\n" in row.body:
        return ExportLine(
            row.chain, row.seq, line.hash, msgspec.Raw(b"null"), row.damage or "it has several lines", row.body
        )
    return line
