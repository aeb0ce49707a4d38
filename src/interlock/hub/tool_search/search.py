"""Searches the tools of all servers.

The first search builds the index in a thread, and each search updates it from the catalog. A background task computes
the vectors of tools; until then a search finds them by their words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.views import Catalog
from interlock.hub.locks import acquire
from interlock.hub.tool_search.declared_categories import declared_of
from interlock.hub.tool_search.embeddings import BATCH, EmbeddingCache
from interlock.hub.tool_search.learning import UsageLearning
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.process.turns import in_turns
from interlock.protocols.mgp.permissions import Risk

if TYPE_CHECKING:
    from interlock.discovery.entries import Identity
    from interlock.discovery.index import ToolIndex
    from interlock.discovery.queries import Filters, SearchResult
    from interlock.discovery.split_query import SplitQuery
    from interlock.hub.tool_search.embeddings import Vector

SERVERS_AT_ONCE: Final = 200
CONNECTED: Final = "connected"
KNOWN: Final = "known"
"""The status of a tool whose server is not connected. A call starts a server that starts on demand."""
WITHHELD: Final = "withheld"
"""The status of a tool that waits for a decision. It can be requested, but a search does not find it."""


class _ServerStatus(msgspec.Struct, frozen=True):
    """The properties of a server that decide the status and the risk of its tools."""

    status: str
    judged_by: object


class ToolSearch:
    """One index for all callers. A tool that a caller may not see does not influence its results."""

    def __init__(
        self,
        catalog: Catalog,
        tokens: TokenCounts,
        embeddings: EmbeddingCache,
        connected: Callable[[str], bool],
        lock_s: Callable[[], float],
        risk_of: Callable[[Tool], Risk],
        judged_by: Callable[[str], object],
        learning: UsageLearning,
    ) -> None:
        self.learning = learning
        self._catalog = catalog
        self._tokens = tokens
        self.embeddings = embeddings
        self._connected = connected
        self._index: ToolIndex | None = None
        self._risk_of = risk_of
        """The risk of a tool for the gates. A thread calls this; it only reads."""
        self._judged_by = judged_by
        """The properties of a server that the risk of its tools depends on."""
        self._indexed: dict[str, tuple[Offer, _ServerStatus]] = {}
        """The indexed offer of each server, and the status of the server then."""
        self._query_vectors: dict[str, Vector | None] = {}
        """The vectors of the present search."""
        self._busy = asyncio.Lock()
        self._lock_s = lock_s
        self._embedding_task: asyncio.Task[None] | None = None
        self._engine_generation = -1

    @property
    def indexed_tools(self) -> int:
        """How many tools the last search had in its index."""
        return 0 if self._index is None else len(self._index)

    async def find(
        self,
        seen: frozenset[Identity],
        query: SplitQuery,
        strategy: str,
        limit: int,
        filters: Filters,
        principal_name: str,
        *,
        explain: bool = False,
        covers: int = 0,
    ) -> SearchResult:
        """The best tools for a query among those in `seen`, ranked with what was learned from a principal.

        Raises `DiscoveryError` or RESOURCE_EXHAUSTED.
        """
        await self.learning.ready()
        vectors = await self.embeddings.of_query(query.texts) if strategy in ("hybrid", "semantic") else {}
        async with acquire(self._busy, self._lock_s(), "the index of tools"):
            self._query_vectors = vectors
            servers = self._catalog.offers()
            statuses = {
                server: _ServerStatus(self.status(server), self._judged_by(server))
                async for server in in_turns(servers, SERVERS_AT_ONCE)
            }
            raised = self.learning.usage.raised(principal_name, query.whole.terms)
            found = await asyncio.to_thread(
                lambda: self._current(statuses).search(query, strategy, limit, filters, seen, raised, explain, covers)
            )
        if self.embeddings.available and (self._embedding_task is None or self._embedding_task.done()):
            self._embedding_task = asyncio.ensure_future(self._embed_missing())
        return found

    def status(self, server: str) -> str:
        """Whether a server's tools can be called at once."""
        return CONNECTED if self._connected(server) else KNOWN

    async def settled(self) -> None:
        """Wait until every tool has its vector, or the engine is not available."""
        if self._embedding_task is not None:
            await asyncio.wait([self._embedding_task])

    async def close(self) -> None:
        """Stop computing vectors."""
        if self._embedding_task is not None:
            self._embedding_task.cancel()
            await asyncio.gather(self._embedding_task, return_exceptions=True)
        await self.embeddings.close()
        await self.learning.close()

    async def _embed_missing(self) -> None:
        """Compute the vectors of tools in small batches, so that searches can run in between."""
        while self.embeddings.available:
            async with self._busy:
                index, generation = self._index, self.embeddings.generation
                lacking = [] if index is None else await asyncio.to_thread(index.lacking, BATCH)
            if index is None or not lacking:
                return
            vectors = await self.embeddings.of_tools([text for _, text in lacking])
            if vectors is None or generation != self.embeddings.generation:
                return
            async with self._busy:
                await asyncio.to_thread(_teach, index, lacking, vectors)

    def _current(self, statuses: dict[str, _ServerStatus]) -> ToolIndex:
        """The index, updated to the present offers."""
        from interlock.discovery.index import ToolIndex

        if self._index is None or self._engine_generation != self.embeddings.generation:
            # Vectors of different engines cannot be compared.
            self._index = ToolIndex(
                lambda texts: [self._query_vectors.get(text) for text in texts], self.embeddings.least_alone
            )
            self._indexed.clear()
            self._engine_generation = self.embeddings.generation
        offers = self._catalog.offers()
        for server in [server for server in self._indexed if server not in offers]:
            self._update(self._index, server, Offer(server), self._indexed[server][1])
            del self._indexed[server]
        for server, offer in offers.items():
            server_status = statuses.get(server, _ServerStatus(KNOWN, None))
            if self._indexed.get(server) != (offer, server_status):
                self._update(self._index, server, offer, server_status)
                self._indexed[server] = (offer, server_status)
        return self._index

    def _update(self, index: ToolIndex, server: str, offer: Offer, server_status: _ServerStatus) -> None:
        """Index the new and changed tools of a server, and remove the others."""
        before, old_status = self._indexed.get(server, (None, server_status))
        old = (
            {}
            if before is None
            else {tool.name: (tool.digest(), status) for tool, status in _all_of(before, old_status)}
        )
        new = {tool.name: (tool, status) for tool, status in _all_of(offer, server_status)}
        for name in old.keys() - new.keys():
            index.remove((server, name))
        for name, (tool, status) in new.items():
            if old.get(name) != (tool.digest(), status) or old_status != server_status:
                self._put(index, tool, status)

    def _put(self, index: ToolIndex, tool: Tool, status: str) -> None:
        from interlock.discovery.entries import from_definition
        from interlock.discovery.errors import DiscoveryError

        # A search uses the operator's description, and both the server's name and the operator's.
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
            # A tool that cannot be indexed can still be listed and called.
            return


def _all_of(offer: Offer, server_status: _ServerStatus) -> Iterable[tuple[Tool, str]]:
    """Every tool of a server, with its status."""
    for tool in offer.tools.values():
        yield tool, server_status.status
    for tool, _ in offer.withheld.values():
        yield tool, WITHHELD
    for tool in offer.lacking.values():
        yield tool, WITHHELD


async def split_in_thread(query: object) -> SplitQuery:
    """Split a query in a thread: a long one takes the loop too long. Raises `DiscoveryError`."""
    return await asyncio.to_thread(_split, query)


def _split(query: object) -> SplitQuery:
    from interlock.discovery.split_query import split_query  # The first import takes long, so a thread does it, too.

    return split_query(query)


def _teach(index: ToolIndex, lacking: list[tuple[Identity, str]], vectors: list[Vector | None]) -> None:
    from interlock.discovery.errors import DiscoveryError

    for (identity, text), vector in zip(lacking, vectors, strict=True):
        try:
            index.learn(identity, text, vector)
        except DiscoveryError:
            index.learn(identity, text, None)
