"""Cuts the Content-Length out of a head, so that heads that differ in it alone can be compared."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 9
"""Upper bound for the digits of a length. A longer one is left to the parser."""
_MARKS: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_SIZE: Final = len(_MARKS[0])


def cut_length(head: bytes) -> tuple[bytes, int] | None:
    """The head without the digits of its Content-Length, and their value; None where there is no plain one.

    No header value contains a line break, so a line that looks like the Content-Length is it.
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
