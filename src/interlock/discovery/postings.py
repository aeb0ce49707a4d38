"""The tools that contain each term, kept current one tool at a time.

Rule: only the rarity of a term depends on the corpus, at query time, so adding or removing a tool touches only its own
terms. The corpus of a caller is the tools that it may see, so a score reveals nothing about others.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from interlock.discovery.arrays import position
from interlock.discovery.spelling import SpellingIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]


class SearchScope:
    """The part of the corpus that a query's caller may see."""

    __slots__ = ("key", "seen", "total")
    _last = 0

    def __init__(self, seen: Flags) -> None:
        self.seen = seen
        self.total = int(seen.sum())
        SearchScope._last += 1
        self.key = SearchScope._last
        """A number that no other scope has, for caches of results."""


class Posting:
    """The tools that contain one term, unordered, with its weight in each."""

    __slots__ = ("slots", "term", "weights")

    def __init__(self, term: str) -> None:
        self.term = term
        self.slots = array("i")
        self.weights = array("f")

    def remove(self, slot: int) -> None:
        """Remove one slot. The last one moves to its place."""
        at = position(self.slots, slot)
        self.slots[at], self.weights[at] = self.slots[-1], self.weights[-1]
        del self.slots[-1], self.weights[-1]


class Postings:
    """Postings by term. Tools are identified by the slot numbers of the caller."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._postings: list[Posting] = []
        self._unused: list[int] = []
        """Numbers of terms that no tool contains any more."""
        self._terms_of: dict[int, array[int]] = {}
        self._spelling = SpellingIndex()

    def __len__(self) -> int:
        """The number of tools."""
        return len(self._terms_of)

    def __contains__(self, slot: int) -> bool:
        return slot in self._terms_of

    def put(self, slot: int, weights: Mapping[str, float]) -> None:
        """Add a tool under a free slot."""
        numbers = array("i")
        for term, weight in weights.items():
            number = self._numbers.get(term)
            if number is None:
                number = self._add_term(term)
            posting = self._postings[number]
            posting.slots.append(slot)
            posting.weights.append(weight)
            numbers.append(number)
        self._terms_of[slot] = numbers

    def remove(self, slot: int) -> None:
        for number in self._terms_of.pop(slot):
            posting = self._postings[number]
            posting.remove(slot)
            if not posting.slots:
                self._remove_term(number)

    def terms_of(self, slot: int) -> set[str]:
        return {self._postings[number].term for number in self._terms_of[slot]}

    def known(self, term: str, scope: SearchScope | None) -> Posting | None:
        """The posting of a term, if a visible tool contains it."""
        number = self._numbers.get(term)
        if number is None or not self.holders(self._postings[number], scope):
            return None
        return self._postings[number]

    def alike(self, term: str, scope: SearchScope | None) -> list[tuple[Posting, float]]:
        """The known terms that are spelled most like an unknown one, with their similarity."""
        found = ((self._postings[number], alike) for number, alike in self._spelling.alike(term))
        return list(islice((each for each in found if self.holders(each[0], scope)), _MAX_ALIKE))

    def tools(self, scope: SearchScope | None) -> int:
        """The number of visible tools."""
        return len(self._terms_of) if scope is None else scope.total

    def holders(self, posting: Posting, scope: SearchScope | None) -> int:
        """The number of visible tools that contain a term."""
        if scope is None:
            return len(posting.slots)
        import numpy as np

        return int(np.count_nonzero(scope.seen[np.frombuffer(posting.slots, np.int32)])) if posting.slots else 0

    def rarity(self, posting: Posting, scope: SearchScope | None) -> float:
        """The weight of a match: the rarer the term, the more."""
        return self._rarity(self.holders(posting, scope), scope)

    def greatest_rarity(self, scope: SearchScope | None) -> float:
        """The rarity of a term that no visible tool contains."""
        return self._rarity(0, scope)

    def _rarity(self, holders: int, scope: SearchScope | None) -> float:
        return math.log(1 + (self.tools(scope) - holders + 0.5) / (holders + 0.5))

    def _add_term(self, term: str) -> int:
        if self._unused:
            number = self._unused.pop()
            self._postings[number] = Posting(term)
        else:
            number = len(self._postings)
            self._postings.append(Posting(term))
        self._numbers[term] = number
        self._spelling.put(number, term)
        return number

    def _remove_term(self, number: int) -> None:
        """Delete a term that no tool contains any more, so that changing servers cannot fill the memory."""
        term = self._postings[number].term
        del self._numbers[term]
        self._spelling.remove(number, term)
        self._unused.append(number)


_MAX_ALIKE = 3
