"""Newline-delimited JSON: bytes in whatever pieces they come, whole lines out. No line grows beyond its limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

SEEN: Final = 384
"""How much of each end of a line that is too long is looked at."""
SLICE: Final = 4 * 1024
"""How much is divided into lines at a time: so little that even lines of one byte take no time worth mentioning."""


class Oversize(msgspec.Struct, frozen=True):
    """Stands in the place of a line that was too long; the reader goes on behind it."""

    head: bytes = b""
    tail: bytes = b""

    @property
    def id(self) -> int | str | None:
        """The id of the message that it was, where that stands first or last."""
        found = _ID_FIRST.match(self.head) or _ID_LAST.search(self.tail)
        try:
            return None if found is None else msgspec.json.decode(found[1], type=int | str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,256}")\s*'
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_ID_LAST: Final = re.compile(rb"[,{]\s*" + _ID + rb"\}\s*$")


class LineReader:
    """Collects bytes and gives lines, without their line ends. Blank lines are passed over."""

    __slots__ = ("_head", "_held", "_last", "_limit", "_skipping", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._held = 0
        self._skipping = False
        self._head = self._last = b""

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that these bytes complete, in order."""
        if b"\n" not in data:
            self._hold(data)
            return []
        if not self._held and not self._skipping and not data.strip():
            return []
        pieces = data.split(b"\n")
        lines: list[bytes | Oversize] = []
        for piece in pieces[:-1]:
            self._end_line(piece, lines)
        self._hold(pieces[-1])
        return lines

    def each(self, data: bytes) -> Iterator[bytes | Oversize]:
        """The same, a little at a time: whoever takes the lines may stop between them. An empty line says that a slice
        is done, and means nothing."""
        if len(data) <= SLICE:
            yield from self.feed(data)
            return
        for at in range(0, len(data), SLICE):
            yield from self.feed(data[at : at + SLICE])
            yield b""

    @property
    def held(self) -> int:
        """Bytes of a line that has not ended yet."""
        return self._held

    @property
    def skipping(self) -> bool:
        """Whether a line that is too long has not ended yet."""
        return self._skipping

    def _end_line(self, piece: bytes, lines: list[bytes | Oversize]) -> None:
        line = piece
        if self._skipping or self._held + len(piece) > self._limit:
            if not self._skipping:
                self._skip(piece)
            lines.append(Oversize(self._head, (self._last + piece[-SEEN:])[-SEEN:]))
            line = b""
        elif self._tail:
            line = b"".join((*self._tail, piece))
        self._tail.clear()
        self._held = 0
        self._skipping = False
        line = line.strip()
        if line:
            lines.append(line)

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        if self._skipping or self._held + len(piece) > self._limit:
            if not self._skipping:
                self._skip(piece)
            self._last = (self._last + piece[-SEEN:])[-SEEN:]
            return
        self._tail.append(piece)
        self._held += len(piece)

    def _skip(self, piece: bytes) -> None:
        """Let go of a line that is too long. Its ends may say whose it is."""
        head = bytearray()
        for part in (*self._tail, piece):
            head += part[: SEEN - len(head)]
            if len(head) == SEEN:
                break
        self._head = bytes(head)
        self._last = b""
        self._tail.clear()
        self._skipping = True
        self._held = 0
