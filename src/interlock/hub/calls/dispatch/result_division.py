"""Divides a long result into a head and pages, each within a number of tokens.

The hub counts the tokens of each piece by itself, as a model will read it. Of a very long text it counts the beginning
and estimates the rest; the division then says that it is not exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

Count = Callable[[str], int]

MAX_COUNTED: Final = 500_000
"""Upper bound for the characters of one result that are counted, which takes half a second."""
SLICE: Final = 60_000
_TRIES: Final = 8


class Division(msgspec.Struct, frozen=True):
    """Where texts are divided. Places are in bytes of UTF-8."""

    fits: bool
    block: int = 0
    """The first text that is not shown whole, and how much of it is."""
    at: int = 0
    shown: int = 0
    total: int = 0
    """In tokens."""
    bounds: list[int] = []
    """The ends of the pages of what is left over, joined by blank lines."""
    exact: bool = True


def divide(texts: Sequence[str], most: int, count: Count, *, whole_last: bool = False) -> Division:
    """Divide texts: at most `most` tokens are shown, and the rest goes to pages of the same size.

    With `whole_last`, the last one is shown whole or not at all.
    """
    shown = 0
    for index, text in enumerate(texts):
        room = most - shown
        end, tokens, whole = _head(text, room, count)
        if not whole:
            if whole_last and index == len(texts) - 1:
                end, tokens = 0, 0
            return _divided(texts, index, end, shown + tokens, most, count)
        shown += tokens
    return Division(fits=True, shown=shown, total=shown)


def left_over(texts: Sequence[str], block: int, at: int) -> str:
    """The part that is not shown."""
    first = texts[block].encode()[at:].decode()
    return "\n\n".join([first, *filter(None, texts[block + 1 :])])


def _divided(texts: Sequence[str], block: int, end: int, shown: int, most: int, count: Count) -> Division:
    at = len(texts[block][:end].encode())
    rest = left_over(texts, block, at)
    bounds: list[int] = []
    start = octets = tokens = 0
    per_token = _USUAL
    while start < min(len(rest), MAX_COUNTED):
        length, held, _ = _head(rest[start : start + most * _MAX_TOKEN_CHARS], most, count, per_token)
        length = max(length, 1)
        per_token = length / max(held, 1)
        octets += len(rest[start : start + length].encode())
        bounds.append(octets)
        tokens += held
        start += length
    exact = start == len(rest)
    page = max(1, int(most * per_token * _CAREFUL))
    while start < len(rest):
        part = rest[start : start + page]
        octets += len(part.encode())
        bounds.append(octets)
        tokens += int(len(part) / per_token)
        start += page
    return Division(False, block, at, shown, shown + tokens, bounds, exact)


_USUAL: Final = 4.0
_CAREFUL: Final = 0.8
_MAX_TOKEN_CHARS: Final = 32
"""Characters of text that are looked at for each token; only runs of one sign make longer ones."""


def _head(text: str, most: int, count: Count, per_token: float = _USUAL) -> tuple[int, int, bool]:
    """The characters that have at most `most` tokens, how many tokens those are, and whether that is the whole text."""
    if most <= 0:
        return 0, 0, not text
    length = min(len(text), max(1, int(most * per_token)))
    low, high, tokens = 0, len(text) + 1, 0
    for _ in range(_TRIES):
        found = _count(text[:length], count)
        if found <= most:
            low, tokens = length, found
            if length == len(text):
                return length, found, True
        else:
            high = length
        if high - low <= 1 or tokens * 20 >= most * 19:
            break
        guess = int(length * most / max(found, 1) * _NEARLY)
        length = min(max(guess, low + 1), high - 1, max(length, 1) * 4)
    return _line_end(text, low, tokens, count)


_NEARLY: Final = 0.99


def _line_end(text: str, end: int, tokens: int, count: Count) -> tuple[int, int, bool]:
    """Move the end back to the end of a line, if one is near."""
    line = text.rfind("\n", end * 3 // 4, end) + 1
    return (line, _count(text[:line], count), False) if 0 < line < end else (end, tokens, False)


def _count(text: str, count: Count) -> int:
    return sum(count(text[start : start + SLICE]) for start in range(0, len(text), SLICE))
