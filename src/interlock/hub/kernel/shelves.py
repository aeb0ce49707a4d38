"""Which tools stand in a caller's list: all, or a few and the way to find the rest (MGP, Context Reduction Model).

A list depends on credential and profile alone, never on earlier requests; save, in the handshake era, on what the
session itself loaded.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.config.settings import Level
from interlock.discovery.budget import Budget, fit
from interlock.hub.catalog.offer import ItemKind, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.kernel.definitions import CALL, DEFINITIONS, FIND, REQUEST, with_categories
from interlock.hub.kernel.shelf import Shelf
from interlock.hub.kernel.tokens import TokenCounts
from interlock.judge.patterns import PatternSet

MOST_CATEGORIES: Final = 60


class Shelves:
    """Renders lists. The same shelf gives the same bytes until something changes."""

    def __init__(self, catalog: Catalog, tokens: TokenCounts) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._tools: dict[Shelf, tuple[tuple[int, int], Level, bytes]] = {}

    def listing(self, shelf: Shelf, kind: ItemKind, loaded: tuple[str, ...] = ()) -> bytes:
        """The items of one kind as a JSON array. `loaded` are tools that this session asked for."""
        if kind != "tool":
            return self._catalog.listing(shelf.view, kind)
        level, listing = self._shown(shelf)
        if level in ("L0", "L1", "L2") or not loaded:
            return listing
        more = [self._catalog.render(shelf.view, tool) for name in loaded if (tool := self.tool(shelf, name))]
        return listing[:-1] + b"".join(b"," + definition for definition in more) + b"]" if more else listing

    def level(self, shelf: Shelf) -> Level:
        """How much of everything this shelf shows."""
        return self._shown(shelf)[0]

    def tool(self, shelf: Shelf, name: str) -> Tool | None:
        """The tool that a name means here."""
        return self._catalog.tool(shelf.view, name)

    def tokens(self, shelf: Shelf) -> int:
        """What all tools of the view would cost."""
        return sum(self._tokens.of(tool) for tool in self._all(shelf))

    def pinned(self, shelf: Shelf) -> dict[str, int]:
        """The tools that are always listed, as far as the budget holds them, with what each costs."""
        if not shelf.pinned:
            return {}
        patterns = PatternSet(shelf.pinned)
        costs = [(tool.exposed, self._tokens.of(tool)) for tool in self._all(shelf) if patterns.allows(tool.exposed)]
        room = sum(cost for _, cost in costs) if shelf.budget is None else shelf.budget - _kernel_tokens()
        kept = fit(costs, max(0, room)).kept
        return {name: cost for name, cost in costs if name in set(kept)}

    def budget(self, shelf: Shelf) -> Budget | None:
        """The shelf's budget in its parts; what the kernel's own tools cost is taken off before."""
        return None if shelf.budget is None else Budget.of(max(1, shelf.budget - _kernel_tokens()))

    def _shown(self, shelf: Shelf) -> tuple[Level, bytes]:
        stamp = (self._catalog.generation, self._tokens.generation)
        kept = self._tools.get(shelf)
        if kept is not None and kept[0] == stamp:
            return kept[1], kept[2]
        level = self._level(shelf)
        listing = self._catalog.listing(shelf.view, "tool") if level == "L0" else self._few(shelf, level)
        if len(self._tools) > 10_000:
            self._tools.clear()
        self._tools[shelf] = (stamp, level, listing)
        return level, listing

    def _level(self, shelf: Shelf) -> Level:
        # Who asks for one server by its address wants that server.
        if shelf.view.bare or (shelf.level is None and shelf.budget is None):
            return "L0"
        if shelf.level is not None:
            return shelf.level
        return "L3" if self.tokens(shelf) > (shelf.budget or 0) else "L0"

    def _few(self, shelf: Shelf, level: Level) -> bytes:
        found = DEFINITIONS[FIND] if level != "L1" else with_categories(self._categories(shelf))
        parts = [found, DEFINITIONS[CALL], DEFINITIONS[REQUEST]]
        if level == "L3":
            pinned = self.pinned(shelf)
            parts += [self._catalog.render(shelf.view, tool) for tool in self._all(shelf) if tool.exposed in pinned]
        return b"[" + b",".join(parts) + b"]"

    def _categories(self, shelf: Shelf) -> list[str]:
        from interlock.discovery import categories

        count: dict[str, int] = {}
        for tool in self._all(shelf):
            said = msgspec.json.decode(tool.full, type=_Described)
            for category in categories.of_tool((), tool.name, said.description or ""):
                count[category] = count.get(category, 0) + 1
        return sorted(sorted(count), key=lambda name: -count[name])[:MOST_CATEGORIES]

    def _all(self, shelf: Shelf) -> list[Tool]:
        return [item for item in self._catalog.items(shelf.view, "tool") if isinstance(item, Tool)]


class _Described(msgspec.Struct):
    description: str | None = None


def _kernel_tokens() -> int:
    """What the kernel's own definitions cost, reckoned generously."""
    return sum(len(definition) for definition in DEFINITIONS.values()) // 4
