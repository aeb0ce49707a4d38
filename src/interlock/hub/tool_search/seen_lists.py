"""The items that principals see, and whole lists of them.

Each part of a list is selected and rendered once, until its server's offer or the principal's rights change. The first
time this takes long where there are thousands of items, so it can be done in short turns of the loop beforehand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from interlock.hub.auth.access import Access
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.items import ItemKind
from interlock.hub.catalog.views import EVERYTHING, Catalog
from interlock.hub.tool_search.list_cache import ListCache
from interlock.hub.tool_search.seen_items import SeenItems, Select, seen_in_turns, seen_items
from interlock.process.turns import in_turns
from interlock.wire.large import JoinedArray


class SeenLists:
    """The items of one hub, as principals see them."""

    def __init__(self, catalog: Catalog, access: Access, cache: ListCache) -> None:
        self._catalog = catalog
        self._access = access
        self._cache = cache

    def of(self, list_scope: ListScope, kind: ItemKind) -> SeenItems:
        """The items that the principal sees."""
        return self._selected(list_scope, kind, "seen", self._access.seen_of(list_scope.principal))

    def called(self, list_scope: ListScope) -> SeenItems:
        """The tools that the principal sees and may call."""
        return self._selected(list_scope, "tool", "called", self._access.callable_of(list_scope.principal))

    def reached(self, list_scope: ListScope) -> frozenset[str]:
        """The servers that the principal may see or call something of. Offers do not matter."""

        def find(before: frozenset[str] | None) -> frozenset[str]:
            if before is not None:
                return before
            servers = self._catalog.servers(EVERYTHING)
            return frozenset(name for name in servers if self._access.reaches(list_scope.principal, name))

        return self._cache.get_from("reached", ListScope(EVERYTHING, principal=list_scope.principal), find)

    async def reach_in_turns(self, list_scope: ListScope) -> None:
        """Find the servers that the principal may see or call something of."""

        async def find(before: frozenset[str] | None) -> frozenset[str]:
            if before is not None:
                return before
            servers, reaches = in_turns(self._catalog.servers(EVERYTHING)), self._access.reaches
            return frozenset([name async for name in servers if reaches(list_scope.principal, name)])

        await self._cache.compute("reached", ListScope(EVERYTHING, principal=list_scope.principal), find)

    async def select_in_turns(self, list_scope: ListScope, kind: ItemKind) -> None:
        """Select the items that the principal sees."""
        await self._select_in_turns(list_scope, kind, "seen", self._access.seen_of(list_scope.principal))

    async def select_called_in_turns(self, list_scope: ListScope) -> None:
        """Select the tools that the principal may call."""
        await self._select_in_turns(list_scope, "tool", "called", self._access.callable_of(list_scope.principal))

    async def render_in_turns(self, list_scope: ListScope, kind: ItemKind) -> None:
        """Render a whole list."""
        await self._catalog.render_in_turns(list_scope.view, kind)

    def whole(self, list_scope: ListScope, kind: ItemKind) -> JoinedArray:
        """All items of one kind. Callers that see all of them share the rendered list of the catalog."""
        seen, view = self.of(list_scope, kind), list_scope.view
        if seen.whole:
            return self._catalog.listed(view, kind)
        pieces: list[bytes | memoryview] = []
        sizes: list[Sequence[int]] = []
        for server, part in seen.parts.items():
            if part.items and part.whole:
                piece = self._catalog.piece(view, kind, server)
                pieces.append(piece.octets)
                sizes.append(piece.sizes)
            else:
                rendered = [self._catalog.render(view, item) for item in part.items]
                pieces += rendered
                sizes.append([*map(len, rendered)])
        return JoinedArray(b"".join((b"[", b",".join(pieces), b"]")), tuple(sizes))

    def _selected(self, list_scope: ListScope, kind: ItemKind, what: str, select: Select) -> SeenItems:
        audiences = tuple(each for each in list_scope.audiences if each in self._catalog.audiences)
        parts = self._catalog.parts(list_scope.view, kind)
        # Budget and level decide how much is listed, not what is seen.
        scope = ListScope(list_scope.view, principal=list_scope.principal, audiences=list_scope.audiences)

        def find(before: SeenItems | None) -> SeenItems:
            return seen_items(parts, audiences, select, before)

        return self._cache.get_from(f"{what} {kind}", scope, find)

    async def _select_in_turns(self, list_scope: ListScope, kind: ItemKind, what: str, select: Select) -> None:
        audiences = tuple(each for each in list_scope.audiences if each in self._catalog.audiences)
        parts = self._catalog.parts(list_scope.view, kind)
        scope = ListScope(list_scope.view, principal=list_scope.principal, audiences=list_scope.audiences)

        def find(before: SeenItems | None) -> Awaitable[SeenItems]:
            return seen_in_turns(parts, audiences, select, before)

        await self._cache.compute(f"{what} {kind}", scope, find)
