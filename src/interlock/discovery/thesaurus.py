"""Related words, so that a query finds a tool that uses other words.

`thesaurus.txt` has a line for each meaning.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from interlock.discovery import words


def related(term: str) -> frozenset[str]:
    """The stemmed terms that are related to a stemmed term of a query, or equal it; empty for most terms."""
    return _related().get(term, frozenset())


def equal(term: str) -> frozenset[str]:
    """The stemmed terms that are used for the same thing as a stemmed term of a query; empty for most terms."""
    return _equal().get(term, frozenset())


def read(lines: str) -> dict[str, frozenset[str]]:
    """The related terms of each term. Words of one line mean the same. `a > b` holds only from left to right."""
    near: dict[str, set[str]] = {}
    for line in lines.splitlines():
        left, one_way, meant = line.partition("#")[0].removeprefix(_EQUAL).partition(">")
        stems = [words.stem(word) for word in left.split()]
        found = [words.stem(word) for word in meant.split()] if one_way else stems
        for term in stems:
            near.setdefault(term, set()).update(other for other in found if other != term)
    return {term: frozenset(group) for term, group in near.items()}


def read_equal(lines: str) -> dict[str, frozenset[str]]:
    """The terms of each term that are used for the same thing: those of lines that begin with `=`."""
    return read("\n".join(line for line in lines.splitlines() if line.startswith(_EQUAL)))


_EQUAL = "="


@cache
def _related() -> dict[str, frozenset[str]]:
    return read(_text())


@cache
def _equal() -> dict[str, frozenset[str]]:
    return read_equal(_text())


def _text() -> str:
    return Path(__file__).with_name("thesaurus.txt").read_text("utf-8")
