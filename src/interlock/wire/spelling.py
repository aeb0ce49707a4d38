"""Suggests the known name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like a word; None if none does."""
    from difflib import get_close_matches  # imported only after a typing error

    return next(iter(get_close_matches(word, list(known), n=1)), None)


def meant(word: str, known: Iterable[str], otherwise: str) -> str:
    """A hint with the known name that was probably meant, or another hint."""
    near = nearest(word[:200], known)
    return otherwise if near is None else f"did you mean `{near}`?"
