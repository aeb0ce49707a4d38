"""Splits a query once into its terms, its identifiers and its steps.

Rule: ranking, explaining and learning all use these terms, so that a query of any length costs bounded work and memory.
"""

from __future__ import annotations

import msgspec

from interlock.discovery import words
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.query_terms import query_terms
from interlock.discovery.steps import steps

MAX_CHARS = 16_384
"""Characters of a query that are read. Of a longer query, the first and the last half of this number."""
MAX_TERMS = 1_024
"""Distinct terms of a query, or of one step, that are kept. Of more, the first and the last half of this number."""
MAX_EMBEDDED = 8_000
"""Characters of one text that are embedded. Every model reads less."""


class QueryPart(msgspec.Struct, frozen=True):
    """A query or one step of it, with its terms and identifiers, each once and in their order."""

    text: str
    terms: tuple[str, ...]
    names: tuple[str, ...]


class SplitQuery(msgspec.Struct, frozen=True):
    """The parts of a query that a search uses."""

    whole: QueryPart
    steps: tuple[QueryPart, ...]
    """The parts that may each need a different tool; empty if there is only one."""

    @property
    def texts(self) -> list[str]:
        """The texts to embed: the query, then each step."""
        return [part.text[:MAX_EMBEDDED] for part in (self.whole, *self.steps)]


def split_query(query: object) -> SplitQuery:
    """Split a query. Raises `DiscoveryError` for an empty one. It takes up to 0.1 s, so callers use a thread."""
    if not isinstance(query, str) or not query.strip():
        raise DiscoveryError("query", "query is a text that says what the tool should do; it is empty or no text")
    text = words.bounded(query, MAX_CHARS)
    return SplitQuery(_part(text, query_terms(text)), tuple(_part(step, terms) for step, terms in steps(text)))


def _part(text: str, terms: list[str]) -> QueryPart:
    return QueryPart(text, _both_ends(terms), _both_ends(words.identifiers(text)))


def _both_ends(terms: list[str]) -> tuple[str, ...]:
    """Each term once. Of too many, the first and the last: a long text states its need at either end."""
    distinct = dict.fromkeys(terms)
    if len(distinct) <= MAX_TERMS:
        return tuple(distinct)
    half = MAX_TERMS // 2
    kept = {*list(distinct)[:half], *list(dict.fromkeys(reversed(terms)))[:half]}
    return tuple(term for term in distinct if term in kept)
