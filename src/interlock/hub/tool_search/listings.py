"""Which tools stand in a caller's list: all, or a few and the way to find the rest (MGP, Context Reduction Model).

A list depends on credential and profile alone, never on earlier requests; save, in the handshake era, on what the
session itself loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar, cast

import msgspec

from interlock.config.settings import Level
from interlock.discovery.budget import Budget, fit
from interlock.hub.auth.access import Access, Sight
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import LOCAL_AGENT
from interlock.hub.catalog.offer import Item, ItemKind, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.declared_categories import declared_of
from interlock.hub.tool_search.definitions import CALL, DEFINITIONS, FIND, REQUEST, TOKENS, with_categories
from interlock.hub.tool_search.instructions import SHARE, Instructions, merged
from interlock.hub.tool_search.tokens import TokenCounts, joint
from interlock.protocols.patterns import PatternSet

MOST_CATEGORIES: Final = 60
KERNEL_TOKENS: Final = sum(TOKENS.values()) + sum(map(joint, DEFINITIONS.values())) + 2
"""What the kernel's own definitions cost in a list, and the list itself."""
WRAPPING_TOKENS: Final = 20
"""What the object around a result that is none costs: clients before 2026-07-28 are promised one."""
CATEGORIES_TOKENS: Final = 8
"""What the word before the categories costs; each name costs less than its letters."""
CATEGORIES_SHARE: Final = 4
"""One of so many parts of what the kernel leaves of a budget is the most that categories take."""
ANSWER_TOKENS: Final = 160
"""What is left for an answer however many tools are pinned: enough to say that it has no room for any."""
MOST_KEPT: Final = 10_000

Made = TypeVar("Made")
Identity = tuple[str, str]
"""A tool's server and its own name there."""


class _Kept(msgspec.Struct, frozen=True):
    """Something made from the catalog for a shelf, and what it was made from."""

    stamp: tuple[int, int, int]
    until: datetime | None
    made: object


