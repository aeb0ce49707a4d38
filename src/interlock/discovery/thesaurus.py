"""Related words, so that a query finds a tool that uses other words.

`thesaurus.txt` has a line for each meaning.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from interlock.discovery import words


def related(term: str) -> frozenset[str]:
    """The stemmed terms that are related to a stemmed term of a query; empty for most terms."""
    return _table().get(term, frozenset())


def read(lines: str) -> dict[str, frozenset[str]]:
    """The related terms of each term. Words of one line mean the same. `a > b` holds only from left to right."""
    near: dict[str, set[str]] = {}
    for line in lines.splitlines():
        left, one_way, meant = line.partition("#")[0].partition(">")
        stems = [words.stem(word) for word in left.split()]
        found = [words.stem(word) for word in meant.split()] if one_way else stems
        for term in stems:
            near.setdefault(term, set()).update(other for other in found if other != term)
    return {term: frozenset(group) for term, group in near.items()}


@cache
def _table() -> dict[str, frozenset[str]]:
    return read(Path(__file__).with_name("thesaurus.txt").read_text("utf-8"))
