"""A head without its length: heads that are alike differ in that alone."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 9
"""Digits of a length that is worth looking at."""
_MARKS: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_SIZE: Final = len(_MARKS[0])


def cut_length(head: bytes) -> tuple[bytes, int] | None:
    """The head without the digits of its Content-Length, and what they say; None where they are not plainly there.

    No value of a header holds a line's end, so what looks like the line of the length is that line.
    """
    at = head.find(_MARKS[0])
    if at < 0:
        at = head.find(_MARKS[1])
        if at < 0:
            return None
    start = at + _SIZE
    stop = head.find(b"\r\n", start)
    digits = head[start:] if stop < 0 else head[start:stop]
    if not digits.isdigit() or len(digits) > MAX_DIGITS:
        return None
    return head[:start] + (b"" if stop < 0 else head[stop:]), int(digits)
