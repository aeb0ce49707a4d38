"""A server's stderr, cut into lines for the operator. Bounded per line, per second and in memory."""

from __future__ import annotations

import re
from collections import deque
from typing import Final

LINE_BYTES: Final = 8 * 1024
LINES_PER_SECOND: Final = 200
REMEMBERED: Final = 12

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class StderrLines:
    """Splits bytes into lines that are fit for a log. It keeps the last few, to explain an exit."""

    __slots__ = ("_allowance", "_cut", "_dropped", "_second", "_tail", "last")

    def __init__(self) -> None:
        self._tail = b""
        self._cut = False
        self._second = 0
        self._allowance = LINES_PER_SECOND
        self._dropped = 0
        self.last: deque[str] = deque(maxlen=REMEMBERED)

    def feed(self, data: bytes, now: float) -> list[str]:
        """The lines that these bytes complete and that the rate allows."""
        lines = self._renew(now)
        if self._allowance == 0 and data.count(b"\n") > REMEMBERED:
            # A flood: it is no longer reported, and only its end is kept.
            kept = data.rsplit(b"\n", REMEMBERED + 1)[1:]
            self._dropped += data.count(b"\n") - REMEMBERED
            self._tail, self._cut, data = b"", False, b"\n".join(kept)
        *whole, rest = data.split(b"\n")
        for piece in whole:
            lines += self._end_line(piece)
        self._hold(rest)
        return lines

    def finish(self) -> list[str]:
        """The rest at the end of the stream."""
        lines = self._end_line(b"")
        if self._dropped:
            lines.append(f"({self._dropped} more lines were dropped)")
            self._dropped = 0
        return lines

    def _renew(self, now: float) -> list[str]:
        if int(now) == self._second:
            return []
        self._second = int(now)
        self._allowance = LINES_PER_SECOND
        dropped, self._dropped = self._dropped, 0
        return [f"({dropped} more lines were dropped)"] if dropped else []

    def _hold(self, piece: bytes) -> None:
        room = LINE_BYTES - len(self._tail)
        self._tail += piece[:room]
        self._cut = self._cut or len(piece) > room

    def _end_line(self, piece: bytes) -> list[str]:
        self._hold(piece)
        text = printable(self._tail)
        if self._cut:
            text += " (cut)"
        self._tail, self._cut = b"", False
        if not text:
            return []
        self.last.append(text)
        if self._allowance == 0:
            self._dropped += 1
            return []
        self._allowance -= 1
        return [text]


def printable(data: bytes) -> str:
    """Text that can go to a terminal or a log: no colours, no control characters, no broken UTF-8."""
    text = data.decode("utf-8", "replace").rstrip()
    if text.isprintable():
        return text
    text = _ANSI.sub("", text)
    return "".join(char if char.isprintable() else " " if char == "\t" else f"\\x{ord(char):02x}" for char in text)