class ToolListings:
    """Renders lists. The same shelf gives the same bytes until something changes."""

    def __init__(
        self,
        catalog: Catalog,
        tokens: TokenCounts,
        access: Access,
        deferred: Callable[[Tool], str] = lambda tool: "",
    ) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._access = access
        self._deferred = deferred
        """The open decision on a permission that a tool lacks; empty where nothing is open."""
        self._kept: dict[tuple[str, ListScope, Sight], _Kept] = {}

    def listing(self, list_scope: ListScope, kind: ItemKind, loaded: tuple[str, ...] = ()) -> bytes:
        """The items of one kind as a JSON array. `loaded` are tools that this session asked for."""
        if kind != "tool":
            return self._keep(kind, list_scope, lambda: self._whole(list_scope, kind))
        level, listing = self._shown(list_scope)
        if level in ("L0", "L1", "L2") or not loaded:
            return listing
        more = [self._catalog.render(list_scope.view, tool) for tool in self._still_fitting(list_scope, loaded)]
        return listing[:-1] + b"".join(b"," + definition for definition in more) + b"]" if more else listing

    def level(self, list_scope: ListScope) -> Level:
        """How much of everything this shelf shows."""
        return self._shown(list_scope)[0]

    async def settle(self, list_scope: ListScope) -> None:
        """Wait for counts that could still change the list of this shelf, but not for long."""
        if not (self.settled(list_scope) and self.introduced(list_scope)):
            await self._tokens.settled()

    def settled(self, list_scope: ListScope) -> bool:
        """Whether no count that is still to come could change the list of this shelf."""
        return list_scope.budget is None or self._keep("settled", list_scope, lambda: self._settled(list_scope))

    def introduced(self, list_scope: ListScope) -> bool:
        """Whether no count that is still to come could give this shelf's instructions more room."""
        told = self.instructions(list_scope)
        return not told.left_out or (self.settled(list_scope) and told.counted)

    def name(self, list_scope: ListScope, tool: Tool) -> str:
        """What a tool is called here."""
        return self._catalog.name(list_scope.view, tool)

    def tool(self, list_scope: ListScope, name: str) -> Tool | None:
        """The tool that a name means here."""
        tool = self._catalog.tool(list_scope.view, name)
        return tool if tool is not None and self._access.seen(list_scope.principal, (tool,)) else None

    def tools(self, list_scope: ListScope) -> list[Tool]:
        """Every tool that is there for this shelf's principal."""
        return [item for item in self._items(list_scope, "tool") if isinstance(item, Tool)]

    def callable(self, list_scope: ListScope) -> frozenset[Identity]:
        """The tools that this shelf's principal may call, by identity: no others are found."""

        def find() -> frozenset[Identity]:
            items = self._access.callable(list_scope.principal, self._catalog.items(list_scope.view, "tool"))
            return frozenset((item.server, item.name) for item in items)

        return self._keep("callable", list_scope, find)

    def stamp(self, list_scope: ListScope) -> tuple[int, int, int]:
        """What everything that is shown here was made from; another after any change."""
        return (self._catalog.generation, self._tokens.generation, self._access.revision(list_scope.principal))

    def askable(self, list_scope: ListScope) -> frozenset[Identity]:
        """Tools that this shelf's principal may not call, and may ask for, by identity."""

        def find() -> frozenset[Identity]:
            patterns, seen = PatternSet(list_scope.requests), self.callable(list_scope)
            known = (item for item in self._catalog.items(list_scope.view, "tool") if patterns.allows(item.exposed))
            unseen = (item for item in known if (item.server, item.name) not in seen)
            may = self._access.may_ask_for
            return frozenset((item.server, item.name) for item in unseen if may(list_scope.principal, item))

        return self._keep("askable", list_scope, find) if list_scope.requests else frozenset()

    def withheld(self, list_scope: ListScope) -> dict[Identity, tuple[Tool, str]]:
        """Tools that would be there if something about them were decided, with the decision."""
        found: dict[Identity, tuple[Tool, str]] = {}
        for tool, known in self._catalog.waiting(list_scope.view):
            decision = known or self._deferred(tool)
            if decision and self._access.seen(list_scope.principal, (tool,)):
                found[tool.server, tool.name] = (tool, decision)
        return found

    def cost(self, list_scope: ListScope, tool: Tool) -> int:
        """What a tool costs as this shelf shows it, to the clients for whom it costs most."""
        definition = self._catalog.render(list_scope.view, tool)
        return self._tokens.of_definition(definition) + (WRAPPING_TOKENS if tool.wraps else 0)

    def pinned(self, list_scope: ListScope) -> dict[str, int]:
        """The tools that are always listed, as far as the budget holds them, with what each costs."""
        return self._keep("pinned", list_scope, lambda: self._pinned(list_scope)[0])

    def pinned_over_budget(self, list_scope: ListScope) -> tuple[str, ...]:
        """The pinned tools that the budget does not hold."""
        return self._pinned(list_scope)[1]

    def needed_for_pins(self, list_scope: ListScope) -> int:
        """The least budget, or `pinned_reserve` where that is stated, that holds every pinned tool."""
        beside = self._fixed(list_scope) + (ANSWER_TOKENS if list_scope.parts is None else 0)
        return beside + sum(self.cost(list_scope, tool) for tool in self._to_pin(list_scope))

    def instructions(self, list_scope: ListScope) -> Instructions:
        """What the servers of this shelf say of themselves, as far as the budget holds it beside the list."""
        return self._keep("instructions", list_scope, lambda: self._instructions(list_scope))

    def listed_tokens(self, list_scope: ListScope, tools: int) -> int:
        """What stands in the context where pinned, loaded and found tools cost so much: a whole list holds them all."""
        if self.level(list_scope) == "L0":
            tools = 2 + sum(self.cost(list_scope, tool) for tool in self.tools(list_scope)) - self._fixed(list_scope)
        return self._fixed(list_scope) + self.instructions(list_scope).tokens + tools

    def budget(self, list_scope: ListScope) -> Budget | None:
        """The shelf's budget in its parts; what stands in the context in any case is taken off before."""
        if list_scope.budget is None:
            return None
        fixed, instructions = self._fixed(list_scope), self.instructions(list_scope).tokens
        whole = max(1, list_scope.budget - fixed - instructions)
        if list_scope.parts is None:
            return Budget.of(whole, min(whole, sum(self.pinned(list_scope).values())))
        pinned, found, loaded = list_scope.parts
        # Instructions take what no part claims, then what pinned tools leave.
        claimed = max(0, instructions - (list_scope.budget - sum(list_scope.parts)))
        return Budget(whole, max(0, pinned - fixed - claimed), found, loaded)

    def _pinned(self, list_scope: ListScope) -> tuple[dict[str, int], tuple[str, ...]]:
        costs = {self.name(list_scope, tool): self.cost(list_scope, tool) for tool in self._to_pin(list_scope)}
        if list_scope.budget is None:
            return costs, ()
        room = (list_scope.budget - ANSWER_TOKENS if list_scope.parts is None else list_scope.parts[0]) - self._fixed(
            list_scope
        )
        fitting = fit(list(costs.items()), max(0, room))
        return {name: costs[name] for name in fitting.kept}, fitting.left_out

    def _to_pin(self, list_scope: ListScope) -> list[Tool]:
        if not list_scope.pinned or list_scope.level in ("L1", "L2"):
            return []
        patterns = PatternSet(list_scope.pinned)
        return [tool for tool in self.tools(list_scope) if patterns.allows(tool.exposed)]

    def _fixed(self, list_scope: ListScope) -> int:
        """What the list holds in any case."""
        return KERNEL_TOKENS + (self._categories(list_scope)[1] if list_scope.level == "L1" else 0)

    def _instructions(self, list_scope: ListScope) -> Instructions:
        servers = self._catalog.servers(list_scope.view)
        offers = (
            (name, self._catalog.offer(name)) for name in servers if self._access.reaches(list_scope.principal, name)
        )
        said = ((name, offer.instructions) for name, offer in offers if offer is not None)
        return merged(said, self._room_for_instructions(list_scope), self._tokens, bare=list_scope.view.bare)

    def _room_for_instructions(self, list_scope: ListScope) -> int | None:
        if list_scope.budget is None:
            return None
        if self.level(list_scope) == "L0":
            listed = (
                2 + sum(self.cost(list_scope, tool) for tool in self.tools(list_scope))
                if self._bound(list_scope)
                else 0
            )
        elif list_scope.parts is None:
            listed = self._fixed(list_scope) + sum(self.pinned(list_scope).values())
        else:
            listed = (
                self._fixed(list_scope)
                + sum(self.pinned(list_scope).values())
                + list_scope.parts[1]
                + list_scope.parts[2]
            )
        beside = 0 if self.level(list_scope) == "L0" else ANSWER_TOKENS
        return max(0, min(list_scope.budget // SHARE, list_scope.budget - listed - beside))

    def _still_fitting(self, list_scope: ListScope, loaded: tuple[str, ...]) -> list[Tool]:
        """Loaded tools that are there still and have room as they are now: a definition may have grown since."""
        tools = {name: tool for name in loaded if (tool := self.tool(list_scope, name)) is not None}
        if list_scope.budget is None:
            return list(tools.values())
        taken = self._fixed(list_scope) + self.instructions(list_scope).tokens + sum(self.pinned(list_scope).values())
        costs = [(name, self.cost(list_scope, tool)) for name, tool in tools.items()]
        kept = set(fit(costs, max(0, list_scope.budget - taken)).kept)
        return [tool for name, tool in tools.items() if name in kept]

    def _shown(self, list_scope: ListScope) -> tuple[Level, bytes]:
        def show() -> tuple[Level, bytes]:
            level = self._level(list_scope)
            return level, self._whole(list_scope, "tool") if level == "L0" else self._few(list_scope, level)

        return self._keep("shown", list_scope, show)

    def _keep(self, what: str, list_scope: ListScope, make: Callable[[], Made]) -> Made:
        """What was made for a shelf, made again when anything it was made from changed or ran out."""
        sight = self._access.sight(list_scope.principal)
        # Whoever sees the same shares the same; only whose it is differs.
        key = (what, msgspec.structs.replace(list_scope, principal=LOCAL_AGENT), sight)
        stamp = self.stamp(list_scope)
        kept = self._kept.get(key)
        if kept is not None and kept.stamp == stamp and (kept.until is None or self._access.now() < kept.until):
            return cast(Made, kept.made)
        made = make()
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = _Kept(stamp, self._access.until(list_scope.principal) if sight.agent else None, made)
        return made

    def _whole(self, list_scope: ListScope, kind: ItemKind) -> bytes:
        """Everything of one kind. Whoever sees all of it gets the list that is rendered for all."""
        items = self._items(list_scope, kind)
        if len(items) == len(self._catalog.items(list_scope.view, kind)):
            return self._catalog.listing(list_scope.view, kind)
        return b"[" + b",".join(self._catalog.render(list_scope.view, item) for item in items) + b"]"

    def _items(self, list_scope: ListScope, kind: ItemKind) -> Sequence[Item]:
        return self._access.seen(list_scope.principal, self._catalog.items(list_scope.view, kind))

    def _level(self, list_scope: ListScope) -> Level:
        if not self._bound(list_scope):
            # Who asks for one server by its address wants that server.
            return "L0" if list_scope.view.bare else list_scope.level or "L0"
        if not list_scope.view.bare and list_scope.level not in (None, "L0"):
            return list_scope.level
        return "L0" if self._fits(list_scope) else "L3"

    def _bound(self, list_scope: ListScope) -> bool:
        """Whether a budget bounds the list: a view of one server alone only by one that was stated for its caller."""
        return list_scope.budget is not None and (list_scope.stated or not list_scope.view.bare)

    def _fits(self, list_scope: ListScope) -> bool:
        """Whether the whole list is within the budget, however the counts come out."""
        if self._fits_by_far(list_scope):
            return True
        return not self._exceeds(list_scope) and 2 + sum(
            self.cost(list_scope, tool) for tool in self.tools(list_scope)
        ) <= (list_scope.budget or 0)

    def _fits_by_far(self, list_scope: ListScope) -> bool:
        """Whether it would be if each byte were a token, and again a token at either joint: no text is looked at for
        that, however many there are."""
        if list_scope.view.profile is not None:
            return False  # which may describe a tool at any length
        return 2 + sum(3 * tool.max_bytes + WRAPPING_TOKENS for tool in self.tools(list_scope)) <= (
            list_scope.budget or 0
        )

    def _exceeds(self, list_scope: ListScope) -> bool:
        """Whether it is more than the budget, however the counts come out. Looks at no more tools than it must."""
        least = 0
        for tool in self.tools(list_scope):
            least += self._tokens.at_least(self._catalog.render(list_scope.view, tool))
            if least > (list_scope.budget or 0):
                return True
        return False

    def _settled(self, list_scope: ListScope) -> bool:
        if not self._bound(list_scope):
            return True
        by_size = list_scope.view.bare or list_scope.level in (None, "L0")
        if by_size and self._fits(list_scope):
            return True
        doubtful = [] if not by_size or self._exceeds(list_scope) else self.tools(list_scope)
        doubtful += self._to_pin(list_scope) if self.pinned_over_budget(list_scope) else []
        return self._tokens.counted(self._catalog.render(list_scope.view, tool) for tool in doubtful)

    def _few(self, list_scope: ListScope, level: Level) -> bytes:
        found = DEFINITIONS[FIND] if level != "L1" else with_categories(self._categories(list_scope)[0])
        parts = [found, DEFINITIONS[CALL], DEFINITIONS[REQUEST]]
        if level == "L3":
            pinned = self.pinned(list_scope)
            listed = (tool for tool in self._to_pin(list_scope) if self.name(list_scope, tool) in pinned)
            parts += [self._catalog.render(list_scope.view, tool) for tool in listed]
        return b"[" + b",".join(parts) + b"]"

    def _categories(self, list_scope: ListScope) -> tuple[list[str], int]:
        """The categories of what is there, the largest first, and what naming them costs at most."""
        return self._keep("categories", list_scope, lambda: self._find_categories(list_scope))

    def _find_categories(self, list_scope: ListScope) -> tuple[list[str], int]:
        from interlock.discovery import categories

        count: dict[str, int] = {}
        for tool in self.tools(list_scope):
            definition = msgspec.json.decode(tool.full, type=dict[str, object])
            said, _ = declared_of(definition)
            for category in categories.of_tool(said, tool.name, str(definition.get("description") or "")):
                count[category] = count.get(category, 0) + 1
        # Servers write categories, and these go into the hub's own description: a name is let in, a sentence is not.
        named = filter(_IS_NAME.fullmatch, sorted(count))
        names = sorted(named, key=lambda name: -count[name])[:MOST_CATEGORIES]
        room = _MOST if list_scope.budget is None else (list_scope.budget - KERNEL_TOKENS) // CATEGORIES_SHARE
        fitting = fit([(name, len(name.encode()) + 2) for name in names], max(0, room - CATEGORIES_TOKENS))
        return list(fitting.kept), CATEGORIES_TOKENS + fitting.tokens


_MOST: Final = 1_000_000
_IS_NAME: Final = re.compile(r"(?=.{1,40}\Z)\w+(?:-\w+){0,2}(?:/\w+(?:-\w+){0,2}){0,3}")
