"""The tools that a principal sees, may call or may request, each by its name in a list scope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from interlock.discovery.entries import Identity
from interlock.hub.auth.access import Access
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.audiences import has
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.list_cache import ListCache
from interlock.hub.tool_search.seen_lists import SeenLists
from interlock.protocols.patterns import PatternSet


class VisibleTools:
    """The tools of one hub, as principals may know them."""

    def __init__(
        self, catalog: Catalog, access: Access, cache: ListCache, seen: SeenLists, deferred: Callable[[Tool], str]
    ) -> None:
        self._catalog = catalog
        self._access = access
        self._cache = cache
        self._seen = seen
        self._deferred = deferred
        """The id of the open decision on a permission that a tool lacks, or an empty text."""

    def tools(self, list_scope: ListScope) -> list[Tool]:
        """Every tool that the principal sees."""
        return cast(list[Tool], self._seen.of(list_scope, "tool").items)

    def tool(self, list_scope: ListScope, name: str) -> Tool | None:
        """The tool with this name in a list scope."""
        tool = self._catalog.tool(list_scope.view, name)
        if tool is None or not has(tool, list_scope.audiences):
            return None
        return tool if self._access.seen(list_scope.principal, (tool,)) else None

    def name(self, list_scope: ListScope, tool: Tool) -> str:
        """The name of a tool in a list scope."""
        return self._catalog.name(list_scope.view, tool)

    def callable(self, list_scope: ListScope) -> frozenset[Identity]:
        """The identities of the tools that the principal may call. A search finds no others."""

        def find() -> frozenset[Identity]:
            seen = self._seen.called(list_scope)
            return frozenset((item.server, item.name) for item in seen.items)

        return self._cache.get("callable", list_scope, find)

    async def prepare_calls(self, list_scope: ListScope) -> None:
        """Find the tools that the principal may call in short turns of the loop."""
        await self._seen.select_called_in_turns(list_scope)
        self.callable(list_scope)
        await asyncio.sleep(0)

    def askable(self, list_scope: ListScope) -> frozenset[Identity]:
        """The identities of the tools that the principal may not call but may request."""

        def find() -> frozenset[Identity]:
            patterns, seen = PatternSet(list_scope.requests), self.callable(list_scope)
            offered = self._catalog.offered(list_scope.view, "tool", list_scope.audiences)
            known = (item for item in offered if patterns.allows(item.exposed))
            unseen = (item for item in known if (item.server, item.name) not in seen)
            may = self._access.may_ask_for
            return frozenset((item.server, item.name) for item in unseen if may(list_scope.principal, item))

        return self._cache.get("askable", list_scope, find) if list_scope.requests else frozenset()

    def withheld(self, list_scope: ListScope) -> dict[Identity, tuple[Tool, str]]:
        """Tools that wait for a decision, with the id of the decision."""
        found: dict[Identity, tuple[Tool, str]] = {}
        for tool, known in self._catalog.waiting(list_scope.view):
            decision = known or self._deferred(tool)
            if decision and has(tool, list_scope.audiences) and self._access.seen(list_scope.principal, (tool,)):
                found[tool.server, tool.name] = (tool, decision)
        return found
