"""Changes of what the hub keeps, committed together with their records: neither is ever there without the other.

A deed has its places in the chain before it is tried. One that came to nothing leaves there that it was not done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from interlock.hub.audit.chain import record_of
from interlock.hub.audit.entries import Entry, Ticket
from interlock.hub.audit.record import NOT_DONE, Record
from interlock.store import StoreDamaged, StoreError, documents
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.documents import Change, Changes
from interlock.store.writer import Unchanged

GIVEN_UP: Final = "the record could not be written at first"


class RecordedChange:
    """One change on its way. `attempt` runs on the writer's thread, everything else on the loop's."""

    __slots__ = ("changes", "done", "error", "first", "given_up")

    def __init__(self, changes: Changes, first: int) -> None:
        self.changes = changes
        self.first = first
        """The place of its first record."""
        self.given_up = False
        """Whoever wanted it was told that it failed: it is not begun any more."""
        self.done: list[Change] = []
        self.error: StoreError | None = None

    def attempt(self, database: Database, chain: str, *, doubtful: bool) -> None:
        """Do it, unless that would be wrong by now. May be run again, where the commit did not come to be."""
        self.done, self.error = [], None
        there = rows.get(database, chain, self.first) if doubtful else None
        if there is not None:
            # It was committed, and the connection broke before that was heard.
            written = record_of(there.body)
            if written.event == NOT_DONE:
                self.error = StoreError(written.reason)
            else:
                self.done = documents.current(database, self.changes)
        elif self.given_up:
            self.error = StoreError(GIVEN_UP)
        else:
            try:
                self.done = documents.apply(database, self.changes)
            except Unchanged as refusal:
                self.error = refusal.error
            except StoreDamaged as error:
                self.error = error


def attempt(
    database: Database, chain: str, batch: Iterable[Entry], deeds: Mapping[int, RecordedChange], *, doubtful: bool
) -> list[Entry]:
    """Do what a batch of entries speaks of. Gives the entries as they are then true."""
    entries: list[Entry] = []
    tried: set[int] = set()
    for entry in batch:
        change = deeds.get(entry.seq)
        if change is None or isinstance(entry, Ticket):
            entries.append(entry)
            continue
        if change.first not in tried:
            tried.add(change.first)
            change.attempt(database, chain, doubtful=doubtful)
        entries.append(entry if change.error is None else _not_done(entry, change.error))
    return entries


def _not_done(record: Record, error: StoreError) -> Record:
    told = {**record.details, "event": record.event}
    return msgspec.structs.replace(record, event=NOT_DONE, reason=error.message, details=told)
