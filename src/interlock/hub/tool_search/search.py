"""Searching all tools of all servers. The index is made at the first search, off the loop, and follows the catalog;
what tools mean is worked out behind it, and until then they are found by their words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.hub.catalog.offer import Offer, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.locks import held
from interlock.hub.tool_search.declared_categories import declared_of
from interlock.hub.tool_search.embeddings import BATCH, EmbeddingCache
from interlock.hub.tool_search.learning import Learning
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.protocols.mgp.permissions import Risk

if TYPE_CHECKING:
    from interlock.discovery.index import Filters, Found, ToolIndex
    from interlock.discovery.usage import Usage
    from interlock.hub.tool_search.embeddings import Vector

Identity = tuple[str, str]

CONNECTED: Final = "connected"
KNOWN: Final = "known"
"""Of a server that is not connected now; a call starts one that starts on demand."""
WITHHELD: Final = "withheld"
"""Waiting for a decision: never found, only asked for."""


class _Standing(msgspec.Struct, frozen=True):
    """How a server stands: what its tools' status and risk depend on."""

    status: str
    judged_by: object


class ToolSearch:
    """One index for everyone; what a caller may not see has no part in its answer."""

    def __init__(
        self,
        catalog: Catalog,
        tokens: TokenCounts,
        meaning: EmbeddingCache,
        connected: Callable[[str], bool],
        lock_s: Callable[[], float],
        risk_of: Callable[[Tool], Risk],
        judged_by: Callable[[str], object],
        learning: Learning,
    ) -> None:
        self.learning = learning
        self._catalog = catalog
        self._tokens = tokens
        self._meaning = meaning
        self._connected = connected
        self._index: ToolIndex | None = None
        self._risk_of = risk_of
        """The risk that the gates reckon with. Asked on a thread of its own; it only reads."""
        self._judged_by = judged_by
        """What of a server its tools' risk depends on, beside their definitions."""
        self._indexed: dict[str, tuple[Offer, _Standing]] = {}
        """What stands in the index of each server, and how the server stood."""
        self._asked: dict[str, Vector | None] = {}
        """The vectors of the search under way."""
        self._busy = asyncio.Lock()
        self._lock_s = lock_s
        self._learning: asyncio.Task[None] | None = None
        self._made_for = -1

    async def find(
        self,
        seen: frozenset[Identity],
        query: str,
        strategy: str,
        limit: int,
        filters: Filters,
        *,
        explain: bool = False,
    ) -> Found:
        """The best tools for a query among those that are seen. Raises `DiscoveryError`, and where too many search."""
        self.learning.look()
        vectors = await self._meant(query) if strategy in ("hybrid", "semantic") else {}
        async with held(self._busy, self._lock_s(), "the index of tools"):
            self._asked = vectors
            servers = self._catalog.offers()
            standings = {server: _Standing(self.status(server), self._judged_by(server)) for server in servers}
            asked = partial(self._find, standings, seen, query, strategy, limit, filters, self.learning.usage, explain)
            found = await asyncio.to_thread(asked)
        if self._meaning.there and (self._learning is None or self._learning.done()):
            self._learning = asyncio.ensure_future(self._learn())
        return found

    def status(self, server: str) -> str:
        """Whether a server's tools can be called at once."""
        return CONNECTED if self._connected(server) else KNOWN

    async def settled(self) -> None:
        """Wait until the meaning of every tool is known, or cannot be had now."""
        if self._learning is not None:
            await asyncio.wait([self._learning])

    async def close(self) -> None:
        """Learn no more."""
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)
        await self._meaning.close()
        await self.learning.close()

    async def _meant(self, query: object) -> dict[str, Vector | None]:
        from interlock.discovery.index import texts_to_embed

        if not isinstance(query, str) or not query.strip():
            return {}  # the index says what is wrong with it
        return await self._meaning.of_query(texts_to_embed(query))

    async def _learn(self) -> None:
        """Work out what tools mean, a few at a time; whoever searches meanwhile goes between."""
        while self._meaning.there:
            async with self._busy:
                index, generation = self._index, self._meaning.generation
                lacking = [] if index is None else await asyncio.to_thread(index.lacking, BATCH)
            if index is None or not lacking:
                return
            vectors = await self._meaning.of_tools([text for _, text in lacking])
            if vectors is None or generation != self._meaning.generation:
                return
            async with self._busy:
                await asyncio.to_thread(_teach, index, lacking, vectors)

    def _find(
        self,
        standings: dict[str, _Standing],
        seen: frozenset[Identity],
        query: str,
        strategy: str,
        limit: int,
        filters: Filters,
        usage: Usage,
        explain: bool,
    ) -> Found:
        return self._current(standings).search(query, strategy, limit, filters, seen, usage, explain)

    def _current(self, standings: dict[str, _Standing]) -> ToolIndex:
        """The index, brought up to what the servers offer now."""
        from interlock.discovery.index import ToolIndex

        if self._index is None or self._made_for != self._meaning.generation:
            # Vectors of one engine mean nothing to another.
            self._index = ToolIndex(lambda texts: [self._asked.get(text) for text in texts])
            self._indexed.clear()
            self._made_for = self._meaning.generation
        offers = self._catalog.offers()
        for server in [server for server in self._indexed if server not in offers]:
            self._follow(self._index, server, Offer(server), self._indexed[server][1])
            del self._indexed[server]
        for server, offer in offers.items():
            standing = standings.get(server, _Standing(KNOWN, None))
            if self._indexed.get(server) != (offer, standing):
                self._follow(self._index, server, offer, standing)
                self._indexed[server] = (offer, standing)
        return self._index

    def _follow(self, index: ToolIndex, server: str, offer: Offer, standing: _Standing) -> None:
        """Put in what is new or another than before, and take out what is gone."""
        before, stood = self._indexed.get(server, (None, standing))
        had = {} if before is None else {tool.name: (tool.digest(), status) for tool, status in _all_of(before, stood)}
        has = {tool.name: (tool, status) for tool, status in _all_of(offer, standing)}
        for name in had.keys() - has.keys():
            index.remove((server, name))
        for name, (tool, status) in has.items():
            if had.get(name) != (tool.digest(), status) or stood != standing:
                self._put(index, tool, status)

    def _put(self, index: ToolIndex, tool: Tool, status: str) -> None:
        from interlock.discovery.entries import from_definition
        from interlock.discovery.errors import DiscoveryError

        # What the operator describes anew is found by that; a name that the operator gave, by both.
        definition = msgspec.json.decode(tool.full, type=dict[str, object]) | {"name": tool.name}
        categories, keywords = declared_of(definition)
        named = (tool.shown,) if tool.shown != tool.name else ()
        try:
            index.put(
                from_definition(
                    tool.server,
                    definition,
                    declared_categories=categories,
                    keywords=(*named, *keywords),
                    risk_level=self._risk_of(tool).word,
                    status=status,
                    tokens=self._tokens.at_hand(tool),
                )
            )
        except DiscoveryError:
            # One that cannot be indexed can still be listed and called.
            return


def _all_of(offer: Offer, standing: _Standing) -> Iterable[tuple[Tool, str]]:
    """Every tool of a server, with its status."""
    for tool in offer.tools.values():
        yield tool, standing.status
    for tool, _ in offer.withheld.values():
        yield tool, WITHHELD
    for tool in offer.lacking.values():
        yield tool, WITHHELD


def _teach(index: ToolIndex, lacking: list[tuple[Identity, str]], vectors: list[Vector | None]) -> None:
    from interlock.discovery.errors import DiscoveryError

    for (identity, text), vector in zip(lacking, vectors, strict=True):
        try:
            index.learn(identity, text, vector)
        except DiscoveryError:
            index.learn(identity, text, None)
