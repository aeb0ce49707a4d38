"""Prunes old records from the front of the chain, by age and by size; the rest stays verifiable.

The pruner first records the cut with the hash of the last pruned record, then deletes. If the hub is killed in between,
the next run finishes. Open intents and the newest records are never pruned.
"""

from __future__ import annotations

from pathlib import Path
from time import time_ns
from typing import Final

from interlock.config.settings import RetentionSettings
from interlock.hub.audit.anchors import anchor_of
from interlock.hub.audit.entries import event_record
from interlock.hub.audit.head import read_head
from interlock.hub.audit.record import PRUNED
from interlock.hub.audit.recorder import Recorder
from interlock.store import Store
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import RecordRow

MIN_KEPT: Final = 100
"""So many of the newest records always stay."""
_KEPT_SHARE: Final = 0.9
"""Above the size limit, the pruner goes down to this share of it, so that it does not cut on every run."""
_DAY_US: Final = 86_400 * 1_000_000
_MEGABYTE: Final = 1_000_000


class Pruner:
    """Prunes one chain."""

    def __init__(self, store: Store, recorder: Recorder, head: Path) -> None:
        self._store = store
        self._recorder = recorder
        self._head = head
        self._finished_earlier = False
        """Whether a cut that an earlier run left half done was looked for."""

    async def prune(self, settings: RetentionSettings) -> int:
        """Delete records beyond the limits. Returns how many. Raises StoreError or HeadDamaged."""
        if settings.days is None and settings.megabytes is None:
            return 0
        chain, store = self._recorder.chain, self._store
        if not self._finished_earlier:
            await self._drop(await store.read(lambda database: anchor_of(database, chain)))
            self._finished_earlier = True
        known = read_head(self._head)
        oldest_open = None if known is None else known.oldest_open
        now = time_ns() // 1000
        cut = await store.read(lambda database: _cut(database, chain, settings, now, oldest_open))
        if cut is None:
            return 0
        first, last = cut
        limits = (("days", settings.days), ("megabytes", settings.megabytes))
        why = ", ".join(f"{name} = {value:g}" for name, value in limits if value is not None)
        details = {"from": first.seq, "through": last.seq, "hash": last.hash.hex()}
        self._recorder.add(event_record(PRUNED, rule=f"retention: {why}", details=details))
        await self._recorder.flushed()
        await self._drop(last.seq)
        return last.seq - first.seq + 1

    async def _drop(self, through: int) -> None:
        """Delete records a page at a time, so that nobody waits long for the writer."""
        chain, more = self._recorder.chain, through > 0
        while more:
            more = await self._store.commit(lambda database: rows.drop_page(database, chain, through)) > 0


def _cut(
    database: Database, chain: str, settings: RetentionSettings, now: int, oldest_open: int | None
) -> tuple[RecordRow, RecordRow] | None:
    """The first and the last record to delete."""
    first, newest = rows.first(database, chain), rows.last(database, chain)
    if first is None or newest is None:
        return None
    through = 0
    if settings.days is not None:
        through = _older(database, chain, first.seq, newest.seq, now - int(settings.days * _DAY_US))
    if settings.megabytes is not None:
        through = max(through, _surplus(database, chain, settings.megabytes * _MEGABYTE))
    through = min(through, newest.seq - MIN_KEPT, newest.seq if oldest_open is None else oldest_open - 1)
    last = rows.at_or_before(database, chain, through)
    return None if last is None else (first, last)


def _surplus(database: Database, chain: str, max_bytes: int) -> int:
    """The last record beyond the size limit."""
    if not rows.last_beyond(database, chain, max_bytes):
        return 0
    return rows.last_beyond(database, chain, int(max_bytes * _KEPT_SHARE))


def _older(database: Database, chain: str, low: int, high: int, before: int) -> int:
    """The last record before an instant, by bisection: records are in order of time."""
    while low < high:
        middle = (low + high) // 2
        found = rows.page(database, chain, middle - 1, 1)
        if found and found[0].at < before:
            low = found[0].seq + 1
        else:
            high = middle
    return low - 1
