"""Chooses the tools in a caller's list: all, or a few and a search tool (MGP, Context Reduction Model).

A list depends on credential, profile and declared client capabilities only, never on earlier requests. The exception
is a session of the handshake era, whose list also shows the tools that it loaded, and those of its own connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from interlock.config.value_types import Level
from interlock.discovery.budget import TokenBudget, fit
from interlock.discovery.entries import Identity
from interlock.hub.auth.access import Access
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.audiences import has
from interlock.hub.catalog.items import ItemKind, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.definitions import CALL, DEFINITIONS, FIND, REQUEST, TOKENS, with_categories
from interlock.hub.tool_search.instructions import SHARE, Instructions, merged
from interlock.hub.tool_search.list_cache import ListCache
from interlock.hub.tool_search.listed_categories import listed_categories
from interlock.hub.tool_search.room_definitions import ROOM_DEFINITIONS, room_resource
from interlock.hub.tool_search.seen_items import WRAPPING_TOKENS, ListState
from interlock.hub.tool_search.seen_lists import SeenLists
from interlock.hub.tool_search.tokens import TokenCounts, joint
from interlock.hub.tool_search.whole_tokens import WholeTokens, room_tokens
from interlock.protocols.patterns import PatternSet
from interlock.wire.large import JoinedArray

OWN_TOOLS_TOKENS: Final = sum(TOKENS.values()) + sum(map(joint, DEFINITIONS.values())) + 2
"""The tokens of the hub's own tools in a list, and of the list itself."""
ANSWER_TOKENS: Final = 160
"""Pinned tools always leave this much for an answer: enough to say that no tool fits."""


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
        self._own = own
        self._catalog = catalog
        self._tokens = tokens
        self._access = access
        self._deferred = deferred
        """The id of the open decision on a permission that a tool lacks, or an empty text."""
        self._cache = ListCache(catalog, tokens, access)
        self._seen = SeenLists(catalog, access, self._cache)
        self._whole = WholeTokens(catalog, tokens, self._seen)
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
            await self._whole.count_in_turns(list_scope)
        if kind != "tool" or self.level(list_scope) == "L0":
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
        await self._whole.count_in_turns(list_scope)
        await self._seen.reach_in_turns(list_scope)
        self.level(list_scope)
        await asyncio.sleep(0)
        self.instructions(list_scope)
        await asyncio.sleep(0)

    async def prepare_calls(self, list_scope: ListScope) -> None:
        """Find the tools that the principal may call in short turns of the loop."""
        await self._seen.select_called_in_turns(list_scope)
        self.callable(list_scope)
        await asyncio.sleep(0)

    def state(self, list_scope: ListScope, kind: ItemKind) -> ListState:
        """The state of a list, without rendering a whole one."""
        if list_scope.view.profile is not None or (kind == "tool" and self.level(list_scope) != "L0"):
            return ListState(None, self.listing(list_scope, kind))
        return ListState(self._seen.of(list_scope, kind), b",".join(self._own_items(list_scope, kind)))

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
        more = [self._catalog.render(list_scope.view, tool) for tool in self._still_fitting(list_scope, loaded)]
        return listing.extended(more) if more else listing

    def level(self, list_scope: ListScope) -> Level:
        """How much of the catalog the list shows."""
        return self._cache.get("level", list_scope, lambda: self._level(list_scope))

    async def settle(self, list_scope: ListScope) -> None:
        """Wait for counts that could still change the list, up to a limit."""
        if not (self.settled(list_scope) and self.introduced(list_scope)):
            await self._tokens.settled()

    def settled(self, list_scope: ListScope) -> bool:
        """Whether no pending count can change the list."""
        return list_scope.budget is None or self._cache.get("settled", list_scope, lambda: self._settled(list_scope))

    def introduced(self, list_scope: ListScope) -> bool:
        """Whether no pending count can add to the instructions."""
        instructions = self.instructions(list_scope)
        return not instructions.left_out or (self.settled(list_scope) and instructions.counted)

    def name(self, list_scope: ListScope, tool: Tool) -> str:
        """The name of a tool in a list scope."""
        return self._catalog.name(list_scope.view, tool)

    def tool(self, list_scope: ListScope, name: str) -> Tool | None:
        """The tool with this name in a list scope."""
        tool = self._catalog.tool(list_scope.view, name)
        if tool is None or not has(tool, list_scope.audiences):
            return None
        return tool if self._access.seen(list_scope.principal, (tool,)) else None

    def tools(self, list_scope: ListScope) -> list[Tool]:
        """Every tool that the principal sees."""
        return cast(list[Tool], self._seen.of(list_scope, "tool").items)

    def callable(self, list_scope: ListScope) -> frozenset[Identity]:
        """The identities of the tools that the principal may call. A search finds no others."""

        def find() -> frozenset[Identity]:
            seen = self._seen.called(list_scope)
            return frozenset((item.server, item.name) for item in seen.items)

        return self._cache.get("callable", list_scope, find)

    def stamp(self, list_scope: ListScope) -> tuple[int, int, int]:
        """The versions of the catalog, the counts and the rights that a list is made from."""
        return self._cache.stamp(list_scope)

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

    def needed_for_pins(self, list_scope: ListScope) -> int:
        """The smallest budget, or `pinned_reserve` where that is set, that holds every pinned tool."""
        fixed = self._fixed(list_scope) + (ANSWER_TOKENS if list_scope.parts is None else 0)
        return fixed + sum(self.cost(list_scope, tool) for tool in self._to_pin(list_scope))

    def instructions(self, list_scope: ListScope) -> Instructions:
        """The instructions of the servers, as far as they fit into the budget beside the list."""
        return self._cache.get("instructions", list_scope, lambda: self._instructions(list_scope))

    def listed_tokens(self, list_scope: ListScope, tools: int) -> int:
        """All tokens in the context, given those of pinned, loaded and found tools, which a whole list contains."""
        if self.level(list_scope) == "L0":
            tools = self._whole.total(list_scope) + room_tokens(list_scope) - self._fixed(list_scope)
        return self._fixed(list_scope) + self.instructions(list_scope).tokens + tools

    def budget(self, list_scope: ListScope) -> TokenBudget | None:
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

    def _pinned(self, list_scope: ListScope) -> tuple[dict[str, int], tuple[str, ...]]:
        costs = {self.name(list_scope, tool): self.cost(list_scope, tool) for tool in self._to_pin(list_scope)}
        if list_scope.budget is None:
            return costs, ()
        tokens = (list_scope.budget - ANSWER_TOKENS if list_scope.parts is None else list_scope.parts[0]) - self._fixed(
            list_scope
        )
        fitting = fit(list(costs.items()), max(0, tokens))
        return {name: costs[name] for name in fitting.kept}, fitting.left_out

    def _to_pin(self, list_scope: ListScope) -> list[Tool]:
        if not list_scope.pinned or list_scope.level in ("L1", "L2"):
            return []
        patterns = PatternSet(list_scope.pinned)
        return [tool for tool in self.tools(list_scope) if patterns.allows(tool.exposed)]

    def _fixed(self, list_scope: ListScope) -> int:
        """The tokens that every list takes."""
        own = OWN_TOOLS_TOKENS + room_tokens(list_scope)
        return own + (self._categories(list_scope)[1] if list_scope.level == "L1" else 0)

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
            taken = self._whole.total(list_scope) + room_tokens(list_scope) if self._whole.bound(list_scope) else 0
        else:
            reserved = () if list_scope.parts is None else list_scope.parts[1:]
            taken = self._fixed(list_scope) + sum(self.pinned(list_scope).values()) + sum(reserved) + ANSWER_TOKENS
        return max(0, min(list_scope.budget // SHARE, list_scope.budget - taken))

    def _still_fitting(self, list_scope: ListScope, loaded: tuple[str, ...]) -> list[Tool]:
        """The loaded tools that still exist and fit. A definition may have grown since it was loaded."""
        tools = {name: tool for name in loaded if (tool := self.tool(list_scope, name)) is not None}
        if list_scope.budget is None:
            return list(tools.values())
        used = self._fixed(list_scope) + self.instructions(list_scope).tokens + sum(self.pinned(list_scope).values())
        costs = [(name, self.cost(list_scope, tool)) for name, tool in tools.items()]
        fitting = set(fit(costs, max(0, list_scope.budget - used)).kept)
        return [tool for name, tool in tools.items() if name in fitting]

    def _shown(self, list_scope: ListScope) -> tuple[Level, JoinedArray]:
        def show() -> tuple[Level, JoinedArray]:
            level = self.level(list_scope)
            shown = self._seen.whole(list_scope, "tool") if level == "L0" else self._few(list_scope, level)
            return level, shown.extended(ROOM_DEFINITIONS) if list_scope.rooms else shown

        return self._cache.get("shown", list_scope, show)

    def _level(self, list_scope: ListScope) -> Level:
        if not self._whole.bound(list_scope):
            # A caller of one server's own address wants that whole server.
            return "L0" if list_scope.view.bare else list_scope.level or "L0"
        if not list_scope.view.bare and list_scope.level not in (None, "L0"):
            return list_scope.level
        return "L0" if self._whole.fits(list_scope) else "L3"

    def _settled(self, list_scope: ListScope) -> bool:
        if not self._whole.bound(list_scope):
            return True
        by_size = list_scope.view.bare or list_scope.level in (None, "L0")
        if by_size and self._whole.fits(list_scope):
            return True
        undecided = [] if not by_size or self._whole.exceeds(list_scope) else [*self.tools(list_scope)]
        undecided += self._to_pin(list_scope) if self.pinned_over_budget(list_scope) else []
        return self._tokens.counted(self._catalog.render(list_scope.view, tool) for tool in undecided)

    def _few(self, list_scope: ListScope, level: Level) -> JoinedArray:
        found = DEFINITIONS[FIND] if level != "L1" else with_categories(self._categories(list_scope)[0])
        parts = [found, DEFINITIONS[CALL], DEFINITIONS[REQUEST]]
        if level == "L3":
            pinned = self.pinned(list_scope)
            listed = (tool for tool in self._to_pin(list_scope) if self.name(list_scope, tool) in pinned)
            parts += [self._catalog.render(list_scope.view, tool) for tool in listed]
        return JoinedArray.of(parts)

    def _categories(self, list_scope: ListScope) -> tuple[list[str], int]:
        """The categories of the tools, largest first, and an upper bound for the tokens of their names."""

        def find() -> tuple[list[str], int]:
            beyond = None if list_scope.budget is None else list_scope.budget - OWN_TOOLS_TOKENS
            return listed_categories(self.tools(list_scope), beyond)

        return self._cache.get("categories", list_scope, find)
