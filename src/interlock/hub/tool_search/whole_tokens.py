"""Whether the list of all tools fits into a caller's budget. Counts the tools of each server once."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from interlock.discovery.tokens import at_least
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.items import Item, Tool
from interlock.hub.catalog.views import Catalog, View
from interlock.hub.tool_search.room_definitions import ROOM_TOKENS
from interlock.hub.tool_search.seen_items import WRAPPING_TOKENS, SeenPart
from interlock.hub.tool_search.seen_lists import SeenLists
from interlock.hub.tool_search.tokens import TokenCounts
from interlock.process.turns import in_turns

PARTS_AT_ONCE: Final = 5
TOOLS_AT_ONCE: Final = 20
"""Tools of one server that are counted in one turn of the loop. One takes up to some hundred microseconds."""
PASSES: Final = 3
"""New counts may come during a long pass. A further one is short: it looks only at what had no count before."""


def room_tokens(list_scope: ListScope) -> int:
    """The tokens of the tools for rooms, where the caller has any."""
    return ROOM_TOKENS if list_scope.rooms else 0


class WholeTokens:
    """The tokens of whole lists."""

    def __init__(self, catalog: Catalog, tokens: TokenCounts, seen: SeenLists) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._seen = seen

    async def count_in_turns(self, list_scope: ListScope) -> None:
        """Add up the tokens of each server's tools, as far as they decide, in short turns of the loop."""
        if not self.bound(list_scope) or self._fits_by_far(list_scope):
            return
        for _ in range(PASSES):
            generation = self._tokens.generation
            await self._pass(list_scope)
            if generation == self._tokens.generation:
                return

    async def _pass(self, list_scope: ListScope) -> None:
        parts = self._seen.of(list_scope, "tool").parts.values()
        left = self._for_tools(list_scope)
        async for part in in_turns(parts, PARTS_AT_ONCE):
            while not self._least(list_scope.view, part, left, TOOLS_AT_ONCE):
                await asyncio.sleep(0)
            left -= part.least.tokens
            if left < 0:
                return
        async for part in in_turns(parts, PARTS_AT_ONCE):
            while not self._cost(list_scope.view, part, TOOLS_AT_ONCE):
                await asyncio.sleep(0)

    def bound(self, list_scope: ListScope) -> bool:
        """Whether a budget bounds the list. A view of one server is bound only by a budget set for the caller."""
        return list_scope.budget is not None and (list_scope.stated or not list_scope.view.bare)

    def fits(self, list_scope: ListScope) -> bool:
        """Whether the whole list fits into the budget, whatever the pending counts are."""
        if self._fits_by_far(list_scope):
            return True
        return not self.exceeds(list_scope) and self.total(list_scope) <= self._for_tools(list_scope)

    def total(self, list_scope: ListScope) -> int:
        """The tokens of a list of all tools."""
        parts = self._seen.of(list_scope, "tool").parts.values()
        for part in parts:
            self._cost(list_scope.view, part, len(part.items))
        return 2 + sum(part.cost.tokens for part in parts)

    def _for_tools(self, list_scope: ListScope) -> int:
        """The tokens that a whole list of tools may have."""
        return (list_scope.budget or 0) - room_tokens(list_scope)

    def _fits_by_far(self, list_scope: ListScope) -> bool:
        """Whether the whole list fits even if each byte were a token, with one more at each joint. Reads no text."""
        if list_scope.view.profile is not None:
            return False  # a profile may describe a tool at any length
        return 2 + self._seen.of(list_scope, "tool").most <= self._for_tools(list_scope)

    def exceeds(self, list_scope: ListScope) -> bool:
        """Whether the whole list exceeds the budget, whatever the pending counts are. Stops as early as possible."""
        left = self._for_tools(list_scope)
        for part in self._seen.of(list_scope, "tool").parts.values():
            self._least(list_scope.view, part, left, len(part.items))
            left -= part.least.tokens
            if left < 0:
                return True
        return False

    def _least(self, view: View, part: SeenPart, enough: int, most: int) -> bool:
        measure = _Least(self._catalog, self._tokens, view)
        return part.least.add(part.items, measure, self._tokens.generation, enough, most)

    def _cost(self, view: View, part: SeenPart, most: int) -> bool:
        measure = _Cost(self._catalog, self._tokens, view)
        return part.cost.add(part.items, measure, self._tokens.generation, math.inf, most)


class _Measure:
    """Finds the tokens of tools in one view."""

    def __init__(self, catalog: Catalog, tokens: TokenCounts, view: View) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._view = view
        self._as_in_catalog = not view.bare and view.profile is None

    def counted(self, item: Item) -> bool:
        if self._as_in_catalog:
            return self._tokens.has_counted(item.digest())
        return self._tokens.known(self._catalog.render(self._view, item)) is not None


class _Least(_Measure):
    """Lower bounds."""

    def __call__(self, item: Item) -> tuple[int, bool]:
        text = self._catalog.render(self._view, item)
        count = self._tokens.known(text)
        return (at_least(text), False) if count is None else (count, True)


class _Cost(_Measure):
    """Upper bounds."""

    def __call__(self, item: Item) -> tuple[int, bool]:
        text = self._catalog.render(self._view, item)
        wrapped = WRAPPING_TOKENS if isinstance(item, Tool) and item.wraps else 0
        return self._tokens.of_definition(text) + wrapped, self._tokens.known(text) is not None
