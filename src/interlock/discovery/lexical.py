"""BM25 over the fields of tool definitions, kept current one tool at a time.

Rule: a tool's weights depend on that tool alone: constants replace the average lengths of the corpus. Only the rarity
of a term depends on the corpus, at query time, so adding or removing a tool touches only its own terms. The corpus of a
caller is the tools that it may see, so a score reveals nothing about others.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from interlock.discovery import words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    Flags = NDArray[np.bool_]

MAX_TERMS = 96
"""Distinct terms of one query that are scored. If there are more, the rarest are."""

MAX_TERMS_PER_TOOL = 1_024
_RELATED_COVERS = 0.9
"""The coverage of a term by a related word."""
_ALIKE_COVERS = 0.5
"""The coverage of a term by a similarly spelled word: a socket is not a rocket."""


Query = Mapping[str, Collection[str]]
"""The terms of a query, each once, with its related words."""


_CACHE_BYTES = 48 * 1024 * 1024
_MATCH_BYTES = 1024
"""Approximate size of a remembered term beside its arrays."""


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


class ToolFields(msgspec.Struct, frozen=True):
    """The text of one tool, by field."""

    name: str
    server: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    parameter_descriptions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class LexicalIndex:
    """Postings by term. Tools are identified by the slot numbers of the caller."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._postings: list[_Posting] = []
        self._grams: dict[str, array[int]] = {}
        self._gram_counts = array("i")
        self._unused: list[int] = []
        self._terms_of: dict[int, array[int]] = {}
        self._match_cache: dict[tuple[str, tuple[str, ...], int], list[_Match]] = {}
        """Earlier results per term: queries share most of their words. Forgotten with every change, before it is made:
        a match looks into the postings themselves."""
        self._cache_bytes_left = _CACHE_BYTES

    def __len__(self) -> int:
        return len(self._terms_of)

    def __contains__(self, term: str) -> bool:
        return term in self._ids

    def knows(self, term: str, scope: SearchScope | None) -> bool:
        """Whether a visible tool contains a term."""
        return self._known(term, scope) is not None

    def put(self, slot: int, fields: ToolFields) -> None:
        """Index a tool under a slot, and replace the slot's previous tool."""
        self._clear_cache()
        if slot in self._terms_of:
            self.remove(slot)
        ids = array("i")
        for term, frequency in _frequencies(fields).items():
            number = self._number(term)
            posting = self._postings[number]
            posting.slots.append(slot)
            posting.weights.append(frequency * (_SATURATION + 1) / (frequency + _SATURATION))
            ids.append(number)
        self._terms_of[slot] = ids

    def remove(self, slot: int) -> None:
        """Forget the tool under a slot."""
        self._clear_cache()
        for number in self._terms_of.pop(slot):
            posting = self._postings[number]
            _drop(posting.slots, posting.weights, slot)
            if not posting.slots:
                self._forget(number)

    def score(self, queries: Sequence[Query], slots: int, scope: SearchScope | None = None) -> list[Scores]:
        """How well each slot matches each query.

        The queries are usually one text and its sentences, so each term is looked up once for all of them.
        """
        import numpy as np

        taken = np.zeros(slots, np.bool_)
        matches: dict[str, list[_Match]] = {}
        for query in queries:
            for term, related in query.items():
                if term not in matches:
                    matches[term] = self._cached_matches(term, tuple(related), taken, scope)
        return [_sum([match for term in query for match in matches[term]], slots) for query in queries]

    def matched(self, query: Query, slot: int, scope: SearchScope | None = None) -> list[tuple[str, str]]:
        """The terms of a query that a slot matches, each with the matching term of the tool."""
        held = {self._postings[number].term for number in self._terms_of[slot]}
        found: list[tuple[str, str]] = []
        for term, related in query.items():
            known = self._known(term, scope) is not None
            near = [] if known or any(self._known(other, scope) for other in related) else self._alike(term, scope)
            meant = (term, *related, *(posting.term for posting, _ in near))
            found.extend((term, other) for other in meant[: None if term not in held else 1] if other in held)
        return found

    def coverage(self, query: Query, slot: int, scope: SearchScope | None = None) -> float:
        """How much of a query a slot covers, from 0 to 1, weighted by rarity. An unknown term is the rarest.

        Unlike a score, it does not grow when a part matches better. It shows whether the whole need is met.
        """
        total = len(self._terms_of) if scope is None else scope.total
        unknown = math.log(1 + (total + 0.5) / 0.5)
        met: dict[str, float] = {}
        for term, found in self.matched(query, slot, scope):
            share = 1.0 if found == term else _RELATED_COVERS if found in query[term] else _ALIKE_COVERS
            met[term] = max(share, met.get(term, 0.0))
        worth = {
            term: unknown if (posting := self._known(term, scope)) is None else self._worth(posting, scope)
            for term in query
        }
        whole = sum(worth.values())
        return sum(worth[term] * share for term, share in met.items()) / whole if whole else 0.0

    def ideal(self, query: Query, scope: SearchScope | None = None) -> float:
        """The score of an imaginary tool that contains every known term of the query once, in an important field."""
        return max(1e-6, sum(self._worth(posting, scope) for term in query if (posting := self._known(term, scope))))

    def rarest(self, terms: Collection[str], scope: SearchScope | None = None) -> list[str]:
        """The terms of a query that are scored, each once, in their order."""
        distinct = dict.fromkeys(terms)
        if len(distinct) <= MAX_TERMS:
            return list(distinct)
        held = {term: len(posting.slots) if (posting := self._known(term, scope)) else _UNKNOWN for term in distinct}
        kept = set(sorted(distinct, key=lambda term: held[term])[:MAX_TERMS])
        return [term for term in distinct if term in kept]

    def _cached_matches(
        self, term: str, related: tuple[str, ...], taken: Flags, scope: SearchScope | None
    ) -> list[_Match]:
        key = 0 if scope is None else scope.key
        found = self._match_cache.get((term, related, key))
        if found is None:
            found = self._find_matches(term, related, taken, scope)
            self._cache_bytes_left -= _MATCH_BYTES + sum(match.slots.nbytes + match.gains.nbytes for match in found)
            if self._cache_bytes_left < 0:
                self._clear_cache()
            self._match_cache[term, related, key] = found
        return found

    def _clear_cache(self) -> None:
        self._match_cache.clear()
        self._cache_bytes_left = _CACHE_BYTES

    def _find_matches(
        self, term: str, related: Collection[str], taken: Flags, scope: SearchScope | None
    ) -> list[_Match]:
        """The tools that a term or a related word finds. A tool counts once for a term, with its best match.

        Otherwise a tool that repeats the same thing in other words would rank higher. A related word never counts more
        than the term itself. An unknown term without known related words is replaced by similarly spelled terms.
        """
        total = len(self._terms_of) if scope is None else scope.total
        known = self._known(term, scope)
        near = [posting for other in related if (posting := self._known(other, scope)) is not None]
        near = [posting for posting in near if self._holders(posting, scope) <= max(_FEW, _COMMON * total)]
        if known is None and not near:
            alike = self._alike(term, scope)
            return [_Match(posting, like * _FUZZY_WEIGHT * self._worth(posting, scope)) for posting, like in alike]
        if known is None:
            found, most, weight = [], math.inf, _INSTEAD_WEIGHT
        else:
            most, weight = self._worth(known, scope), _RELATED_WEIGHT
            found = [_Match(known, most)]
            taken[found[0].slots] = True
        worth = sorted(((min(most, self._worth(posting, scope)), posting) for posting in near), key=_by_worth)
        for each, posting in worth:
            match = _Match(posting, each * weight)
            match.leave_out(taken)
            taken[match.slots] = True
            found.append(match)
        for match in found:
            taken[match.slots] = False
        return found

    def _known(self, term: str, scope: SearchScope | None) -> _Posting | None:
        """The posting of a term, if a visible tool contains it."""
        number = self._ids.get(term)
        if number is None or not self._holders(self._postings[number], scope):
            return None
        return self._postings[number]

    def _worth(self, posting: _Posting, scope: SearchScope | None) -> float:
        """The weight of a match: the rarer the term, the more."""
        total = len(self._terms_of) if scope is None else scope.total
        holders = self._holders(posting, scope)
        return math.log(1 + (total - holders + 0.5) / (holders + 0.5))

    def _holders(self, posting: _Posting, scope: SearchScope | None) -> int:
        """The number of visible tools that contain a term."""
        if scope is None:
            return len(posting.slots)
        import numpy as np

        return int(np.count_nonzero(scope.seen[np.frombuffer(posting.slots, np.int32)])) if posting.slots else 0

    def _alike(self, term: str, scope: SearchScope | None) -> list[tuple[_Posting, float]]:
        """The known terms that share the most letter triples with an unknown one, as misspellings and compounds do."""
        import numpy as np

        grams = _grams(term)
        sharing = [np.frombuffer(self._grams[gram], np.int32) for gram in grams if gram in self._grams]
        if not sharing:
            return []
        shared = np.zeros(len(self._postings), np.uint8)
        for numbers in sharing:
            shared[numbers] += 1
        # Every term has at least three triples, so a term that shares fewer than this is not similar.
        near = np.flatnonzero(shared >= math.ceil(_FUZZY_LEAST * (len(grams) + _FEWEST_GRAMS) / 2))
        similarity = 2.0 * shared[near] / (len(grams) + np.frombuffer(self._gram_counts, np.int32)[near])
        close = similarity >= _FUZZY_LEAST
        ranked = sorted(zip(similarity[close].tolist(), (-near[close]).tolist(), strict=True), reverse=True)
        found = ((self._postings[-number], alike) for alike, number in ranked)
        return list(islice((each for each in found if self._holders(each[0], scope)), _FUZZY_MOST))

    def _number(self, term: str) -> int:
        number = self._ids.get(term)
        if number is not None:
            return number
        grams = _grams(term)
        if self._unused:
            number = self._unused.pop()
            self._postings[number] = _Posting(term)
            self._gram_counts[number] = len(grams)
        else:
            number = len(self._postings)
            self._postings.append(_Posting(term))
            self._gram_counts.append(len(grams))
        self._ids[term] = number
        for gram in grams:
            self._grams.setdefault(gram, array("i")).append(number)
        return number

    def _forget(self, number: int) -> None:
        """Delete a term that no tool contains any more, so that changing servers cannot fill the memory."""
        term = self._postings[number].term
        del self._ids[term]
        for gram in _grams(term):
            sharing = self._grams[gram]
            sharing[_position(sharing, number)] = sharing[-1]
            del sharing[-1]
            if not sharing:
                del self._grams[gram]
        self._unused.append(number)


