"""Splits a server's stderr into lines for the operator. Bounded per line, per second, in memory and in time.

Splitting is cheap. Making a line printable costs more, so lines wait until the loop has time, and dropped lines are
never made printable.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Final

LINE_BYTES: Final = 8 * 1024
LINES_PER_SECOND: Final = 200
REMEMBERED: Final = 20
EXPLAINING: Final = 3
"""How many lines explain an exit."""
SEEN_CHARS: Final = 500
"""Characters of a line that tell whether it explains an exit."""
WAITING_BYTES: Final = 256 * 1024
"""Upper bound for the bytes of lines that wait. Beyond it lines are dropped, and counted."""
LAST_BYTES: Final = 2 * LINE_BYTES
"""The same at the end of the stream, when lines can wait no longer."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

_PYTHON_FRAME = re.compile(r'\s++File ".*", line \d+')
_EXPLAINS_NOTHING = re.compile(
    r"""[^\w]*$                                  # carets under a line, closing brackets
    |\s++at\s                                   # a frame of Node.js
    |Node\.js\ v
    |npm\ (?:error|ERR!)\s++(?:[A-Z]*\d+)?\s*    # npm ends with advice, and with the path of its own log
     (?:$|Note\ that\ you\ can|tarball,\ folder|A\ complete\ log|/)
    """,
    re.VERBOSE,
)


class StderrLines:
    """Splits bytes into lines that are fit for a log. It keeps the last few, to explain an exit."""

    __slots__ = ("_allowance", "_cut", "_dropped", "_last", "_second", "_tail", "_waiting", "_waiting_bytes")

    def __init__(self) -> None:
        self._tail = b""
        self._cut = False
        self._second = 0
        self._allowance = LINES_PER_SECOND
        self._dropped = 0
        self._waiting: deque[tuple[bytes, bool]] = deque()
        """Lines for the log, and whether each is cut."""
        self._waiting_bytes = 0
        self._last: deque[tuple[bytes, bool]] = deque(maxlen=REMEMBERED)

    @property
    def last(self) -> list[str]:
        """The last lines that say something."""
        return [text for text in (_shown(line, cut) for line, cut in self._last) if text]

    def explain_exit(self) -> str:
        """The last lines without frames of a traceback and without a launcher's closing words; else the last lines."""
        last = self.last
        frame = max((at for at, text in enumerate(last) if _PYTHON_FRAME.match(text[:SEEN_CHARS])), default=-1)
        told = [text for text in last[frame + 1 :] if not _EXPLAINS_NOTHING.match(text[:SEEN_CHARS])]
        if frame >= 0:
            told = [text for text in told if not text[0].isspace()]
        return "; ".join((told or last)[-EXPLAINING:])

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes in. `lines` gives the lines that they complete and that the rate allows."""
        self._renew(now)
        count = data.count(b"\n")
        if count > self._allowance + REMEMBERED:
            # A flood: lines beyond the rate are only counted, but for its end.
            *whole, flood = data.split(b"\n", self._allowance)
            for piece in whole:
                self._end_line(piece)
            data = b"\n".join(flood.rsplit(b"\n", REMEMBERED)[1:])
            self._dropped += count - len(whole) - (REMEMBERED - 1)
            self._tail, self._cut = b"", False
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._end_line(piece)
        self._hold(rest)

    def lines(self) -> Iterator[str]:
        """The lines for the log. A caller may stop at any of them, and continue later. A line that only sets colours
        is returned as an empty one, since it took as long as any other."""
        while self._waiting:
            line, cut = self._waiting.popleft()
            self._waiting_bytes -= len(line)
            yield _shown(line, cut)

    def finish(self) -> list[str]:
        """The rest at the end of the stream."""
        self._end_line(b"")
        while self._waiting_bytes > LAST_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft()[0])
            self._dropped += 1
        lines = [line for line in self.lines() if line]
        if self._dropped:
            lines.append(_dropped(self._dropped))
            self._dropped = 0
        return lines

    def _renew(self, now: float) -> None:
        if int(now) == self._second:
            return
        self._second = int(now)
        self._allowance = LINES_PER_SECOND
        if self._dropped:
            self._wait(_dropped(self._dropped).encode(), False)
            self._dropped = 0

    def _hold(self, piece: bytes) -> None:
        room = LINE_BYTES - len(self._tail)
        self._tail += piece[:room]
        self._cut = self._cut or len(piece) > room

    def _end_line(self, piece: bytes) -> None:
        self._hold(piece)
        line, cut = self._tail, self._cut
        self._tail, self._cut = b"", False
        if not line or line.isspace():
            return
        self._last.append((line, cut))
        if self._allowance == 0 or self._waiting_bytes > WAITING_BYTES:
            self._dropped += 1
            return
        self._allowance -= 1
        self._wait(line, cut)

    def _wait(self, line: bytes, cut: bool) -> None:
        self._waiting.append((line, cut))
        self._waiting_bytes += len(line)


def printable(data: bytes) -> str:
    """Text that can go to a terminal or a log: no colours, no control characters, no broken UTF-8."""
    text = data.decode("utf-8", "replace").rstrip()
    if text.isprintable():
        return text
    return _ANSI.sub("", text).translate(_ESCAPES)


def _shown(line: bytes, cut: bool) -> str:
    text = printable(line)
    return f"{text} (cut)" if cut else text


def _dropped(count: int) -> str:
    return f"({count} more lines were dropped)"


class _Escapes(dict[int, str]):
    """How each character is shown. Those of Latin-1 are kept: the others are too many."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char if char.isprintable() else " " if char == "\t" else f"\\x{code:02x}"
        if code < 256:
            self[code] = shown
        return shown


_ESCAPES: Final = _Escapes()
