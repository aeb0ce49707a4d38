"""Tells what was committed to the audit log: counts the entries, and publishes them where somebody listens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.events import Bus
from interlock.events.types import AuditAppended, AuditCommitted, now_us
from interlock.hub.audit.counts import Counts
from interlock.hub.audit.entries import Entry, Ticket

ENTRIES_AT_ONCE: Final = 256
"""Entries published in one turn of the loop."""


class CommitPublisher:
    """Takes the batches of one recorder. While nobody subscribes, an entry costs nothing here."""

    def __init__(self, bus: Bus | None = None, counts: Counts | None = None) -> None:
        self._bus = bus or Bus()
        self._counts = counts

    def on_committed(self, chain: str, written: list[Entry]) -> None:
        """Entries were committed, in order."""
        if self._counts is not None:
            self._counts.take(written)
        bus = self._bus
        if bus.wants(AuditAppended):
            self._publish(chain, written[:ENTRIES_AT_ONCE])
            for start in range(ENTRIES_AT_ONCE, len(written), ENTRIES_AT_ONCE):
                asyncio.get_running_loop().call_soon(self._publish, chain, written[start : start + ENTRIES_AT_ONCE])
        if bus.wants(AuditCommitted):
            bus.publish(AuditCommitted(chain, written[-1].seq, now_us(), written[0].seq))

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
