"""How much of the catalog a list shows, so that it stays within the token budget (MGP, Context Reduction Model).

The whole list has first claim. Where it does not fit, the hub's own tools do, then pinned tools, then the instructions
of servers, then tools that a session loaded.
"""

from __future__ import annotations

from typing import Final

from interlock.config.value_types import Level
from interlock.discovery.budget import TokenBudget, fit
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.definitions import DEFINITIONS, TOKENS
from interlock.hub.tool_search.instructions import SHARE, Instructions, merged
from interlock.hub.tool_search.list_cache import ListCache
from interlock.hub.tool_search.listed_categories import listed_categories
from interlock.hub.tool_search.seen_items import WRAPPING_TOKENS
from interlock.hub.tool_search.seen_lists import SeenLists
from interlock.hub.tool_search.tokens import TokenCounts, joint
from interlock.hub.tool_search.visible_tools import VisibleTools
from interlock.hub.tool_search.whole_tokens import WholeTokens, room_tokens
from interlock.protocols.patterns import PatternSet

OWN_TOOLS_TOKENS: Final = sum(TOKENS.values()) + sum(map(joint, DEFINITIONS.values())) + 2
"""The tokens of the hub's own tools in a list, and of the list itself."""
ANSWER_TOKENS: Final = 160
"""Pinned tools always leave this much for an answer: enough to say that no tool fits."""


