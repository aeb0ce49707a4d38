"""Commits changes together with their audit records, so that neither exists without the other.

A change gets its sequence numbers before the attempt. A failed change leaves a record that it was not made.
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

GIVEN_UP: Final = "the audit log could not be written at the first try"


class RecordedChange:
    """One change to commit. `attempt` runs on the writer's thread, everything else on the loop's."""

    __slots__ = ("changes", "done", "error", "first", "given_up")

    def __init__(self, changes: Changes, first: int) -> None:
        self.changes = changes
        self.first = first
        """The sequence number of its first record."""
        self.given_up = False
        """The caller was told that the change failed: it must not be made later."""
        self.done: list[Change] = []
        self.error: StoreError | None = None

    def give_up(self) -> None:
        """Its caller is told that it failed."""
        self.given_up = True

    def outcome(self) -> list[Change]:
        """The committed documents. Raises the error if the change failed."""
        if self.error is not None:
            raise self.error
        return self.done

    def attempt(self, database: Database, chain: str, *, doubtful: bool) -> None:
        """Make the change, unless it was cancelled. It runs again if the commit may have failed."""
        self.done, self.error = [], None
        found = rows.get(database, chain, self.first) if doubtful else None
        if found is not None:
            # An earlier attempt was committed, but the connection broke before the hub learned of it.
            written = record_of(found.body)
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
    database: Database, chain: str, batch: Iterable[Entry], changes: Mapping[int, RecordedChange], *, doubtful: bool
) -> list[Entry]:
    """Make the changes of a batch. Returns its entries, with those of failed changes replaced."""
    entries: list[Entry] = []
    tried: set[int] = set()
    for entry in batch:
        change = changes.get(entry.seq)
        if change is None or isinstance(entry, Ticket):
            entries.append(entry)
            continue
        if change.first not in tried:
            tried.add(change.first)
            change.attempt(database, chain, doubtful=doubtful)
        entries.append(entry if change.error is None else _not_done(entry, change.error))
    return entries


def _not_done(record: Record, error: StoreError) -> Record:
    details = {**record.details, "event": record.event}
    return msgspec.structs.replace(record, event=NOT_DONE, reason=error.message, details=details)
