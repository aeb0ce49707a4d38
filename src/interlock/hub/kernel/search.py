"""Searching all tools of all servers. The index is made at the first search, off the loop, and follows the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from interlock.hub.catalog.offer import Offer, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.kernel.tokens import TokenCounts
from interlock.hub.locks import held
from interlock.protocols.mgp.security import Trust, effective_risk, read_security

if TYPE_CHECKING:
    from interlock.discovery.index import Filters, Found, ToolIndex

Identity = tuple[str, str]


class ToolSearch:
    """One index for everyone; what a caller may not see has no part in its answer."""

    def __init__(self, catalog: Catalog, tokens: TokenCounts, lock_s: Callable[[], float]) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._index: ToolIndex | None = None
        self._indexed: dict[str, Offer] = {}
        self._busy = asyncio.Lock()
        self._lock_s = lock_s

    async def find(self, seen: frozenset[Identity], query: str, strategy: str, limit: int, filters: Filters) -> Found:
        """The best tools for a query among those that are seen. Raises `DiscoveryError`, and where too many search."""
        async with held(self._busy, self._lock_s(), "the index of tools"):
            return await asyncio.to_thread(self._find, seen, query, strategy, limit, filters)

    def _find(self, seen: frozenset[Identity], query: str, strategy: str, limit: int, filters: Filters) -> Found:
        return self._current().search(query, strategy, limit, filters, seen)

    def _current(self) -> ToolIndex:
        """The index, brought up to what the servers offer now."""
        from interlock.discovery.index import ToolIndex

        if self._index is None:
            self._index = ToolIndex()
        offers = self._catalog.offers()
        for server, offer in list(self._indexed.items()):
            if offers.get(server) is not offer:
                for tool in offer.tools.values():
                    self._index.remove((server, tool.name))
                del self._indexed[server]
        for server, offer in offers.items():
            if server not in self._indexed:
                for tool in offer.tools.values():
                    self._put(self._index, tool)
                self._indexed[server] = offer
        return self._index

    def _put(self, index: ToolIndex, tool: Tool) -> None:
        from interlock.discovery.entries import from_definition
        from interlock.discovery.errors import DiscoveryError

        definition = msgspec.json.decode(tool.definition, type=dict[str, object])
        declared, hints = read_security(tool.definition)
        risk = effective_risk(declared, hints, Trust.STANDARD)
        try:
            index.put(from_definition(tool.server, definition, risk_level=risk.word, tokens=self._tokens.of(tool)))
        except DiscoveryError:
            # One that cannot be indexed can still be listed and called.
            return
