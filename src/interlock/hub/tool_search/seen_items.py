"""The items that a list scope shows, in one part for each server.

A change of one server selects the items of that server again, and copies the other parts: a list of thousands of tools
is not judged tool by tool for each change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final, Protocol

import msgspec

from interlock.hub.catalog.audiences import has
from interlock.hub.catalog.items import Item, max_bytes_of
from interlock.hub.catalog.views import OfferPart
from interlock.process.turns import in_turns

WRAPPING_TOKENS: Final = 20
"""The tokens of the object schema around an output schema that has none, for clients before 2026-07-28."""

Select = Callable[[str, tuple[Item, ...]], tuple[Item, ...]]
"""Selects among the items of one server."""


class TokenMeasure(Protocol):
    """Finds the tokens of tools."""

    def __call__(self, item: Item) -> tuple[int, bool]:
        """The tokens of a tool, or a bound, and whether they were counted."""

    def counted(self, item: Item) -> bool:
        """Whether the tokens of a tool are counted."""


class PartSum:
    """Adds up the tokens of a server's tools, a few at a time. A tool's bound is found once, and so is its count."""

    __slots__ = ("_bounds", "_done", "_generation", "_unchecked", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self._done = 0
        self._generation = -1
        self._bounds: dict[int, int] = {}
        """By index, the bounds of tools that are not counted yet."""
        self._unchecked: list[int] = []
        """The indices among them that may have been counted since."""

    def add(self, items: tuple[Item, ...], measure: TokenMeasure, generation: int, enough: float, most: int) -> bool:
        """Add at most so many items. True if all are added, or more tokens than `enough`."""
        if self._generation != generation:
            self._generation = generation
            self._unchecked = [*self._bounds]
        while self._unchecked and most and self.tokens <= enough:
            index = self._unchecked.pop()
            most -= 1
            if measure.counted(items[index]):
                self.tokens += measure(items[index])[0] - self._bounds.pop(index)
        for item in items[self._done : self._done + most]:
            if self.tokens > enough:
                return True
            tokens, exact = measure(item)
            self.tokens += tokens
            if not exact:
                self._bounds[self._done] = tokens
            self._done += 1
        return (self._done == len(items) and not self._unchecked) or self.tokens > enough


class SeenPart(msgspec.Struct, frozen=True, eq=False):
    """The items of one server."""

    part: OfferPart
    items: tuple[Item, ...]
    most: int
    """Upper bound for the tokens of the tools: as if each byte were one, with one more at each joint."""
    least: PartSum = msgspec.field(default_factory=PartSum)
    """A lower bound for the tokens of the tools in a list."""
    cost: PartSum = msgspec.field(default_factory=PartSum)
    """The tokens of the tools in a list, or an upper bound."""

    @property
    def whole(self) -> bool:
        """Whether these are all items that the view shows of the server."""
        return len(self.items) == len(self.part.items)


class SeenItems(msgspec.Struct, frozen=True, eq=False):
    """The items of all servers."""

    parts: Mapping[str, SeenPart]
    items: list[Item]
    most: int

    @property
    def whole(self) -> bool:
        """Whether these are all items of the view."""
        return all(part.whole for part in self.parts.values())


def seen_items(
    parts: Mapping[str, OfferPart], audiences: tuple[str, ...], select: Select, before: SeenItems | None
) -> SeenItems:
    """The items that are offered to these audiences and selected. `before` was made by an equal selection."""
    known = {} if before is None else before.parts
    seen = {}
    for server, part in parts.items():
        one = known.get(server)
        seen[server] = one if one is not None and one.part is part else _seen_part(server, part, audiences, select)
    return _joined(seen)


async def seen_in_turns(
    parts: Mapping[str, OfferPart], audiences: tuple[str, ...], select: Select, before: SeenItems | None
) -> SeenItems:
    """The same in short turns of the loop. The caller checks that `select` still holds at the end."""
    known = {} if before is None else before.parts
    seen = {}
    async for server, part in in_turns(parts.items()):
        one = known.get(server)
        seen[server] = one if one is not None and one.part is part else _seen_part(server, part, audiences, select)
    return _joined(seen)


def _joined(seen: Mapping[str, SeenPart]) -> SeenItems:
    items = [*chain.from_iterable(one.items for one in seen.values())]
    return SeenItems(seen, items, sum(one.most for one in seen.values()))


def _seen_part(server: str, part: OfferPart, audiences: tuple[str, ...], select: Select) -> SeenPart:
    items = part.items
    if part.for_some:
        items = tuple(item for item in items if has(item, audiences))
    items = select(server, items)
    octets = part.max_bytes if len(items) == len(part.items) else max_bytes_of(items)
    return SeenPart(part, items, 3 * octets + WRAPPING_TOKENS * len(items))


class ListState(msgspec.Struct, frozen=True, eq=False):
    """Everything that a list shows at one moment, kept to tell whether it changed."""

    seen: SeenItems | None
    """The items, where the list has all of them under the names of the catalog."""
    more: bytes
    """The other items, or the whole list."""

    def equals(self, other: ListState) -> bool:
        """Whether both render the same list. Only parts that were made anew are compared by their definitions."""
        if self.more != other.more or (self.seen is None) != (other.seen is None):
            return False
        if self.seen is None or other.seen is None or self.seen is other.seen:
            return True
        ours = [(server, part) for server, part in self.seen.parts.items() if part.items]
        others = [(server, part) for server, part in other.seen.parts.items() if part.items]
        return len(ours) == len(others) and all(map(_same_part, ours, others))


def _same_part(one: tuple[str, SeenPart], other: tuple[str, SeenPart]) -> bool:
    if one[0] != other[0] or len(one[1].items) != len(other[1].items):
        return False
    return one[1] is other[1] or all(map(_same_item, one[1].items, other[1].items))


def _same_item(one: Item, other: Item) -> bool:
    return one is other or (one.full, one.bare) == (other.full, other.bare)
