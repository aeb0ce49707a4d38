"""Response heads that were read before. A server sends the same head again and again, but for its Content-Length.

A head is found here only if it is the same, byte for byte, as one that the parser has read, at most with another
number for its length. So what is found means what it meant then, and whatever is not found is parsed.
"""

from __future__ import annotations

from typing import Final

from interlock.transports.http.lengths import cut_length

MOST: Final = 16
MOST_LENGTHS: Final = 64
MOST_BYTES: Final = 2_048
"""Longer heads are not kept."""

_END: Final = b"\r\n\r\n"


class KnownHeads:
    """The headers of each head, by the head."""

    __slots__ = ("_known", "_whole")

    def __init__(self) -> None:
        self._known: dict[bytes, dict[bytes, bytes]] = {}
        """By the head without its length."""
        self._whole: dict[bytes, tuple[dict[bytes, bytes], int]] = {}
        """By the whole head, with the body's length: many answers are as long as one before."""

    def find(self, data: bytes) -> tuple[dict[bytes, bytes], bytes] | None:
        """The headers and the body of a whole response; None where it must be parsed. The length is not theirs."""
        head, _, body = data.partition(_END)
        whole = self._whole.get(head) or self._find_alike(head)
        return (whole[0], body) if whole is not None and len(body) == whole[1] else None

    def _find_alike(self, head: bytes) -> tuple[dict[bytes, bytes], int] | None:
        cut = cut_length(head) if len(head) <= MOST_BYTES else None
        headers = None if cut is None else self._known.get(cut[0])
        if cut is None or headers is None:
            return None
        if len(self._whole) >= MOST_LENGTHS:
            self._whole.clear()
        whole = self._whole[head] = headers, cut[1]
        return whole

    def remember(self, data: bytes, headers: dict[bytes, bytes]) -> None:
        """Keep the head that `data` begins with. It must have been parsed from the first byte on."""
        head = data.partition(_END)[0]
        cut = cut_length(head) if len(head) <= MOST_BYTES else None
        if cut is not None:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[cut[0]] = headers
