"""The tools that a term of a query finds, by the term itself, a related word or a similar spelling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.discovery import thesaurus
from interlock.discovery.postings import Posting, Postings, SearchScope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    Flags = NDArray[np.bool_]


class Match:
    """The scores that one term of a query gives to the tools that contain it."""

    __slots__ = ("gains", "slots")

    def __init__(self, posting: Posting, worth: float) -> None:
        import numpy as np

        self.slots = np.frombuffer(posting.slots, np.int32)
        self.gains = np.frombuffer(posting.weights, np.float32) * np.float32(worth)

    def leave_out(self, taken: Flags) -> None:
        """This match without the tools that are taken already."""
        left = ~taken[self.slots]
        self.slots, self.gains = self.slots[left], self.gains[left]


class TermMatches:
    """Finds the matches of terms, and remembers them: queries share most of their words.

    A match looks into the postings themselves, so `clear` comes before every change of them.
    """

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        self._cache: dict[tuple[str, tuple[str, ...], int], list[Match]] = {}
        self._cache_bytes_left = _CACHE_BYTES

    def clear(self) -> None:
        self._cache.clear()
        self._cache_bytes_left = _CACHE_BYTES

    def of(self, term: str, related: tuple[str, ...], taken: Flags, scope: SearchScope | None) -> list[Match]:
        """The matches of a term and its related words. `taken` has a flag per slot, all false before and after."""
        key = (term, related, 0 if scope is None else scope.key)
        found = self._cache.get(key)
        if found is None:
            found = self._find(term, related, taken, scope)
            self._cache_bytes_left -= _MATCH_BYTES + sum(match.slots.nbytes + match.gains.nbytes for match in found)
            if self._cache_bytes_left < 0:
                self.clear()
            self._cache[key] = found
        return found

    def _find(self, term: str, related: tuple[str, ...], taken: Flags, scope: SearchScope | None) -> list[Match]:
        """The tools that a term or a related word finds. A tool counts once for a term, with its best match.

        Otherwise a tool that repeats the same thing in other words would rank higher. A related word never counts more
        than the term itself. An unknown term without known related words is replaced by similarly spelled terms.
        """
        known, near = self._postings.known(term, scope), self._related(related, scope)
        if known is None and not near:
            alike = self._postings.alike(term, scope)
            return [
                Match(posting, like * _ALIKE_WEIGHT * self._postings.rarity(posting, scope)) for posting, like in alike
            ]
        if known is None:
            found, most, weight = [], math.inf, _INSTEAD_WEIGHT
        else:
            most, weight = self._postings.rarity(known, scope), _RELATED_WEIGHT
            found = [Match(known, most)]
            taken[found[0].slots] = True
        equal = thesaurus.equal(term)
        worth = []
        for posting in near:
            share = max(weight, _EQUAL_WEIGHT) if posting.term in equal else weight
            worth.append((min(most, self._postings.rarity(posting, scope)) * share, posting))
        for each, posting in sorted(worth, key=_by_worth):
            match = Match(posting, each)
            match.leave_out(taken)
            taken[match.slots] = True
            found.append(match)
        for match in found:
            taken[match.slots] = False
        return found

    def _related(self, related: tuple[str, ...], scope: SearchScope | None) -> list[Posting]:
        """The postings of related words, without those that are too common."""
        most = max(_FEW, _COMMON * self._postings.tools(scope))
        known = (self._postings.known(other, scope) for other in related)
        return [posting for posting in known if posting is not None and self._postings.holders(posting, scope) <= most]


def summed(matches: Sequence[Match], slots: int) -> Scores:
    """The score of every slot. All matches are collected first, so that each array is read once."""
    import numpy as np

    if not matches:
        return np.zeros(slots, np.float32)
    where, gains = np.concatenate([m.slots for m in matches]), np.concatenate([m.gains for m in matches])
    total: Scores = np.bincount(where, gains, slots).astype(np.float32)
    return total


def _by_worth(found: tuple[float, Posting]) -> tuple[float, str]:
    return -found[0], found[1].term


_RELATED_WEIGHT = 0.45
"""The weight of a synonym, against the word itself."""
_EQUAL_WEIGHT = 0.7
"""The weight of a word that is used for the same thing."""
_INSTEAD_WEIGHT = 0.8
"""The weight of a synonym where no tool has the word itself."""
_ALIKE_WEIGHT = 0.4
_FEW = 2_000
_COMMON = 0.02
"""A related word that occurs in a larger share of tools is ignored: it helps too little for its cost."""
_CACHE_BYTES = 48 * 1024 * 1024
_MATCH_BYTES = 1024
"""Approximate size of a remembered term beside its arrays."""
