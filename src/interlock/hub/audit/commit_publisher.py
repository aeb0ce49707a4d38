"""Counts the entries that were committed to the audit log, and publishes them if somebody listens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.events import Bus
from interlock.events.types import AuditAppended, AuditCommitted, now_us
from interlock.hub.audit.counts import Counts
from interlock.hub.audit.entries import Entry, Ticket
from interlock.process.turns import batches

ENTRIES_AT_ONCE: Final = 64
"""Entries that are counted and published in one turn of the loop. Callbacks that are scheduled together share a turn,
so each piece schedules the next."""
MAX_PIECES: Final = 256
"""Pieces that may wait: those of four of the largest batches."""


class CommitPublisher:
    """Takes the batches of one recorder. While nobody subscribes, an entry costs nothing here."""

    def __init__(self, bus: Bus | None = None, counts: Counts | None = None) -> None:
        self._bus = bus or Bus()
        self._counts = counts
        self._pieces: deque[tuple[str, list[Entry]]] = deque()
        """Entries that are not counted and published yet, in order, with their chain."""
        self._next: asyncio.Handle | None = None

    def on_committed(self, chain: str, written: list[Entry]) -> None:
        """Entries were committed, in order. Calls go on between the pieces in which they are counted and published."""
        self._pieces.extend((chain, piece) for piece in batches(written, ENTRIES_AT_ONCE))
        if self._next is None:
            self._take_piece()
        while len(self._pieces) > MAX_PIECES:
            self._take_piece()
        self._schedule()
        if self._bus.wants(AuditCommitted):
            self._bus.publish(AuditCommitted(chain, written[-1].seq, now_us(), written[0].seq))

    def _schedule(self) -> None:
        if self._pieces and self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._next = None
        if self._pieces:
            self._take_piece()
            self._schedule()

    def _take_piece(self) -> None:
        chain, entries = self._pieces.popleft()
        if self._counts is not None:
            self._counts.count(entries)
        if self._bus.wants(AuditAppended):
            self._publish(chain, entries)

    def _publish(self, chain: str, entries: Sequence[Entry]) -> None:
        for entry in entries:
            record = entry.record() if isinstance(entry, Ticket) else entry
            self._bus.publish(
                AuditAppended(
                    chain,
                    record.seq,
                    record.at,
                    record.event,
                    record.actor,
                    record.server,
                    record.name,
                    record.result,
                    record.trace,
                    msgspec.Raw(msgspec.json.encode(record)),
                )
            )
