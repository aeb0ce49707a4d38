"""A memory for what peers say over and over: of short words alone, since long ones would fill it with what nobody says
twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar, TypeVarTuple

MAX_KEY_LENGTH: Final = 4_096
_Words = TypeVarTuple("_Words")
_Given = TypeVar("_Given")


def size_of_words(*words: object) -> int:
    """How much of a peer's own words these are."""
    return sum(len(word) for word in words if isinstance(word, bytes | str))


def remembers_short(
    most: int, size: Callable[..., int] = size_of_words, longest: int = MAX_KEY_LENGTH
) -> Callable[[Callable[[*_Words], _Given]], Callable[[*_Words], _Given]]:
    """Have a pure function remember what it gave for as many different words, save for those that are too long."""

    def remembering(function: Callable[[*_Words], _Given]) -> Callable[[*_Words], _Given]:
        remembered = lru_cache(maxsize=most)(function)

        @wraps(function)
        def either(*words: *_Words) -> _Given:
            return remembered(*words) if size(*words) <= longest else function(*words)

        return either

    return remembering
