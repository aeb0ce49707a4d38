"""BM25 over the fields of tool definitions: scores tools against a query, and tells what they match.

The parts: `tool_fields` weighs the terms of a tool, `postings` keeps the tools of each term, `spelling` finds terms
spelled alike, and `term_matches` finds the tools that one term of a query matches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from interlock.discovery.postings import Postings, SearchScope
from interlock.discovery.term_matches import Match, TermMatches, summed
from interlock.discovery.tool_fields import ToolFields, term_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]

MAX_TERMS = 96
"""Distinct terms of one query that are scored. If there are more, the rarest are."""

Query = Mapping[str, Collection[str]]
"""The terms of a query, each once, with its related words."""


class LexicalIndex:
    """Tools by their words. They are identified by the slot numbers of the caller."""

    def __init__(self) -> None:
        self._postings = Postings()
        self._matches = TermMatches(self._postings)

    def __len__(self) -> int:
        return len(self._postings)

    def knows(self, term: str, scope: SearchScope | None) -> bool:
        """Whether a visible tool contains a term."""
        return self._postings.known(term, scope) is not None

    def put(self, slot: int, fields: ToolFields) -> None:
        """Index a tool under a slot, and replace the slot's previous tool."""
        self._matches.clear()
        if slot in self._postings:
            self._postings.remove(slot)
        self._postings.put(slot, term_weights(fields))

    def remove(self, slot: int) -> None:
        """Forget the tool under a slot."""
        self._matches.clear()
        self._postings.remove(slot)

    def score(self, queries: Sequence[Query], slots: int, scope: SearchScope | None = None) -> list[Scores]:
        """How well each slot matches each query.

        The queries are usually one text and its sentences, so each term is looked up once for all of them.
        """
        import numpy as np

        taken = np.zeros(slots, np.bool_)
        matches: dict[str, list[Match]] = {}
        for query in queries:
            for term, related in query.items():
                if term not in matches:
                    matches[term] = self._matches.of(term, tuple(related), taken, scope)
        return [summed([match for term in query for match in matches[term]], slots) for query in queries]

    def matched(self, query: Query, slot: int, scope: SearchScope | None = None) -> list[tuple[str, str]]:
        """The terms of a query that a slot matches, each with the matching term of the tool."""
        held = self._postings.terms_of(slot)
        found: list[tuple[str, str]] = []
        for term, related in query.items():
            known = self.knows(term, scope) or any(self.knows(other, scope) for other in related)
            near = [] if known else self._postings.alike(term, scope)
            meant = (term, *related, *(posting.term for posting, _ in near))
            found.extend((term, other) for other in meant[: None if term not in held else 1] if other in held)
        return found

    def coverage(self, query: Query, slot: int, scope: SearchScope | None = None) -> float:
        """How much of a query a slot covers, from 0 to 1, weighted by rarity. An unknown term is the rarest.

        Unlike a score, it does not grow when a part matches better. It shows whether the whole need is met.
        """
        met: dict[str, float] = {}
        for term, found in self.matched(query, slot, scope):
            share = 1.0 if found == term else _RELATED_COVERS if found in query[term] else _ALIKE_COVERS
            met[term] = max(share, met.get(term, 0.0))
        worth = {term: self._worth(term, scope, self._postings.greatest_rarity(scope)) for term in query}
        whole = sum(worth.values())
        return sum(worth[term] * share for term, share in met.items()) / whole if whole else 0.0

    def ideal(self, query: Query, scope: SearchScope | None = None) -> float:
        """The score of an imaginary tool that contains every known term of the query once, in an important field."""
        return max(1e-6, sum(self._worth(term, scope, 0.0) for term in query))

    def rarest(self, terms: Collection[str], scope: SearchScope | None = None) -> list[str]:
        """The terms of a query that are scored, each once, in their order."""
        distinct = dict.fromkeys(terms)
        if len(distinct) <= MAX_TERMS:
            return list(distinct)
        rarity = {term: self._worth(term, scope, 0.0) for term in distinct}
        kept = set(sorted(distinct, key=lambda term: -rarity[term])[:MAX_TERMS])
        return [term for term in distinct if term in kept]

    def _worth(self, term: str, scope: SearchScope | None, unknown: float) -> float:
        """The rarity of a term, or the value for an unknown one."""
        posting = self._postings.known(term, scope)
        return unknown if posting is None else self._postings.rarity(posting, scope)


_RELATED_COVERS = 0.9
"""The coverage of a term by a related word."""
_ALIKE_COVERS = 0.5
"""The coverage of a term by a similarly spelled word: a socket is not a rocket."""
