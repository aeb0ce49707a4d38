"""Learns from the audit log which found tools were called and succeeded, for each principal by itself.

Rule: learning costs a call nothing. The hub reads calls from the audit log, in the background, at the next search. It
stores only the terms of queries and the names of tools, and can forget them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from time import time_ns
from typing import Final

import msgspec

from interlock.discovery.entries import Identity
from interlock.discovery.usage import MAX_TERMS, RememberedUse, ToolUsage, largest
from interlock.hub.audit.record import EXECUTED
from interlock.hub.audit.search import FoundEntry, search
from interlock.process.turns import in_turns
from interlock.store import Collection, Document, Store
from interlock.store.errors import StoreDamaged, StoreError
from interlock.store.records import Search

MAX_OPEN: Final = 64
"""Searches of one principal that wait for calls of the found tools. The oldest are dropped first."""
MAX_OPEN_IN_ALL: Final = 512
WITHIN_US: Final = 600_000_000
"""How long after a search a call counts as its outcome."""
MAX_CALLS: Final = 200
"""Calls of one caller that are read at a time."""
LOADED_WITHIN_S: Final = 1.0
"""How long the first searches wait until stored uses are loaded."""


class LearnedUses(msgspec.Struct, frozen=True):
    """All that was learned from one principal, in the store."""

    id: str
    """The kind and the id of the principal. Earlier versions kept the uses of all as `uses`."""
    uses: tuple[RememberedUse, ...]


LEARNED: Final = Collection("learned_uses", LearnedUses, key="id")


class _Search(msgspec.Struct, frozen=True):
    at_us: int
    terms: tuple[str, ...]
    found: frozenset[Identity]


class UsageLearning:
    """Uses of tools after searches. Used on the loop's thread."""

    def __init__(self, store: Callable[[], Store], log: Callable[[str, str], None]) -> None:
        self._store = store
        self._log = log
        self._open: dict[str, dict[int, _Search]] = {}
        """The searches of each principal that wait for their outcome, the oldest first."""
        self._numbers = count()
        self._working: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()
        self._loaded = asyncio.Event()
        self.usage = ToolUsage()

    def found(self, principal_name: str, terms: Sequence[str], tools: Iterable[Identity]) -> None:
        """Note the tools that a search with these terms returned. The hub learns later which of them were called."""
        if not terms:
            return
        searches = self._open.setdefault(principal_name, {})
        searches[next(self._numbers)] = _Search(time_ns() // 1000, tuple(terms[:MAX_TERMS]), frozenset(tools))
        if len(searches) > MAX_OPEN:
            self._close(principal_name, next(iter(searches)))
        if sum(map(len, self._open.values())) > MAX_OPEN_IN_ALL:
            loser = largest(self._open)
            self._close(loser, next(iter(self._open[loser])))

    def look(self) -> None:
        """Read the outcomes of earlier searches in the background."""
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._learn())

    async def ready(self) -> None:
        """Wait a moment until stored uses are loaded, and read newer outcomes in the background."""
        self.look()
        if self._loaded.is_set() or self._working is None:
            return
        loaded = asyncio.ensure_future(self._loaded.wait())
        await asyncio.wait([loaded, self._working], timeout=LOADED_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        loaded.cancel()

    async def settled(self) -> None:
        """Wait until the audit log has been read."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def caught_up(self) -> None:
        """Wait until the hub has learned from every call that is in the audit log now."""
        await self.settled()  # It may have read the log before the last call.
        self.look()
        await self.settled()

    async def forget(self) -> int:
        """Forget what was learned from all principals. Returns how many uses that were."""
        async with self._busy:
            stored = await self._stored()
            async with self._store().transaction() as change:
                for document in stored:
                    change.delete(LEARNED, document.key)
            self.usage = ToolUsage()
            self._open.clear()
        return sum(len(document.value.uses) for document in stored)

    async def close(self) -> None:
        """Stop learning."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _learn(self) -> None:
        async with self._busy:
            try:
                if not self._loaded.is_set():
                    await self._load()
                changed = await self._read_outcomes()
                if changed:
                    await self._keep(changed)
            except StoreError as cause:
                self._log("hub", f"what was learned from use cannot be kept: {cause.for_operators}")

    async def _stored(self) -> list[Document[LearnedUses]]:
        """All stored uses. A damaged row is skipped and kept, so that the operator can see it."""
        store = self._store()
        try:
            return await store.find(LEARNED)
        except StoreDamaged:
            found: list[Document[LearnedUses]] = []
            for key in await store.keys(LEARNED):
                try:
                    document = await store.get(LEARNED, key)
                except StoreDamaged as cause:
                    self._log("hub", f"what was learned from {key} is left out: {cause.for_operators}")
                else:
                    found += [] if document is None else [document]
            return found

    async def _load(self) -> None:
        stored = await self._stored()
        # Uses that name no principal would let one agent rank tools for the others.
        owned = [document for document in stored if ":" in document.key]
        usage = ToolUsage()
        async for principal_name, use in in_turns(
            (document.key, use) for document in owned for use in document.value.uses
        ):
            usage.add(principal_name, use)
        self.usage = usage
        self._loaded.set()
        turns = in_turns(stored, at_once=1)
        changed = {each.key async for each in turns if len(each.value.uses) != len(usage.of(each.key))}
        if changed:
            await self._keep(changed)

    async def _keep(self, names: set[str]) -> None:
        async with self._store().transaction() as change:
            async for principal_name in in_turns(names, at_once=1):
                uses = self.usage.of(principal_name)
                if uses:
                    change.put(LEARNED, LearnedUses(principal_name, uses))
                else:
                    change.delete(LEARNED, principal_name)

    async def _read_outcomes(self) -> set[str]:
        """Match calls to searches. Returns the principals whose uses changed. Expired searches are dropped."""
        changed: set[str] = set()
        for principal_name, searches in [
            (principal_name, dict(searches)) for principal_name, searches in self._open.items()
        ]:
            kind, _, actor = principal_name.partition(":")
            since = min(each.at_us for each in searches.values())
            wanted = Search(event=EXECUTED["tool"], actor=actor, since=since)
            entries = await self._store().read(partial(search, wanted=wanted, limit=MAX_CALLS))
            calls = [entry for entry in entries if entry.record.actor_kind == kind]
            now = time_ns() // 1000
            # A call is the outcome of the last search that found its tool. Earlier ones of that tool end without one.
            counted: set[tuple[str, int]] = set()
            async for number, each in in_turns(reversed(searches.items()), at_once=10):
                served = [(entry, tool) for entry in calls if (tool := _served(entry, each)) is not None]
                for tool in {tool for entry, tool in served if (entry.chain, entry.seq) not in counted}:
                    changed |= self.usage.served(principal_name, each.terms, tool)
                counted.update((entry.chain, entry.seq) for entry, _ in served)
                if served or now - each.at_us > WITHIN_US:
                    self._close(principal_name, number)
        return changed

    def _close(self, principal_name: str, number: int) -> None:
        searches = self._open.get(principal_name, {})
        searches.pop(number, None)
        if not searches:
            self._open.pop(principal_name, None)


def _served(entry: FoundEntry, search: _Search) -> Identity | None:
    """The tool of a call that succeeded soon after a search that found it."""
    record = entry.record
    tool = (record.server, record.name)
    soon = search.at_us <= record.at <= search.at_us + WITHIN_US
    return tool if soon and tool in search.found and entry.result == "SUCCESS" else None
