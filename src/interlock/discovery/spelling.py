"""Finds terms that are spelled alike by their letter triples, as misspellings and compounds are."""

from __future__ import annotations

import math
from array import array

from interlock.discovery.arrays import position


class SpellingIndex:
    """Numbers of terms by letter triple."""

    def __init__(self) -> None:
        self._sharing: dict[str, array[int]] = {}
        self._counts = array("i")
        """The number of triples of each term."""

    def put(self, number: int, term: str) -> None:
        """Add a term under a free number, or the next one."""
        triples = _triples(term)
        if number == len(self._counts):
            self._counts.append(len(triples))
        else:
            self._counts[number] = len(triples)
        for triple in triples:
            self._sharing.setdefault(triple, array("i")).append(number)

    def remove(self, number: int, term: str) -> None:
        for triple in _triples(term):
            sharing = self._sharing[triple]
            sharing[position(sharing, number)] = sharing[-1]
            del sharing[-1]
            if not sharing:
                del self._sharing[triple]

    def alike(self, term: str) -> list[tuple[int, float]]:
        """The terms that share the most triples with an unknown one, with their similarity, best first."""
        import numpy as np

        triples = _triples(term)
        sharing = [np.frombuffer(self._sharing[triple], np.int32) for triple in triples if triple in self._sharing]
        if not sharing:
            return []
        shared = np.zeros(len(self._counts), np.uint8)
        for numbers in sharing:
            shared[numbers] += 1
        # Every term has at least three triples, so a term that shares fewer than this is not similar.
        near = np.flatnonzero(shared >= math.ceil(_LEAST_ALIKE * (len(triples) + _FEWEST_TRIPLES) / 2))
        similarity = 2.0 * shared[near] / (len(triples) + np.frombuffer(self._counts, np.int32)[near])
        close = similarity >= _LEAST_ALIKE
        ranked = sorted(zip(similarity[close].tolist(), (-near[close]).tolist(), strict=True), reverse=True)
        return [(-number, alike) for alike, number in ranked]


def _triples(term: str) -> set[str]:
    """The letter triples of a term; none for short terms and numbers, which are not compared by spelling."""
    if len(term) < _SHORTEST or not term.isalpha():
        return set()
    padded = f"^{term}$"
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


_SHORTEST = 5
_FEWEST_TRIPLES = 3
"""The triples of `aaaaa`, with its ends."""
_LEAST_ALIKE = 0.45
