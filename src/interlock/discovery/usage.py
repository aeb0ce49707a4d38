"""Learning from use: a tool that was found, called and succeeded is raised for similar queries.

Rule: a principal learns only from its own use, and within bounds. Each principal keeps a limited number of uses, and
its oldest are forgotten first. No use raises a tool by more than a share of the best score. If there are too many uses
in total, the principal with the most loses its oldest, so that nobody displaces the uses of others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sized
from operator import itemgetter

import msgspec

from interlock.discovery.entries import Identity

MAX_USES = 512
"""Uses of one principal."""
MAX_IN_ALL = 4_096
MAX_TERMS = 24
LIKE = 0.5
"""The share of common terms from which two queries are similar."""
WEIGHT = 0.3
"""The largest share of the best score by which use raises a tool."""


class RememberedUse(msgspec.Struct, frozen=True):
    """A tool that succeeded for a query. Of the query, only the terms are kept."""

    terms: tuple[str, ...]
    server: str
    tool: str
    count: int = 1


class UsageBoost(msgspec.Struct, frozen=True):
    """Why a tool is raised: the similarity of the closest query, and how often the tool succeeded for it."""

    likeness: float
    count: int

    @property
    def share(self) -> float:
        return WEIGHT * self.likeness * self.count / (self.count + 1)


_Uses = OrderedDict[tuple[frozenset[str], Identity], int]
_NONE: _Uses = OrderedDict()


class ToolUsage:
    """The tools that succeeded for the queries of each principal. The least recently used is forgotten first."""

    def __init__(self) -> None:
        self._of: dict[str, _Uses] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, principal_name: str) -> tuple[RememberedUse, ...]:
        """The uses of a principal, the least recent first."""
        uses = self._of.get(principal_name, _NONE)
        return tuple(RememberedUse(tuple(sorted(terms)), *tool, count) for (terms, tool), count in uses.items())

    def add(self, principal_name: str, use: RememberedUse) -> set[str]:
        """Add a use, or change its count. Returns the principals whose uses changed."""
        return self._put(principal_name, frozenset(use.terms), (use.server, use.tool), use.count)

    def served(self, principal_name: str, terms: Iterable[str], tool: Identity) -> set[str]:
        """Note that a tool succeeded for a query with these terms. Returns the principals whose uses changed."""
        known = frozenset(list(dict.fromkeys(terms))[:MAX_TERMS])
        return self._put(principal_name, known, tool, self._of.get(principal_name, _NONE).get((known, tool), 0) + 1)

    def raised(self, principal_name: str, terms: Iterable[str]) -> dict[Identity, UsageBoost]:
        """The tools that succeeded for similar queries of this principal."""
        wanted = set(terms)
        found: dict[Identity, UsageBoost] = {}
        for (before, tool), count in self._of.get(principal_name, _NONE).items():
            common = len(before & wanted)
            likeness = common / (len(before) + len(wanted) - common)
            if likeness >= LIKE and (tool not in found or found[tool].share < UsageBoost(likeness, count).share):
                found[tool] = UsageBoost(likeness, count)
        return found

    def _put(self, principal_name: str, terms: frozenset[str], tool: Identity, count: int) -> set[str]:
        if not terms:
            return set()
        uses = self._of.pop(principal_name, None) or OrderedDict()
        self._of[principal_name] = (
            uses  # Moves the principal to the end: of equals, the least recent principal loses a use first.
        )
        before = len(uses)
        uses[terms, tool] = count
        uses.move_to_end((terms, tool))
        self._count += len(uses) - before
        if len(uses) > MAX_USES:
            self._drop_oldest(principal_name)
        if self._count <= MAX_IN_ALL:
            return {principal_name}
        loser = largest(self._of)
        self._drop_oldest(loser)
        return {principal_name, loser}

    def _drop_oldest(self, principal_name: str) -> None:
        self._of[principal_name].popitem(last=False)
        self._count -= 1
        if not self._of[principal_name]:
            del self._of[principal_name]


def largest(of: Mapping[str, Sized]) -> str:
    """The principal that has the most; of several, the first."""
    return max(((principal_name, len(each)) for principal_name, each in of.items()), key=itemgetter(1))[0]
