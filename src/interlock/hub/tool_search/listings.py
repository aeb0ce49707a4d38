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
from interlock.judge.patterns import PatternSet

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

    def listing(self, shelf: ListScope, kind: ItemKind, loaded: tuple[str, ...] = ()) -> bytes:
        """The items of one kind as a JSON array. `loaded` are tools that this session asked for."""
        if kind != "tool":
            return self._keep(kind, shelf, lambda: self._whole(shelf, kind))
        level, listing = self._shown(shelf)
        if level in ("L0", "L1", "L2") or not loaded:
            return listing
        more = [self._catalog.render(shelf.view, tool) for tool in self._still_fitting(shelf, loaded)]
        return listing[:-1] + b"".join(b"," + definition for definition in more) + b"]" if more else listing

    def level(self, shelf: ListScope) -> Level:
        """How much of everything this shelf shows."""
        return self._shown(shelf)[0]

    async def settle(self, shelf: ListScope) -> None:
        """Wait for counts that could still change the list of this shelf, but not for long."""
        if not (self.settled(shelf) and self.introduced(shelf)):
            await self._tokens.settled()

    def settled(self, shelf: ListScope) -> bool:
        """Whether no count that is still to come could change the list of this shelf."""
        return shelf.budget is None or self._keep("settled", shelf, lambda: self._settled(shelf))

    def introduced(self, shelf: ListScope) -> bool:
        """Whether no count that is still to come could give this shelf's instructions more room."""
        told = self.instructions(shelf)
        return not told.left_out or (self.settled(shelf) and told.counted)

    def name(self, shelf: ListScope, tool: Tool) -> str:
        """What a tool is called here."""
        return self._catalog.name(shelf.view, tool)

    def tool(self, shelf: ListScope, name: str) -> Tool | None:
        """The tool that a name means here."""
        tool = self._catalog.tool(shelf.view, name)
        return tool if tool is not None and self._access.seen(shelf.principal, (tool,)) else None

    def tools(self, shelf: ListScope) -> list[Tool]:
        """Every tool that is there for this shelf's principal."""
        return [item for item in self._items(shelf, "tool") if isinstance(item, Tool)]

    def callable(self, shelf: ListScope) -> frozenset[Identity]:
        """The tools that this shelf's principal may call, by identity: no others are found."""

        def find() -> frozenset[Identity]:
            items = self._access.callable(shelf.principal, self._catalog.items(shelf.view, "tool"))
            return frozenset((item.server, item.name) for item in items)

        return self._keep("callable", shelf, find)

    def stamp(self, shelf: ListScope) -> tuple[int, int, int]:
        """What everything that is shown here was made from; another after any change."""
        return (self._catalog.generation, self._tokens.generation, self._access.revision(shelf.principal))

    def askable(self, shelf: ListScope) -> frozenset[Identity]:
        """Tools that this shelf's principal may not call, and may ask for, by identity."""

        def find() -> frozenset[Identity]:
            patterns, seen = PatternSet(shelf.requests), self.callable(shelf)
            known = (item for item in self._catalog.items(shelf.view, "tool") if patterns.allows(item.exposed))
            unseen = (item for item in known if (item.server, item.name) not in seen)
            may = self._access.may_ask_for
            return frozenset((item.server, item.name) for item in unseen if may(shelf.principal, item))

        return self._keep("askable", shelf, find) if shelf.requests else frozenset()

    def withheld(self, shelf: ListScope) -> dict[Identity, tuple[Tool, str]]:
        """Tools that would be there if something about them were decided, with the decision."""
        found: dict[Identity, tuple[Tool, str]] = {}
        for tool, known in self._catalog.waiting(shelf.view):
            decision = known or self._deferred(tool)
            if decision and self._access.seen(shelf.principal, (tool,)):
                found[tool.server, tool.name] = (tool, decision)
        return found

    def cost(self, shelf: ListScope, tool: Tool) -> int:
        """What a tool costs as this shelf shows it, to the clients for whom it costs most."""
        definition = self._catalog.render(shelf.view, tool)
        return self._tokens.of_definition(definition) + (WRAPPING_TOKENS if tool.wraps else 0)

    def pinned(self, shelf: ListScope) -> dict[str, int]:
        """The tools that are always listed, as far as the budget holds them, with what each costs."""
        return self._keep("pinned", shelf, lambda: self._pinned(shelf)[0])

    def pinned_without_room(self, shelf: ListScope) -> tuple[str, ...]:
        """The pinned tools that the budget does not hold."""
        return self._pinned(shelf)[1]

    def needed_for_pins(self, shelf: ListScope) -> int:
        """The least budget, or `pinned_reserve` where that is stated, that holds every pinned tool."""
        beside = self._fixed(shelf) + (ANSWER_TOKENS if shelf.parts is None else 0)
        return beside + sum(self.cost(shelf, tool) for tool in self._to_pin(shelf))

    def instructions(self, shelf: ListScope) -> Instructions:
        """What the servers of this shelf say of themselves, as far as the budget holds it beside the list."""
        return self._keep("instructions", shelf, lambda: self._instructions(shelf))

    def listed_tokens(self, shelf: ListScope, tools: int) -> int:
        """What stands in the context where pinned, loaded and found tools cost so much: a whole list holds them all."""
        if self.level(shelf) == "L0":
            tools = 2 + sum(self.cost(shelf, tool) for tool in self.tools(shelf)) - self._fixed(shelf)
        return self._fixed(shelf) + self.instructions(shelf).tokens + tools

    def budget(self, shelf: ListScope) -> Budget | None:
        """The shelf's budget in its parts; what stands in the context in any case is taken off before."""
        if shelf.budget is None:
            return None
        fixed, instructions = self._fixed(shelf), self.instructions(shelf).tokens
        whole = max(1, shelf.budget - fixed - instructions)
        if shelf.parts is None:
            return Budget.of(whole, min(whole, sum(self.pinned(shelf).values())))
        pinned, found, loaded = shelf.parts
        # Instructions take what no part claims, then what pinned tools leave.
        claimed = max(0, instructions - (shelf.budget - sum(shelf.parts)))
        return Budget(whole, max(0, pinned - fixed - claimed), found, loaded)

    def _pinned(self, shelf: ListScope) -> tuple[dict[str, int], tuple[str, ...]]:
        costs = {self.name(shelf, tool): self.cost(shelf, tool) for tool in self._to_pin(shelf)}
        if shelf.budget is None:
            return costs, ()
        room = (shelf.budget - ANSWER_TOKENS if shelf.parts is None else shelf.parts[0]) - self._fixed(shelf)
        fitting = fit(list(costs.items()), max(0, room))
        return {name: costs[name] for name in fitting.kept}, fitting.left_out

    def _to_pin(self, shelf: ListScope) -> list[Tool]:
        if not shelf.pinned or shelf.level in ("L1", "L2"):
            return []
        patterns = PatternSet(shelf.pinned)
        return [tool for tool in self.tools(shelf) if patterns.allows(tool.exposed)]

    def _fixed(self, shelf: ListScope) -> int:
        """What the list holds in any case."""
        return KERNEL_TOKENS + (self._categories(shelf)[1] if shelf.level == "L1" else 0)

    def _instructions(self, shelf: ListScope) -> Instructions:
        servers = self._catalog.servers(shelf.view)
        offers = ((name, self._catalog.offer(name)) for name in servers if self._access.reaches(shelf.principal, name))
        said = ((name, offer.instructions) for name, offer in offers if offer is not None)
        return merged(said, self._room_for_instructions(shelf), self._tokens, bare=shelf.view.bare)

    def _room_for_instructions(self, shelf: ListScope) -> int | None:
        if shelf.budget is None:
            return None
        if self.level(shelf) == "L0":
            listed = 2 + sum(self.cost(shelf, tool) for tool in self.tools(shelf)) if self._bound(shelf) else 0
        elif shelf.parts is None:
            listed = self._fixed(shelf) + sum(self.pinned(shelf).values())
        else:
            listed = self._fixed(shelf) + sum(self.pinned(shelf).values()) + shelf.parts[1] + shelf.parts[2]
        beside = 0 if self.level(shelf) == "L0" else ANSWER_TOKENS
        return max(0, min(shelf.budget // SHARE, shelf.budget - listed - beside))

    def _still_fitting(self, shelf: ListScope, loaded: tuple[str, ...]) -> list[Tool]:
        """Loaded tools that are there still and have room as they are now: a definition may have grown since."""
        tools = {name: tool for name in loaded if (tool := self.tool(shelf, name)) is not None}
        if shelf.budget is None:
            return list(tools.values())
        taken = self._fixed(shelf) + self.instructions(shelf).tokens + sum(self.pinned(shelf).values())
        costs = [(name, self.cost(shelf, tool)) for name, tool in tools.items()]
        kept = set(fit(costs, max(0, shelf.budget - taken)).kept)
        return [tool for name, tool in tools.items() if name in kept]

    def _shown(self, shelf: ListScope) -> tuple[Level, bytes]:
        def show() -> tuple[Level, bytes]:
            level = self._level(shelf)
            return level, self._whole(shelf, "tool") if level == "L0" else self._few(shelf, level)

        return self._keep("shown", shelf, show)

    def _keep(self, what: str, shelf: ListScope, make: Callable[[], Made]) -> Made:
        """What was made for a shelf, made again when anything it was made from changed or ran out."""
        sight = self._access.sight(shelf.principal)
        # Whoever sees the same shares the same; only whose it is differs.
        key = (what, msgspec.structs.replace(shelf, principal=LOCAL_AGENT), sight)
        stamp = self.stamp(shelf)
        kept = self._kept.get(key)
        if kept is not None and kept.stamp == stamp and (kept.until is None or self._access.now() < kept.until):
            return cast(Made, kept.made)
        made = make()
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = _Kept(stamp, self._access.until(shelf.principal) if sight.agent else None, made)
        return made

    def _whole(self, shelf: ListScope, kind: ItemKind) -> bytes:
        """Everything of one kind. Whoever sees all of it gets the list that is rendered for all."""
        items = self._items(shelf, kind)
        if len(items) == len(self._catalog.items(shelf.view, kind)):
            return self._catalog.listing(shelf.view, kind)
        return b"[" + b",".join(self._catalog.render(shelf.view, item) for item in items) + b"]"

    def _items(self, shelf: ListScope, kind: ItemKind) -> Sequence[Item]:
        return self._access.seen(shelf.principal, self._catalog.items(shelf.view, kind))

    def _level(self, shelf: ListScope) -> Level:
        if not self._bound(shelf):
            # Who asks for one server by its address wants that server.
            return "L0" if shelf.view.bare else shelf.level or "L0"
        if not shelf.view.bare and shelf.level not in (None, "L0"):
            return shelf.level
        return "L0" if self._fits(shelf) else "L3"

    def _bound(self, shelf: ListScope) -> bool:
        """Whether a budget bounds the list: a view of one server alone only by one that was stated for its caller."""
        return shelf.budget is not None and (shelf.stated or not shelf.view.bare)

    def _fits(self, shelf: ListScope) -> bool:
        """Whether the whole list is within the budget, however the counts come out."""
        if self._fits_by_far(shelf):
            return True
        return not self._exceeds(shelf) and 2 + sum(self.cost(shelf, tool) for tool in self.tools(shelf)) <= (
            shelf.budget or 0
        )

    def _fits_by_far(self, shelf: ListScope) -> bool:
        """Whether it would be if each byte were a token, and again a token at either joint: no text is looked at for
        that, however many there are."""
        if shelf.view.profile is not None:
            return False  # which may describe a tool at any length
        return 2 + sum(3 * tool.room + WRAPPING_TOKENS for tool in self.tools(shelf)) <= (shelf.budget or 0)

    def _exceeds(self, shelf: ListScope) -> bool:
        """Whether it is more than the budget, however the counts come out. Looks at no more tools than it must."""
        least = 0
        for tool in self.tools(shelf):
            least += self._tokens.at_least(self._catalog.render(shelf.view, tool))
            if least > (shelf.budget or 0):
                return True
        return False

    def _settled(self, shelf: ListScope) -> bool:
        if not self._bound(shelf):
            return True
        by_size = shelf.view.bare or shelf.level in (None, "L0")
        if by_size and self._fits(shelf):
            return True
        doubtful = [] if not by_size or self._exceeds(shelf) else self.tools(shelf)
        doubtful += self._to_pin(shelf) if self.pinned_without_room(shelf) else []
        return self._tokens.counted(self._catalog.render(shelf.view, tool) for tool in doubtful)

    def _few(self, shelf: ListScope, level: Level) -> bytes:
        found = DEFINITIONS[FIND] if level != "L1" else with_categories(self._categories(shelf)[0])
        parts = [found, DEFINITIONS[CALL], DEFINITIONS[REQUEST]]
        if level == "L3":
            pinned = self.pinned(shelf)
            listed = (tool for tool in self._to_pin(shelf) if self.name(shelf, tool) in pinned)
            parts += [self._catalog.render(shelf.view, tool) for tool in listed]
        return b"[" + b",".join(parts) + b"]"

    def _categories(self, shelf: ListScope) -> tuple[list[str], int]:
        """The categories of what is there, the largest first, and what naming them costs at most."""
        return self._keep("categories", shelf, lambda: self._find_categories(shelf))

    def _find_categories(self, shelf: ListScope) -> tuple[list[str], int]:
        from interlock.discovery import categories

        count: dict[str, int] = {}
        for tool in self.tools(shelf):
            definition = msgspec.json.decode(tool.full, type=dict[str, object])
            said, _ = declared_of(definition)
            for category in categories.of_tool(said, tool.name, str(definition.get("description") or "")):
                count[category] = count.get(category, 0) + 1
        # Servers write categories, and these go into the hub's own description: a name is let in, a sentence is not.
        named = filter(_IS_NAME.fullmatch, sorted(count))
        names = sorted(named, key=lambda name: -count[name])[:MOST_CATEGORIES]
        room = _MOST if shelf.budget is None else (shelf.budget - KERNEL_TOKENS) // CATEGORIES_SHARE
        fitting = fit([(name, len(name.encode()) + 2) for name in names], max(0, room - CATEGORIES_TOKENS))
        return list(fitting.kept), CATEGORIES_TOKENS + fitting.tokens


_MOST: Final = 1_000_000
_IS_NAME: Final = re.compile(r"(?=.{1,40}\Z)\w+(?:-\w+){0,2}(?:/\w+(?:-\w+){0,2}){0,3}")
