"""BM25 over the fields of tool definitions, kept current one tool at a time.

The one rule: a tool's weights depend on that tool alone (typical lengths stand in for corpus averages), and only the
rarity of a term is taken from the corpus, at query time; so adding or removing a tool touches its own terms only.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from interlock.discovery import words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]

MAX_TERMS = 96
"""Distinct terms of one query that are scored; the first ones count."""

MAX_TERMS_PER_TOOL = 1_024


class Fields(msgspec.Struct, frozen=True):
    """The text of one tool, by where it stands."""

    name: str
    server: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    parameter_descriptions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class LexicalIndex:
    """Postings by term; tools are known by the slot number that the caller gave them."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._postings: list[_Posting] = []
        self._grams: dict[str, array[int]] = {}
        self._terms_of: dict[int, array[int]] = {}
        self._slots = 0

    def __len__(self) -> int:
        return len(self._terms_of)

    def put(self, slot: int, fields: Fields) -> None:
        """Index a tool under a slot, replacing what stood there."""
        if slot in self._terms_of:
            self.remove(slot)
        names = set(words.terms(fields.name))
        ids = array("i")
        for term, frequency in _frequencies(fields).items():
            number = self._number(term)
            posting = self._postings[number]
            posting.slots.append(slot)
            posting.weights.append(frequency * (_SATURATION + 1) / (frequency + _SATURATION))
            posting.shares.append(1 / len(names) if term in names else 0.0)
            ids.append(number)
        self._terms_of[slot] = ids
        self._slots = max(self._slots, slot + 1)

    def remove(self, slot: int) -> None:
        """Forget the tool under a slot."""
        for number in self._terms_of.pop(slot):
            self._postings[number].drop(slot)

    def score(self, query: Mapping[str, float], slots: int) -> Scores:
        """How well each slot matches weighted query terms: BM25, and a bonus for names that the query covers."""
        import numpy as np

        scores = np.zeros(slots, np.float32)
        rarity = np.zeros(slots, np.float32)
        covered = np.zeros(slots, np.float32)
        for number, weight in self._resolve(query):
            posting = self._postings[number]
            worth = weight * self._rarity(len(posting.slots))
            where = np.frombuffer(posting.slots, np.int32)
            scores[where] += worth * np.frombuffer(posting.weights, np.float32)
            share = np.frombuffer(posting.shares, np.float32)
            covered[where] += weight * share
            rarity[where] += worth * (share > 0)
        scores += _NAME_BONUS * rarity * np.minimum(covered, 1)
        return scores

    def ideal(self, query: Mapping[str, float]) -> float:
        """The score of an imagined tool that matches every term of the query well."""
        found = sum(weight * self._rarity(len(self._postings[n].slots)) for n, weight in self._resolve(query))
        return max(found, 1e-6)

    def _resolve(self, query: Mapping[str, float]) -> list[tuple[int, float]]:
        """Query terms as term numbers; a term that no tool has is read as the terms most like it."""
        found: dict[int, float] = {}
        for term, weight in list(query.items())[:MAX_TERMS]:
            number = self._ids.get(term)
            if number is not None and self._postings[number].slots:
                found[number] = max(found.get(number, 0.0), weight)
                continue
            for like, similarity in self._alike(term):
                found[like] = max(found.get(like, 0.0), weight * similarity * _FUZZY_WEIGHT)
        return list(found.items())

    def _alike(self, term: str) -> list[tuple[int, float]]:
        """The few known terms that share most letter triples with an unknown one: misspellings, compounds."""
        if len(term) < _FUZZY_SHORTEST or not term.isalpha():
            return []
        grams = _grams(term)
        shared: dict[int, int] = {}
        for gram in grams:
            for number in self._grams.get(gram, ()):
                shared[number] = shared.get(number, 0) + 1
        alike: list[tuple[float, int]] = []
        for number, count in shared.items():
            posting = self._postings[number]
            similarity = 2 * count / (len(grams) + posting.grams)
            if similarity >= _FUZZY_LEAST and posting.slots:
                alike.append((similarity, number))
        return [(number, similarity) for similarity, number in sorted(alike, reverse=True)[:_FUZZY_MOST]]

    def _rarity(self, holders: int) -> float:
        return math.log(1 + (len(self._terms_of) - holders + 0.5) / (holders + 0.5))

    def _number(self, term: str) -> int:
        number = self._ids.get(term)
        if number is None:
            number = self._ids[term] = len(self._postings)
            grams = _grams(term) if term.isalpha() and len(term) >= _FUZZY_SHORTEST else set()
            self._postings.append(_Posting(len(grams)))
            for gram in grams:
                self._grams.setdefault(gram, array("i")).append(number)
        return number


class _Posting:
    """The tools that hold one term, in no order: three parallel arrays, and how many letter triples the term has."""

    __slots__ = ("grams", "shares", "slots", "weights")

    def __init__(self, grams: int) -> None:
        self.grams = grams
        self.slots = array("i")
        self.weights = array("f")
        self.shares = array("f")

    def drop(self, slot: int) -> None:
        at = self.slots.index(slot)
        self.slots[at] = self.slots[-1]
        self.weights[at] = self.weights[-1]
        self.shares[at] = self.shares[-1]
        del self.slots[-1], self.weights[-1], self.shares[-1]


def _frequencies(fields: Fields) -> dict[str, float]:
    """Each term's weighted frequency over all fields, each field normed by its length against the typical one."""
    total: dict[str, float] = {}
    for texts, weight, typical in (
        ((fields.name,), 3.0, 3.0),
        (fields.keywords, 1.5, 4.0),
        ((fields.server,), 0.3, 2.0),
        ((fields.description,), 1.0, 10.0),
        (fields.parameters, 0.7, 6.0),
        (fields.parameter_descriptions, 0.4, 24.0),
    ):
        found = [term for text in texts for term in words.terms(text)][:MAX_TERMS_PER_TOOL]
        share = weight / (1 - _LENGTH + _LENGTH * len(found) / typical)
        for term in found:
            total[term] = total.get(term, 0.0) + share
    whole = "".join(words.split(fields.name))[: words.MAX_WORD]
    total.setdefault(words.stem(whole), 3.0)
    return total


def _grams(term: str) -> set[str]:
    padded = f"^{term}$"
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def weigh(terms: Iterable[str]) -> dict[str, float]:
    """Query terms, each once, with equal weight."""
    return dict.fromkeys(terms, 1.0)


_SATURATION = 1.2
"""BM25's k1: how soon more of the same term stops to matter."""
_LENGTH = 0.5
"""BM25's b: how much long fields are held back."""
_NAME_BONUS = 0.1
_FUZZY_SHORTEST = 5
_FUZZY_LEAST = 0.45
_FUZZY_MOST = 3
_FUZZY_WEIGHT = 0.4
