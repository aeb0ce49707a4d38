"""Renders the lists of callers: all tools, or a few and a search tool (MGP, Context Reduction Model).

A list depends on credential, profile and declared client capabilities only, never on earlier requests. The exception
is a session of the handshake era, whose list also shows the tools that it loaded, and those of its own connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from interlock.config.value_types import Level
from interlock.hub.auth.access import Access
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.items import ItemKind, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.definitions import CALL, DEFINITIONS, FIND, REQUEST, with_categories
from interlock.hub.tool_search.list_budget import ListBudget
from interlock.hub.tool_search.list_cache import ListCache
from interlock.hub.tool_search.room_definitions import ROOM_DEFINITIONS, room_resource
from interlock.hub.tool_search.seen_items import ListState
from interlock.hub.tool_search.seen_lists import SeenLists
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.hub.tool_search.visible_tools import VisibleTools
from interlock.wire.large import JoinedArray


class OwnItems(Protocol):
    """Items of the hub itself that some callers have."""

    def items(self, list_scope: ListScope, kind: str) -> tuple[bytes, ...]:
        """The definitions to add to a list."""


class ToolListings:
    """Renders lists. A list scope gives the same bytes until something changes."""

    def __init__(
        self,
        catalog: Catalog,
        tokens: TokenCounts,
        access: Access,
        deferred: Callable[[Tool], str] = lambda tool: "",
        own: OwnItems | None = None,
    ) -> None:
        self._catalog = catalog
        self._own = own
        self._cache = ListCache(catalog, tokens, access)
        self._seen = SeenLists(catalog, access, self._cache)
        self.visible = VisibleTools(catalog, access, self._cache, self._seen, deferred)
        self.budget = ListBudget(catalog, tokens, self._cache, self._seen, self.visible)
        self._introductions: dict[ListScope, asyncio.Task[None]] = {}
        """Instructions that are being found."""

    def listing(self, list_scope: ListScope, kind: ItemKind, loaded: tuple[str, ...] = ()) -> bytes:
        """The items of one kind as a JSON array, with the tools that the session loaded."""
        return self.listed(list_scope, kind, loaded).octets

    def listed(self, list_scope: ListScope, kind: ItemKind, loaded: tuple[str, ...] = ()) -> JoinedArray:
        """The items of one kind, with the tools that the session loaded."""
        listing, own = self._listing(list_scope, kind, loaded), self._own_items(list_scope, kind)
        return listing.extended(own) if own else listing

    def at_hand(self, list_scope: ListScope, kind: ItemKind) -> bool:
        """Whether a list is known, so that it takes no time."""
        return self._cache.at_hand("shown" if kind == "tool" else kind, list_scope)

    async def prepare(self, list_scope: ListScope, kind: ItemKind) -> None:
        """Make a list, and the instructions that stand beside it, in short turns of the loop.

        A change meanwhile costs the next reader the work of that change.
        """
        await self._seen.select_in_turns(list_scope, kind)
        if kind == "tool":
            await self.budget.whole.count_in_turns(list_scope)
        if kind != "tool" or self.budget.level(list_scope) == "L0":
            await self._seen.render_in_turns(list_scope, kind)
            self._seen.of(list_scope, kind)
            await asyncio.sleep(0)
            self._seen.whole(list_scope, kind)
            await asyncio.sleep(0)
        self.listed(list_scope, kind)
        await asyncio.sleep(0)

    def introduction_at_hand(self, list_scope: ListScope) -> bool:
        """Whether the instructions are known, so that they take no time."""
        return self._cache.at_hand("instructions", list_scope)

    async def prepare_introduction(self, list_scope: ListScope) -> None:
        """Find the instructions in short turns of the loop, once for all clients that wait for the same."""
        finding = self._introductions.get(list_scope)
        if finding is None:
            finding = self._introductions[list_scope] = asyncio.create_task(self._find_instructions(list_scope))
            finding.add_done_callback(lambda _: self._introductions.pop(list_scope))
        await asyncio.shield(finding)

    async def _find_instructions(self, list_scope: ListScope) -> None:
        await self._seen.select_in_turns(list_scope, "tool")
        await self.budget.whole.count_in_turns(list_scope)
        await self._seen.reach_in_turns(list_scope)
        self.budget.level(list_scope)
        await asyncio.sleep(0)
        self.budget.instructions(list_scope)
        await asyncio.sleep(0)

    def state(self, list_scope: ListScope, kind: ItemKind) -> ListState:
        """The state of a list, without rendering a whole one."""
        if list_scope.view.profile is not None or (kind == "tool" and self.budget.level(list_scope) != "L0"):
            return ListState(None, self.listing(list_scope, kind))
        return ListState(self._seen.of(list_scope, kind), b",".join(self._own_items(list_scope, kind)))

    def stamp(self, list_scope: ListScope) -> tuple[int, int, int]:
        """The versions of the catalog, the counts and the rights that a list is made from."""
        return self._cache.stamp(list_scope)

    def _own_items(self, list_scope: ListScope, kind: ItemKind) -> tuple[bytes, ...]:
        return () if self._own is None else self._own.items(list_scope, kind)

    def _listing(self, list_scope: ListScope, kind: ItemKind, loaded: tuple[str, ...]) -> JoinedArray:
        if kind == "resource" and list_scope.rooms:
            rooms = [*map(room_resource, list_scope.rooms)]
            return self._cache.get(kind, list_scope, lambda: self._seen.whole(list_scope, kind).extended(rooms))
        if kind != "tool":
            return self._cache.get(kind, list_scope, lambda: self._seen.whole(list_scope, kind))
        level, listing = self._shown(list_scope)
        if level in ("L0", "L1", "L2") or not loaded:
            return listing
        more = [self._catalog.render(list_scope.view, tool) for tool in self.budget.still_fitting(list_scope, loaded)]
        return listing.extended(more) if more else listing

    def _shown(self, list_scope: ListScope) -> tuple[Level, JoinedArray]:
        def show() -> tuple[Level, JoinedArray]:
            level = self.budget.level(list_scope)
            shown = self._seen.whole(list_scope, "tool") if level == "L0" else self._few(list_scope, level)
            return level, shown.extended(ROOM_DEFINITIONS) if list_scope.rooms else shown

        return self._cache.get("shown", list_scope, show)

    def _few(self, list_scope: ListScope, level: Level) -> JoinedArray:
        found = DEFINITIONS[FIND] if level != "L1" else with_categories(self.budget.categories(list_scope)[0])
        parts = [found, DEFINITIONS[CALL], DEFINITIONS[REQUEST]]
        if level == "L3":
            pinned = self.budget.pinned(list_scope)
            listed = (tool for tool in self.budget.to_pin(list_scope) if self.visible.name(list_scope, tool) in pinned)
            parts += [self._catalog.render(list_scope.view, tool) for tool in listed]
        return JoinedArray.of(parts)