class ListBudget:
    """The tokens of lists, and what fits into them."""

    def __init__(
        self, catalog: Catalog, tokens: TokenCounts, cache: ListCache, seen: SeenLists, visible: VisibleTools
    ) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._cache = cache
        self._seen = seen
        self._visible = visible
        self.whole = WholeTokens(catalog, tokens, seen)

    def level(self, list_scope: ListScope) -> Level:
        """How much of the catalog the list shows."""
        return self._cache.get("level", list_scope, lambda: self._level(list_scope))

    def _level(self, list_scope: ListScope) -> Level:
        if not self.whole.bound(list_scope):
            # A caller of one server's own address wants that whole server.
            return "L0" if list_scope.view.bare else list_scope.level or "L0"
        if not list_scope.view.bare and list_scope.level not in (None, "L0"):
            return list_scope.level
        return "L0" if self.whole.fits(list_scope) else "L3"

    async def settle(self, list_scope: ListScope) -> None:
        """Wait for counts that could still change the list, up to a limit."""
        if not (self.settled(list_scope) and self.introduced(list_scope)):
            await self._tokens.settled()

    def settled(self, list_scope: ListScope) -> bool:
        """Whether no pending count can change the list."""
        return list_scope.budget is None or self._cache.get("settled", list_scope, lambda: self._settled(list_scope))

    def _settled(self, list_scope: ListScope) -> bool:
        if not self.whole.bound(list_scope):
            return True
        by_size = list_scope.view.bare or list_scope.level in (None, "L0")
        if by_size and self.whole.fits(list_scope):
            return True
        undecided = [] if not by_size or self.whole.exceeds(list_scope) else [*self._visible.tools(list_scope)]
        undecided += self.to_pin(list_scope) if self.pinned_over_budget(list_scope) else []
        return self._tokens.counted(self._catalog.render(list_scope.view, tool) for tool in undecided)

    def introduced(self, list_scope: ListScope) -> bool:
        """Whether no pending count can add to the instructions."""
        instructions = self.instructions(list_scope)
        return not instructions.left_out or (self.settled(list_scope) and instructions.counted)

    def cost(self, list_scope: ListScope, tool: Tool) -> int:
        """The tokens of a tool in this list scope, for the clients for which it costs most."""
        definition = self._catalog.render(list_scope.view, tool)
        return self._tokens.of_definition(definition) + (WRAPPING_TOKENS if tool.wraps else 0)

    def pinned(self, list_scope: ListScope) -> dict[str, int]:
        """The pinned tools that fit into the budget, with the tokens of each."""
        return self._cache.get("pinned", list_scope, lambda: self._pinned(list_scope)[0])

    def pinned_over_budget(self, list_scope: ListScope) -> tuple[str, ...]:
        """The pinned tools that exceed the budget."""
        return self._pinned(list_scope)[1]

    def _pinned(self, list_scope: ListScope) -> tuple[dict[str, int], tuple[str, ...]]:
        costs = {self._visible.name(list_scope, tool): self.cost(list_scope, tool) for tool in self.to_pin(list_scope)}
        if list_scope.budget is None:
            return costs, ()
        reserved = list_scope.budget - ANSWER_TOKENS if list_scope.parts is None else list_scope.parts[0]
        fitting = fit(list(costs.items()), max(0, reserved - self._fixed(list_scope)))
        return {name: costs[name] for name in fitting.kept}, fitting.left_out

    def needed_for_pins(self, list_scope: ListScope) -> int:
        """The smallest budget, or `pinned_reserve` where that is set, that holds every pinned tool."""
        fixed = self._fixed(list_scope) + (ANSWER_TOKENS if list_scope.parts is None else 0)
        return fixed + sum(self.cost(list_scope, tool) for tool in self.to_pin(list_scope))

    def instructions(self, list_scope: ListScope) -> Instructions:
        """The instructions of the servers, as far as they fit into the budget beside the list."""
        return self._cache.get("instructions", list_scope, lambda: self._instructions(list_scope))

    def _instructions(self, list_scope: ListScope) -> Instructions:
        reached = self._seen.reached(list_scope)
        servers = [name for name in self._catalog.servers(list_scope.view) if name in reached]
        offers = ((name, self._catalog.offer(name)) for name in servers)
        texts = ((name, offer.instructions) for name, offer in offers if offer is not None)
        return merged(texts, self._tokens_for_instructions(list_scope), self._tokens, bare=list_scope.view.bare)

    def _tokens_for_instructions(self, list_scope: ListScope) -> int | None:
        if list_scope.budget is None:
            return None
        if self.level(list_scope) == "L0":
            taken = self.whole.total(list_scope) + room_tokens(list_scope) if self.whole.bound(list_scope) else 0
        else:
            reserved = () if list_scope.parts is None else list_scope.parts[1:]
            taken = self._fixed(list_scope) + sum(self.pinned(list_scope).values()) + sum(reserved) + ANSWER_TOKENS
        return max(0, min(list_scope.budget // SHARE, list_scope.budget - taken))

    def listed_tokens(self, list_scope: ListScope, tools: int) -> int:
        """All tokens in the context, given those of pinned, loaded and found tools, which a whole list contains."""
        if self.level(list_scope) == "L0":
            tools = self.whole.total(list_scope) + room_tokens(list_scope) - self._fixed(list_scope)
        return self._fixed(list_scope) + self.instructions(list_scope).tokens + tools

    def left(self, list_scope: ListScope) -> TokenBudget | None:
        """The budget in its parts, less the tokens that are in the context in any case."""
        if list_scope.budget is None:
            return None
        fixed, instructions = self._fixed(list_scope), self.instructions(list_scope).tokens
        whole = max(1, list_scope.budget - fixed - instructions)
        if list_scope.parts is None:
            return TokenBudget.of(whole, min(whole, sum(self.pinned(list_scope).values())))
        pinned, found, loaded = list_scope.parts
        # Instructions use tokens that belong to no part, then those that pinned tools leave.
        claimed = max(0, instructions - (list_scope.budget - sum(list_scope.parts)))
        return TokenBudget(whole, max(0, pinned - fixed - claimed), found, loaded)

    def still_fitting(self, list_scope: ListScope, loaded: tuple[str, ...]) -> list[Tool]:
        """The loaded tools that still exist and fit. A definition may have grown since it was loaded."""
        tools = {name: tool for name in loaded if (tool := self._visible.tool(list_scope, name)) is not None}
        if list_scope.budget is None:
            return list(tools.values())
        used = self._fixed(list_scope) + self.instructions(list_scope).tokens + sum(self.pinned(list_scope).values())
        costs = [(name, self.cost(list_scope, tool)) for name, tool in tools.items()]
        fitting = set(fit(costs, max(0, list_scope.budget - used)).kept)
        return [tool for name, tool in tools.items() if name in fitting]

    def to_pin(self, list_scope: ListScope) -> list[Tool]:
        """The tools that the operator pinned for the caller, whether they fit or not."""
        if not list_scope.pinned or list_scope.level in ("L1", "L2"):
            return []
        patterns = PatternSet(list_scope.pinned)
        return [tool for tool in self._visible.tools(list_scope) if patterns.allows(tool.exposed)]

    def _fixed(self, list_scope: ListScope) -> int:
        """The tokens that every list takes."""
        own = OWN_TOOLS_TOKENS + room_tokens(list_scope)
        return own + (self.categories(list_scope)[1] if list_scope.level == "L1" else 0)

    def categories(self, list_scope: ListScope) -> tuple[list[str], int]:
        """The categories of the tools, largest first, and an upper bound for the tokens of their names."""

        def find() -> tuple[list[str], int]:
            beyond = None if list_scope.budget is None else list_scope.budget - OWN_TOOLS_TOKENS
            return listed_categories(self._visible.tools(list_scope), beyond)

        return self._cache.get("categories", list_scope, find)
