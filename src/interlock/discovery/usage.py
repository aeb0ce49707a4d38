"""Learning from use: a tool that was found, called and succeeded is raised for queries like the one that found it.

The one rule: it is bounded. So many uses are kept, the oldest go first, and no use raises a tool by more than a share
of the best score.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from interlock.discovery.entries import Identity

MOST_USES = 512
MOST_TERMS = 24
LIKE = 0.5
"""The share of common terms from which two queries are alike."""
WEIGHT = 0.3
"""By what share of the best score a tool rises at most."""


class Use(msgspec.Struct, frozen=True):
    """A tool that served a query, known by its terms alone."""

    terms: tuple[str, ...]
    server: str
    tool: str
    count: int = 1


class Raise(msgspec.Struct, frozen=True):
    """Why a tool is raised: how like the closest query was, and how often the tool served it."""

    likeness: float
    count: int

    @property
    def share(self) -> float:
        return WEIGHT * self.likeness * self.count / (self.count + 1)


class Usage:
    """The tools that served each query; the least recently used is forgotten first."""

    def __init__(self, uses: Iterable[Use] = ()) -> None:
        self._counts: OrderedDict[tuple[frozenset[str], Identity], int] = OrderedDict()
        for use in uses:
            self._put((frozenset(use.terms), (use.server, use.tool)), use.count)

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[Use]:
        return iter(Use(tuple(sorted(terms)), *tool, count) for (terms, tool), count in self._counts.items())

    def served(self, terms: Iterable[str], tool: Identity) -> None:
        """A tool succeeded for a query of these terms."""
        key = (frozenset(list(dict.fromkeys(terms))[:MOST_TERMS]), tool)
        if key[0]:
            self._put(key, self._counts.get(key, 0) + 1)

    def raised(self, terms: Iterable[str]) -> dict[Identity, Raise]:
        """The tools that served queries like this one."""
        wanted = set(terms)
        found: dict[Identity, Raise] = {}
        for (before, tool), count in self._counts.items():
            common = len(before & wanted)
            likeness = common / (len(before) + len(wanted) - common)
            if likeness >= LIKE and (tool not in found or found[tool].share < Raise(likeness, count).share):
                found[tool] = Raise(likeness, count)
        return found

    def _put(self, key: tuple[frozenset[str], Identity], count: int) -> None:
        self._counts[key] = count
        self._counts.move_to_end(key)
        if len(self._counts) > MOST_USES:
            self._counts.popitem(last=False)