class _Posting:
    """The tools that contain one term, unordered, with its weight in each."""

    __slots__ = ("slots", "term", "weights")

    def __init__(self, term: str) -> None:
        self.term = term
        self.slots = array("i")
        self.weights = array("f")


class _Match:
    """The scores that one term of a query gives to the tools that contain it."""

    __slots__ = ("gains", "slots")

    def __init__(self, posting: _Posting, worth: float) -> None:
        import numpy as np

        self.slots = np.frombuffer(posting.slots, np.int32)
        self.gains = np.frombuffer(posting.weights, np.float32) * np.float32(worth)

    def leave_out(self, taken: Flags) -> None:
        """This match without the tools that are taken already."""
        left = ~taken[self.slots]
        self.slots, self.gains = self.slots[left], self.gains[left]


def _sum(matches: list[_Match], slots: int) -> Scores:
    """The score of every slot. All matches are collected first, so that each array is read once."""
    import numpy as np

    if not matches:
        return np.zeros(slots, np.float32)
    where, gains = np.concatenate([m.slots for m in matches]), np.concatenate([m.gains for m in matches])
    summed: Scores = np.bincount(where, gains, slots).astype(np.float32)
    return summed


def _by_worth(found: tuple[float, _Posting]) -> tuple[float, str]:
    return -found[0], found[1].term


