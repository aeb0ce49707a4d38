"""Which tools stand in a caller's list: all, or a few and the way to find the rest (MGP, Context Reduction Model).

A list depends on credential and profile alone, never on earlier requests; save, in the handshake era, on what the
session itself loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar, cast

import msgspec

from interlock.config.settings import Level
from interlock.discovery.budget import Budget, fit
from interlock.hub.access.access import Access, Sight
from interlock.hub.catalog.offer import Item, ItemKind, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.kernel.declared import declared_of
from interlock.hub.kernel.definitions import CALL, DEFINITIONS, FIND, REQUEST, TOKENS, with_categories
from interlock.hub.kernel.shelf import Shelf
from interlock.hub.kernel.tokens import TokenCounts
from interlock.hub.principals import LOCAL_AGENT
from interlock.judge.patterns import PatternSet

MOST_CATEGORIES: Final = 60
KERNEL_TOKENS: Final = sum(TOKENS.values()) + len(TOKENS)
"""What the kernel's own definitions cost in a list."""
WRAPPING_TOKENS: Final = 20
"""What the object around a result that is none costs: clients before 2026-07-28 are promised one."""
CATEGORIES_TOKENS: Final = 8
"""What the word before the categories costs; each name costs less than its letters."""
MOST_KEPT: Final = 10_000

Made = TypeVar("Made")
Identity = tuple[str, str]
"""A tool's server and its own name there."""


class _Kept(msgspec.Struct, frozen=True):
    """Something made from the catalog for a shelf, and what it was made from."""

    stamp: tuple[int, int, int]
    until: datetime | None
    made: object


