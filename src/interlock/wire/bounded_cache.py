"""An LRU cache for pure functions of text that peers send.

It holds short arguments only: a peer could fill it with long ones that nobody sends twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar, TypeVarTuple

MAX_KEY_LENGTH: Final = 4_096
_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")


def text_length(*args: object) -> int:
    """The total length of the texts among some arguments."""
    return sum(len(arg) for arg in args if isinstance(arg, bytes | str))


def cache_short(
    most: int, size: Callable[..., int] = text_length, longest: int = MAX_KEY_LENGTH
) -> Callable[[Callable[[*_Args], _Result]], Callable[[*_Args], _Result]]:
    """Cache the results of a function for its `most` last used arguments, except arguments over `longest` in size."""

    def decorate(function: Callable[[*_Args], _Result]) -> Callable[[*_Args], _Result]:
        cached = lru_cache(maxsize=most)(function)

        @wraps(function)
        def call(*args: *_Args) -> _Result:
            return cached(*args) if size(*args) <= longest else function(*args)

        return call

    return decorate
