"""The brackets of a piece: which arrays and objects are open behind it, and how deep it goes."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from interlock.wire.large_pieces import UnreadableMessage, no_json


class Nesting(NamedTuple):
    """The brackets that are open behind a piece."""

    kinds: bytes
    """One opening bracket for each array or object, the outermost first."""
    lowest: int
    """How many of those before the piece stay open all the time."""

    @property
    def ends_in_object(self) -> bool:
        """Whether the innermost one is an object."""
        return self.kinds.endswith(b"{")

    @property
    def closing(self) -> bytes:
        """The brackets that close all of them."""
        return self.kinds[::-1].translate(_CLOSING)


def nesting_behind(before: bytes, brackets: bytes, max_depth: int) -> Nesting:
    """The nesting behind the brackets of a piece, where those of `before` were open. Raises `UnreadableMessage`."""
    short, passes = brackets, 0
    while len(left := short.replace(b"{}", b"").replace(b"[]", b"")) < len(short) * 3 // 4:
        short, passes = left, passes + 1
    kinds, lowest, deepest = _walk(before, short)
    # A pass takes out two levels at most.
    if deepest + 2 * passes > max_depth:
        kinds, lowest, deepest = _walk(before, brackets)
    if deepest > max_depth:
        raise UnreadableMessage("INVALID_REQUEST", f"nested deeper than {max_depth - 2} levels")
    return Nesting(kinds, lowest)


def _walk(before: bytes, brackets: bytes) -> tuple[bytes, int, int]:
    """The brackets that are open behind others, and how many were open at least and at most."""
    kinds = bytearray(before)
    lowest = deepest = len(kinds)
    for run in _RUNS.findall(brackets):
        if run[0] in _OPENING:
            kinds += run
            deepest = max(deepest, len(kinds))
        elif kinds[-len(run) :] == run[::-1].translate(_OPENED_BY):
            del kinds[-len(run) :]
            lowest = min(lowest, len(kinds))
        else:
            raise no_json("an array or object ends that has not begun")
    return bytes(kinds), lowest, deepest


_OPENING: Final = b"{["
_RUNS: Final = re.compile(rb"[{[]++|[}\]]++")
_OPENED_BY: Final = bytes.maketrans(b"}]", b"{[")
_CLOSING: Final = bytes.maketrans(b"{[", b"}]")
