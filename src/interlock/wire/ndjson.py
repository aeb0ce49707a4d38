"""Newline-delimited JSON: bytes in whatever pieces they come, whole lines out. No line grows beyond its limit."""

from __future__ import annotations

from typing import Final


class Oversize:
    """Stands in the place of a line that was too long; the reader goes on behind it."""

    def __repr__(self) -> str:
        return "OVERSIZE"


OVERSIZE: Final = Oversize()


class LineReader:
    """Collects bytes and gives lines, without their line ends. Blank lines are passed over."""

    __slots__ = ("_held", "_limit", "_skipping", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._held = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that these bytes complete, in order."""
        if b"\n" not in data:
            self._hold(data)
            return []
        pieces = data.split(b"\n")
        lines: list[bytes | Oversize] = []
        for piece in pieces[:-1]:
            self._end_line(piece, lines)
        self._hold(pieces[-1])
        return lines

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
            lines.append(OVERSIZE)
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
        if not piece or self._skipping:
            return
        if self._held + len(piece) > self._limit:
            self._tail.clear()
            self._skipping = True
            self._held = 0
            return
        self._tail.append(piece)
        self._held += len(piece)
