"""Turns batches of entries into rows of one chain: redacts, encodes, hashes and appends them.

Everything in this file runs on the store's writer thread, inside a transaction. A batch may be written twice: the
first commit may have succeeded although the connection broke before the hub learned of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from time import sleep, time_ns
from typing import Any, Final

import msgspec

from interlock.hub.audit.argument_redaction import prepare
from interlock.hub.audit.chain import row_of
from interlock.hub.audit.entries import Entry, Ticket
from interlock.hub.audit.queued_arguments import QueuedArguments
from interlock.hub.audit.record import Record
from interlock.hub.audit.recorded_changes import RecordedChange, attempt
from interlock.hub.audit.redaction import RedactText, redact, redact_text
from interlock.hub.audit.resume import Resumed, resume
from interlock.store import records as rows
from interlock.store.database import Database

PIECE_ENTRIES: Final = 16
"""Entries of a batch that are written in one go."""
PAUSE_S: Final = 0.00002
"""The event loop runs between two pieces of a batch."""


class BatchWriter:
    """Writes the batches of one chain."""

    def __init__(self, chain: str, redact_texts: RedactText, arguments: QueuedArguments) -> None:
        self._chain = chain
        self._redact = redact_texts
        self._arguments = arguments

    def write(
        self,
        batch: list[Entry],
        previous: bytes,
        changes: Mapping[int, RecordedChange],
        retry: bool,
        in_pieces: bool,
        database: Database,
    ) -> tuple[bytes, list[Entry]]:
        """Append a batch after the record with the hash `previous`. Returns the last hash and the entries as written.

        `changes` holds the changes to commit with their records, by sequence number. Written `in_pieces`, a batch
        delays no call for long; written in one go, it costs less and is committed sooner.
        """
        database.lock(self._chain)
        if changes:
            batch = attempt(database, self._chain, batch, changes, doubtful=retry)
        # Entries of one batch repeat most of their texts, so cache the redaction. The cache ends with the batch,
        # because it contains unredacted texts.
        redact_texts = cache(self._redact)
        written: list[Entry] = []
        size = PIECE_ENTRIES if in_pieces and not retry else len(batch)
        for start in range(0, len(batch), size):
            if start:
                sleep(PAUSE_S)
            values = []
            piece = batch[start : start + size]
            for entry, arguments in zip(piece, self._redacted_arguments(piece), strict=True):
                record, row = self._row(entry, previous, arguments, redact_texts)
                previous = row.hash
                written.append(record)
                values.append(rows.values_of(row))
            if retry:
                found = rows.get(database, self._chain, written[-1].seq)
                if found is not None and found.hash == previous:
                    break  # The first commit succeeded.
            rows.append_values(database, values)
        return previous, written

    def _redacted_arguments(self, batch: list[Entry]) -> list[bytes]:
        """The arguments of each entry as they are written; empty where none are."""
        if not self._arguments.shown:
            return [b""] * len(batch)
        return prepare([_arguments(entry) for entry in batch], self._redact)

    def _row(
        self, entry: Entry, previous: bytes, arguments: bytes, redact_texts: RedactText
    ) -> tuple[Record, rows.RecordRow]:
        """The record as it is written, and its row."""
        record = entry.record() if isinstance(entry, Ticket) else entry
        if arguments or record.redacted_arguments is not msgspec.UNSET:
            redacted = msgspec.Raw(arguments) if arguments else msgspec.UNSET
            record = msgspec.structs.replace(record, redacted_arguments=redacted)
        try:
            clean = _clean(record, redact_texts)
            return clean, row_of(self._chain, clean, previous)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as cause:
            # A value that cannot be encoded must not prevent the record.
            clean = _encodable(record, cause)
            return clean, row_of(self._chain, clean, previous)


def open_chain(chain: str, head_file: Path, database: Database) -> tuple[Resumed, int, bytes]:
    """Append the first records of a run. Returns the sequence number and the hash of the last one."""
    # The database may still be committing the last batch of a killed process: wait for it before looking.
    database.lock(chain)
    resumed = resume(chain, head_file, database)
    appended, previous = [], resumed.hash
    for seq, entry in enumerate(resumed.entries, resumed.seq + 1):
        appended.append(row_of(chain, msgspec.structs.replace(entry, seq=seq, at=time_ns() // 1000), previous))
        previous = appended[-1].hash
    rows.append(database, appended)
    return resumed, appended[-1].seq, previous


def _clean(record: Record, redact_texts: RedactText) -> Record:
    """The record without secrets in its texts."""
    if not record.details and not record.reason and record.kind != "resource":
        return record
    return msgspec.structs.replace(
        record,
        name=redact_text(record.name, redact_texts),
        reason=redact_text(record.reason, redact_texts),
        details=redact(record.details, redact_texts),
    )


def _arguments(entry: Entry) -> bytes:
    """The arguments of an entry, as far as they are known."""
    if isinstance(entry, Ticket):
        return entry.arguments if isinstance(entry.arguments, bytes) else b""
    queued: object = entry.redacted_arguments
    return bytes(queued) if isinstance(queued, msgspec.Raw) else b""


def _encodable(record: Record, cause: Exception) -> Record:
    """The record without the details, and with texts that UTF-8 can hold."""
    changed: dict[str, Any] = {
        name: value.encode("utf-8", "replace").decode()
        for name in record.__struct_fields__
        if isinstance(value := getattr(record, name), str)
    }
    changed["redacted_arguments"] = msgspec.UNSET
    changed["details"] = {"not_recorded": f"the details: {type(cause).__name__}"}
    return msgspec.structs.replace(record, **changed)
