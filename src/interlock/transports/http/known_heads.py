"""Response heads that were read before. A server sends the same head again and again, but for its Content-Length.

A head is found here only if it is the same, byte for byte, as one that the parser has read, at most with another
number for its length. So what is found means what it meant then, and whatever is not found is parsed.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 16
MOST_LENGTHS: Final = 64
MOST_BYTES: Final = 2_048
"""Longer heads are not kept."""

_MARKS: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_MARK_LENGTH: Final = len(_MARKS[0])
_END: Final = b"\r\n\r\n"


class KnownHeads:
    """The headers of each head, by the head."""

    __slots__ = ("_known", "_whole")

    def __init__(self) -> None:
        self._known: dict[bytes, dict[bytes, bytes]] = {}
        """By the head without the line of its length."""
        self._whole: dict[bytes, tuple[dict[bytes, bytes], int]] = {}
        """By the whole head, with the body's length: many answers are as long as one before."""

    def find(self, data: bytes) -> tuple[dict[bytes, bytes], bytes] | None:
        """The headers and the body of a whole response; None where it must be parsed. The length is not theirs."""
        head, _, body = data.partition(_END)
        whole = self._whole.get(head)
        if whole is None:
            return self._find_alike(data)
        return (whole[0], body) if len(body) == whole[1] else None

    def _find_alike(self, data: bytes) -> tuple[dict[bytes, bytes], bytes] | None:
        start = data.find(_MARKS[0], 0, MOST_BYTES)
        if start < 0:
            start = data.find(_MARKS[1], 0, MOST_BYTES)
        stop = data.find(b"\r\n", start + _MARK_LENGTH)
        end = data.find(_END, stop, MOST_BYTES) + 4
        if start < 0 or stop < 0 or end < 4:
            return None
        # Were the mark found in the body, the key would hold an end of a head before its own end, and no key does.
        headers = self._known.get(data[:start] + data[stop:end])
        digits = data[start + _MARK_LENGTH : stop]
        if headers is None or len(digits) > 9 or not digits.isdigit() or len(data) != end + int(digits):
            return None
        if len(self._whole) >= MOST_LENGTHS:
            self._whole.clear()
        self._whole[data[: end - 4]] = headers, int(digits)
        return headers, data[end:]

    def remember(self, data: bytes, headers: dict[bytes, bytes]) -> None:
        """Keep the head that `data` begins with. It must have been parsed from the first byte on."""
        head = data[: data.find(_END, 0, MOST_BYTES) + 4]
        start = max(head.find(mark) for mark in _MARKS)
        if start < 0:
            return
        stop = head.find(b"\r\n", start + _MARK_LENGTH)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[head[:start] + head[stop:]] = headers
