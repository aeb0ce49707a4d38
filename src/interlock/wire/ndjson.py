"""Newline-delimited JSON: takes bytes in pieces of any size and returns whole lines. Each line has a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

SEEN: Final = 384
"""How many bytes of each end of a line that is too long are searched for its id."""
SLICE: Final = 4 * 1024
"""How many bytes are split into lines at a time: lines of one byte must not take long either."""


class OversizeLine(msgspec.Struct, frozen=True):
    """Takes the place of a line that was too long. The reader continues after it."""

    head: bytes = b""
    tail: bytes = b""

    @property
    def id(self) -> int | str | None:
        """The id of the message, if it is its first or last member."""
        found = _ID_FIRST.match(self.head) or _ID_LAST.search(self.tail)
        try:
            return None if found is None else msgspec.json.decode(found[1], type=int | str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,256}")\s*'
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_ID_LAST: Final = re.compile(rb"[,{]\s*" + _ID + rb"\}\s*$")


_BLANK: Final = re.compile(rb"\n[ \t\r\n]*\n")
"""Blank lines behind the end of another line."""


class LineReader:
    """Collects bytes and gives lines, without their line ends. Blank lines are left out."""

    __slots__ = ("_last", "_limit", "_tail", "blank_bytes", "buffered_bytes", "head", "skipping")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self.buffered_bytes = 0
        """Bytes of a line that has not ended yet."""
        self.blank_bytes = 0
        """Bytes of blank lines that were left out so far."""
        self.skipping = False
        """Whether a line that is too long has not ended yet."""
        self.head = b""
        """The beginning of the line that is too long, or of the last one that was."""
        self._last = b""

    def feed(self, data: bytes) -> list[bytes | OversizeLine]:
        """The lines that these bytes complete, in order."""
        if (blank := _BLANK.search(data)) is not None:
            short = data[: blank.start()] + _BLANK.sub(b"\n", data[blank.start() :])
            self.blank_bytes += len(data) - len(short)
            data = short
        *ended, rest = data.split(b"\n")
        lines: list[bytes | OversizeLine] = []
        for piece in ended:
            whole = not (self.buffered_bytes or self.skipping or len(piece) > self._limit)
            line = piece.strip() if whole else self._end_line(piece)
            if line:
                lines.append(line)
        if rest:
            self._hold(rest)
        return lines

    def slices(self, data: bytes) -> Iterator[bytes | OversizeLine]:
        """The same as `feed`, in slices: the caller may stop between two lines. An empty line only ends a slice."""
        for at in range(0, len(data), SLICE):
            yield from self.feed(data[at : at + SLICE])
            yield b""

    def _end_line(self, piece: bytes) -> bytes | OversizeLine:
        """A line that began in earlier bytes, or is too long."""
        line: bytes | OversizeLine
        if self.skipping or self.buffered_bytes + len(piece) > self._limit:
            if not self.skipping:
                self._skip(piece)
            line = OversizeLine(self.head, (self._last + piece[-SEEN:])[-SEEN:])
        else:
            line = b"".join((*self._tail, piece)).strip()
        self._tail.clear()
        self.buffered_bytes = 0
        self.skipping = False
        return line

    def _hold(self, piece: bytes) -> None:
        if self.skipping or self.buffered_bytes + len(piece) > self._limit:
            if not self.skipping:
                self._skip(piece)
            self._last = (self._last + piece[-SEEN:])[-SEEN:]
            return
        self._tail.append(piece)
        self.buffered_bytes += len(piece)

    def _skip(self, piece: bytes) -> None:
        """Drop a line that is too long, except its two ends, which may have its id."""
        head = bytearray()
        for part in (*self._tail, piece):
            head += part[: SEEN - len(head)]
            if len(head) == SEEN:
                break
        self.head = bytes(head)
        self._last = b""
        self._tail.clear()
        self.skipping = True
        self.buffered_bytes = 0