def _drop(slots: array[int], values: array[float], slot: int) -> None:
    """Remove one slot. The last one moves to its place."""
    at = _position(slots, slot)
    slots[at], values[at] = slots[-1], values[-1]
    del slots[-1], values[-1]


def _position(slots: array[int], slot: int) -> int:
    """The position of a slot. Long arrays are searched without creating an object for each element."""
    if len(slots) < 100:
        return slots.index(slot)
    import numpy as np

    return int(np.flatnonzero(np.frombuffer(slots, np.int32) == slot)[0])


def _frequencies(fields: ToolFields) -> dict[str, float]:
    """The weighted frequency of each term over all fields. Each field is normalized by its typical length."""
    total: dict[str, float] = {}
    for texts, weight, typical in (
        ((fields.name,), 3.0, 3.0),
        (fields.keywords, 1.5, 4.0),
        ((fields.server,), 0.8, 2.0),
        ((fields.description,), 1.0, 10.0),
        (fields.parameters, 0.7, 6.0),
        (fields.parameter_descriptions, 0.4, 24.0),
    ):
        found = [term for text in texts for term in words.terms(text)][:MAX_TERMS_PER_TOOL]
        share = weight / (1 - _LENGTH + _LENGTH * len(found) / typical)
        for term in found:
            total[term] = total.get(term, 0.0) + share
    total.setdefault(words.joined(fields.name), 3.0)
    return total


def _grams(term: str) -> set[str]:
    """The letter triples of a term; none for short terms and numbers, which are not compared by spelling."""
    if len(term) < _FUZZY_SHORTEST or not term.isalpha():
        return set()
    padded = f"^{term}$"
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


_SATURATION = 1.2
"""BM25's k1: how soon repetitions of a term stop to matter."""
_LENGTH = 0.5
"""BM25's b: how much long fields are penalized."""
_RELATED_WEIGHT = 0.45
"""The weight of a synonym, against the word itself."""
_INSTEAD_WEIGHT = 0.6
"""The weight of a synonym where no tool has the word itself."""
_FEW = 2_000
_COMMON = 0.02
"""A related word that occurs in a larger share of tools is ignored: it helps too little for its cost."""
_UNKNOWN = 1 << 30
_FUZZY_SHORTEST = 5
_FEWEST_GRAMS = 3
"""The triples of `aaaaa`, with its ends."""
_FUZZY_LEAST = 0.45
_FUZZY_MOST = 3
_FUZZY_WEIGHT = 0.4