class Shelves:
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
        self._kept: dict[tuple[str, Shelf, Sight], _Kept] = {}

    def listing(self, shelf: Shelf, kind: ItemKind, loaded: tuple[str, ...] = ()) -> bytes:
        """The items of one kind as a JSON array. `loaded` are tools that this session asked for."""
        if kind != "tool":
            return self._keep(kind, shelf, lambda: self._whole(shelf, kind))
        level, listing = self._shown(shelf)
        if level in ("L0", "L1", "L2") or not loaded:
            return listing
        more = [self._catalog.render(shelf.view, tool) for tool in self._still_fitting(shelf, loaded)]
        return listing[:-1] + b"".join(b"," + definition for definition in more) + b"]" if more else listing

    def level(self, shelf: Shelf) -> Level:
        """How much of everything this shelf shows."""
        return self._shown(shelf)[0]

    def tool(self, shelf: Shelf, name: str) -> Tool | None:
        """The tool that a name means here."""
        tool = self._catalog.tool(shelf.view, name)
        return tool if tool is not None and self._access.seen(shelf.principal, (tool,)) else None

    def tools(self, shelf: Shelf) -> list[Tool]:
        """Every tool that is there for this shelf's principal."""
        return [item for item in self._items(shelf, "tool") if isinstance(item, Tool)]

    def seen(self, shelf: Shelf) -> frozenset[Identity]:
        """The same by identity."""
        return self._keep("seen", shelf, lambda: frozenset((tool.server, tool.name) for tool in self.tools(shelf)))

    def tokens(self, shelf: Shelf) -> int:
        """What all tools of the view would cost."""
        return sum(self.cost(shelf, tool) for tool in self.tools(shelf))

    def askable(self, shelf: Shelf) -> frozenset[Identity]:
        """Tools that this shelf's principal may not call, and may ask for, by identity."""

        def find() -> frozenset[Identity]:
            patterns, seen = PatternSet(shelf.requests), self.seen(shelf)
            known = (item for item in self._catalog.items(shelf.view, "tool") if patterns.allows(item.exposed))
            unseen = (item for item in known if (item.server, item.name) not in seen)
            may = self._access.may_ask_for
            return frozenset((item.server, item.name) for item in unseen if may(shelf.principal, item))

        return self._keep("askable", shelf, find) if shelf.requests else frozenset()

    def withheld(self, shelf: Shelf) -> dict[Identity, tuple[Tool, str]]:
        """Tools that would be there if something about them were decided, with the decision."""
        found: dict[Identity, tuple[Tool, str]] = {}
        for tool, known in self._catalog.waiting(shelf.view):
            decision = known or self._deferred(tool)
            if decision and self._access.seen(shelf.principal, (tool,)):
                found[tool.server, tool.name] = (tool, decision)
        return found

    def cost(self, shelf: Shelf, tool: Tool) -> int:
        """What a tool costs as this shelf shows it, to the clients for whom it costs most."""
        return self._tokens.of_text(self._catalog.render(shelf.view, tool)) + (WRAPPING_TOKENS if tool.wraps else 0)

    def pinned(self, shelf: Shelf) -> dict[str, int]:
        """The tools that are always listed, as far as the budget holds them, with what each costs."""
        return self._keep("pinned", shelf, lambda: self._pinned(shelf)[0])

    def pinned_without_room(self, shelf: Shelf) -> tuple[str, ...]:
        """The pinned tools that the budget does not hold."""
        return self._pinned(shelf)[1]

    def budget(self, shelf: Shelf) -> Budget | None:
        """The shelf's budget in its parts; what the kernel's own tools cost is taken off before."""
        if shelf.budget is None:
            return None
        whole = max(1, shelf.budget - KERNEL_TOKENS)
        if shelf.parts is None:
            return Budget.of(whole, sum(self.pinned(shelf).values()))
        pinned, found, loaded = shelf.parts
        return Budget(whole, pinned - KERNEL_TOKENS, found, loaded)

    def _pinned(self, shelf: Shelf) -> tuple[dict[str, int], tuple[str, ...]]:
        if not shelf.pinned:
            return {}, ()
        patterns = PatternSet(shelf.pinned)
        costs = {tool.exposed: self.cost(shelf, tool) for tool in self.tools(shelf) if patterns.allows(tool.exposed)}
        if shelf.budget is None:
            return costs, ()
        room = (shelf.budget if shelf.parts is None else shelf.parts[0]) - KERNEL_TOKENS
        fitting = fit(list(costs.items()), max(0, room))
        return {name: costs[name] for name in fitting.kept}, fitting.left_out

    def _still_fitting(self, shelf: Shelf, loaded: tuple[str, ...]) -> list[Tool]:
        """Loaded tools that are there still and have room as they are now: a definition may have grown since."""
        tools = {name: tool for name in loaded if (tool := self.tool(shelf, name)) is not None}
        if shelf.budget is None:
            return list(tools.values())
        room = shelf.budget - KERNEL_TOKENS - sum(self.pinned(shelf).values())
        # The most recently used stand last, and have the first claim.
        kept = set(fit([(name, self.cost(shelf, tools[name])) for name in reversed(tools)], max(0, room)).kept)
        return [tool for name, tool in tools.items() if name in kept]

    def _shown(self, shelf: Shelf) -> tuple[Level, bytes]:
        def show() -> tuple[Level, bytes]:
            level = self._level(shelf)
            return level, self._whole(shelf, "tool") if level == "L0" else self._few(shelf, level)

        return self._keep("shown", shelf, show)

    def _keep(self, what: str, shelf: Shelf, make: Callable[[], Made]) -> Made:
        """What was made for a shelf, made again when anything it was made from changed or ran out."""
        sight = self._access.sight(shelf.principal)
        # Whoever sees the same shares the same; only whose it is differs.
        key = (what, msgspec.structs.replace(shelf, principal=LOCAL_AGENT), sight)
        stamp = (self._catalog.generation, self._tokens.generation, self._access.revision(shelf.principal))
        kept = self._kept.get(key)
        if kept is not None and kept.stamp == stamp and (kept.until is None or self._access.now() < kept.until):
            return cast(Made, kept.made)
        made = make()
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = _Kept(stamp, self._access.until(shelf.principal) if sight.agent else None, made)
        return made

    def _whole(self, shelf: Shelf, kind: ItemKind) -> bytes:
        """Everything of one kind. Whoever sees all of it gets the list that is rendered for all."""
        items = self._items(shelf, kind)
        if len(items) == len(self._catalog.items(shelf.view, kind)):
            return self._catalog.listing(shelf.view, kind)
        return b"[" + b",".join(self._catalog.render(shelf.view, item) for item in items) + b"]"

    def _items(self, shelf: Shelf, kind: ItemKind) -> Sequence[Item]:
        return self._access.seen(shelf.principal, self._catalog.items(shelf.view, kind))

    def _level(self, shelf: Shelf) -> Level:
        # Who asks for one server by its address wants that server.
        if shelf.view.bare or (shelf.level is None and shelf.budget is None):
            return "L0"
        if shelf.level is not None and (shelf.level != "L0" or shelf.budget is None):
            return shelf.level
        return "L3" if self.tokens(shelf) > (shelf.budget or 0) else "L0"

    def _few(self, shelf: Shelf, level: Level) -> bytes:
        found = DEFINITIONS[FIND] if level != "L1" else with_categories(self._categories(shelf))
        parts = [found, DEFINITIONS[CALL], DEFINITIONS[REQUEST]]
        if level == "L3":
            pinned = self.pinned(shelf)
            parts += [self._catalog.render(shelf.view, tool) for tool in self.tools(shelf) if tool.exposed in pinned]
        return b"[" + b",".join(parts) + b"]"

    def _categories(self, shelf: Shelf) -> list[str]:
        from interlock.discovery import categories

        count: dict[str, int] = {}
        for tool in self.tools(shelf):
            definition = msgspec.json.decode(tool.full, type=dict[str, object])
            said, _ = declared_of(definition)
            for category in categories.of_tool(said, tool.name, str(definition.get("description") or "")):
                count[category] = count.get(category, 0) + 1
        names = sorted(sorted(count), key=lambda name: -count[name])[:MOST_CATEGORIES]
        if shelf.budget is None:
            return names
        return list(fit([(name, len(name)) for name in names], shelf.budget - KERNEL_TOKENS - CATEGORIES_TOKENS).kept)
