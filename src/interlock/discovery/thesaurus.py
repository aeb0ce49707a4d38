"""Words that people and tool authors use for one another, so that a query meets a tool that says it differently.

The words stand in `thesaurus.txt`, a line for each meaning.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from interlock.discovery import words


def related(term: str) -> frozenset[str]:
    """The stemmed terms that tools may use for a stemmed term of a query; empty for most."""
    return _table().get(term, frozenset())


def read(lines: str) -> dict[str, frozenset[str]]:
    """The related terms of each term. Words of one line mean the same; `a > b` holds from left to right only."""
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
