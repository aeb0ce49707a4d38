"""Suggests the known name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that is most similar to a word; None if none has a similarity of `alike` (0 to 1)."""
    from difflib import get_close_matches  # imported only after a typing error

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=alike)), None)


def meant(word: str, known: Iterable[str], otherwise: str) -> str:
    """A hint with the known name that was probably meant, or another hint."""
    near = nearest(word[:200], known)
    return otherwise if near is None else f"did you mean `{near}`?"
