"""Learns from the audit log which found tools were called and succeeded.

The one rule: no call does anything for it. The hub reads the calls from the audit log, in the background, at the next
search. The result stays in this hub's store, as the terms of queries and the names of tools, and can be forgotten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import time_ns
from typing import Final

import msgspec

from interlock.discovery.usage import MOST_TERMS, Usage, Use
from interlock.hub.audit.record import EXECUTED
from interlock.hub.audit.search import Entry, search
from interlock.store import Collection, Store
from interlock.store.errors import StoreError
from interlock.store.records import Search

Identity = tuple[str, str]

MOST_OPEN: Final = 256
"""Searches that wait for what is called after them; the oldest go first."""
WITHIN_US: Final = 600_000_000
"""How long after a search a call counts as its outcome."""
MOST_CALLS: Final = 200
"""Calls of one caller that are read at a time."""
_ID: Final = "uses"


class LearnedUses(msgspec.Struct, frozen=True):
    """All that was learned, in the store."""

    id: str
    uses: tuple[Use, ...]


LEARNED: Final = Collection("learned_uses", LearnedUses, key="id")


class _Search(msgspec.Struct, frozen=True):
    actor: str
    at_us: int
    terms: tuple[str, ...]
    found: frozenset[Identity]


class Learning:
    """Uses of tools after searches. Used on the loop's thread."""

    def __init__(self, store: Callable[[], Store], log: Callable[[str, str], None]) -> None:
        self._store = store
        self._log = log
        self._open: deque[_Search] = deque(maxlen=MOST_OPEN)
        self._working: asyncio.Task[None] | None = None
        self._loaded = False
        self.usage = Usage()

    def found(self, actor: str, terms: Sequence[str], tools: Iterable[Identity]) -> None:
        """A caller was shown tools for a query of these terms. The hub learns later which of them it calls."""
        if terms:
            self._open.append(_Search(actor, time_ns() // 1000, tuple(terms[:MOST_TERMS]), frozenset(tools)))

    def look(self) -> None:
        """Read in the background what came of earlier searches."""
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._learn())

    async def settled(self) -> None:
        """Wait until everything that is in the record was learned."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def forget(self) -> int:
        """Forget everything; gives how much it was."""
        await self.settled()
        count, self.usage = len(self.usage), Usage()
        self._open.clear()
        async with self._store().transaction() as change:
            change.delete(LEARNED, _ID)
        return count

    async def close(self) -> None:
        """Learn no more."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _learn(self) -> None:
        try:
            if not self._loaded:
                kept = await self._store().get(LEARNED, _ID)
                self.usage = Usage(kept.value.uses if kept is not None else ())
                self._loaded = True
            if await self._read_outcomes():
                async with self._store().transaction() as change:
                    change.put(LEARNED, LearnedUses(_ID, tuple(self.usage)))
        except StoreError as cause:
            self._log("hub", f"what was learned from use cannot be kept: {cause}")

    async def _read_outcomes(self) -> bool:
        """Whether anything was learned. A search waits until a tool it found was called, or its time is over."""
        waiting, now = list(self._open), time_ns() // 1000
        called: dict[str, list[Entry]] = {}
        for actor in {each.actor for each in waiting}:
            since = min(each.at_us for each in waiting if each.actor == actor)
            wanted = Search(event=EXECUTED["tool"], actor=actor, since=since)
            called[actor] = await self._store().read(partial(search, wanted=wanted, limit=MOST_CALLS))
        learned = False
        for each in waiting:
            served = {tool for entry in called[each.actor] if (tool := _served(entry, each)) is not None}
            for tool in served:
                self.usage.served(each.terms, tool)
            if (served or now - each.at_us > WITHIN_US) and each in self._open:
                self._open.remove(each)
            learned |= bool(served)
        return learned


def _served(entry: Entry, search: _Search) -> Identity | None:
    """The tool of a call that succeeded soon after a search that found it."""
    record = entry.record
    tool = (record.server, record.name)
    soon = search.at_us <= record.at <= search.at_us + WITHIN_US
    return tool if soon and tool in search.found and entry.result == "SUCCESS" else None
