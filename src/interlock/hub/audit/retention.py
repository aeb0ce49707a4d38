"""How long records are kept: what is too old, or too much, is cut off the front of the chain, which stays verifiable.

First the cut is recorded, with the hash of the last record that goes; then the records go. Killed in between, the next
look finishes it. What is still open, and the newest records, are never cut.
"""

from __future__ import annotations

from pathlib import Path
from time import time_ns
from typing import Final

from interlock.config.settings import Retention
from interlock.hub.audit.anchors import anchor_of
from interlock.hub.audit.head import read_head
from interlock.hub.audit.record import PRUNED
from interlock.hub.audit.recorder import Recorder
from interlock.store import Store
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import RecordRow

LEAST: Final = 100
"""So many of the newest records stay, whatever the settings say."""
_LEFT: Final = 0.9
_DAY_US: Final = 86_400 * 1_000_000
_MEGABYTE: Final = 1_000_000


class Pruner:
    """Cuts one chain."""

    def __init__(self, store: Store, recorder: Recorder, head: Path) -> None:
        self._store = store
        self._recorder = recorder
        self._head = head
        self._looked = False
        """Whether it was looked for a cut that an earlier run left half done."""

    async def prune(self, settings: Retention) -> int:
        """Cut what is over. Says how many records went. Raises StoreError or HeadDamaged."""
        if settings.days is None and settings.megabytes is None:
            return 0
        chain, store = self._recorder.chain, self._store
        if not self._looked:
            await self._drop(await store.read(lambda database: anchor_of(database, chain)))
            self._looked = True
        known = read_head(self._head)
        oldest_open = None if known is None else known.oldest_open
        now = time_ns() // 1000
        cut = await store.read(lambda database: _cut(database, chain, settings, now, oldest_open))
        if cut is None:
            return 0
        first, last = cut
        limits = (("days", settings.days), ("megabytes", settings.megabytes))
        why = ", ".join(f"{name} = {value:g}" for name, value in limits if value is not None)
        told = {"from": first.seq, "through": last.seq, "hash": last.hash.hex()}
        self._recorder.event(PRUNED, rule=f"retention: {why}", details=told)
        await self._recorder.flushed()
        await self._drop(last.seq)
        return last.seq - first.seq + 1

    async def _drop(self, through: int) -> None:
        """Delete what was recorded as cut, a page at a time: nobody waits long for it."""
        chain, left = self._recorder.chain, through > 0
        while left:
            left = await self._store.commit(lambda database: rows.drop_page(database, chain, through)) > 0


def _cut(
    database: Database, chain: str, settings: Retention, now: int, oldest_open: int | None
) -> tuple[RecordRow, RecordRow] | None:
    """The first and the last record that go."""
    first, newest = rows.first(database, chain), rows.last(database, chain)
    if first is None or newest is None:
        return None
    through = 0
    if settings.days is not None:
        through = _older(database, chain, first.seq, newest.seq, now - int(settings.days * _DAY_US))
    if settings.megabytes is not None:
        through = max(through, _surplus(database, chain, settings.megabytes * _MEGABYTE))
    through = min(through, newest.seq - LEAST, newest.seq if oldest_open is None else oldest_open - 1)
    last = rows.at_or_before(database, chain, through)
    return None if last is None else (first, last)


def _surplus(database: Database, chain: str, most_bytes: int) -> int:
    """The last record that is too much. Where one is, a little more goes, so that not every look cuts one."""
    if not rows.last_beyond(database, chain, most_bytes):
        return 0
    return rows.last_beyond(database, chain, int(most_bytes * _LEFT))


def _older(database: Database, chain: str, low: int, high: int, before: int) -> int:
    """The last record that is older than an instant. Records are in order of time, as far as a clock can be trusted."""
    while low < high:
        middle = (low + high) // 2
        found = rows.page(database, chain, middle - 1, 1)
        if found and found[0].at < before:
            low = found[0].seq + 1
        else:
            high = middle
    return low - 1
