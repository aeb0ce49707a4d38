"""Log lines of servers for the operator: stderr, stray output on stdout, log messages.

The hub keeps a bounded tail for each server, also for servers that are gone, and redacts secrets when somebody reads
it. Each line is an event too.
"""

from __future__ import annotations

import heapq
from collections import deque
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Final

import msgspec

from interlock.events import Bus
from interlock.events.types import LogWritten, now_us
from interlock.judge.secrets import redact

MAX_LINES: Final = 1000
MAX_LINE_CHARS: Final = 4000
MAX_TAILS: Final = 4096
"""Beyond this many servers, the one that has been silent for the longest time loses its lines."""


class LogLine(msgspec.Struct, frozen=True):
    """One log line."""

    at: str
    server: str
    stream: str
    text: str


class Logs:
    """The tails of all servers."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._tails: dict[str, deque[tuple[int, LogLine]]] = {}
        """The lines of each server, numbered as they came: many come within one instant."""
        self._count = 0

    def add(self, server: str, stream: str, text: str) -> None:
        """Keep a line, drop the oldest, and publish the line."""
        shown = text[:MAX_LINE_CHARS]
        if not shown.isprintable():
            shown = "".join(char if char.isprintable() or char == "\t" else "�" for char in shown)
        at = now_us()
        self._count += 1
        self._tail_of(server).append((self._count, LogLine(_instant(at), server, stream, shown)))
        if self._bus.wants(LogWritten):
            self._bus.publish(LogWritten(server, self._bus.next(), at, stream, redact(shown)))

    def tail(self, server: str | None, count: int) -> list[LogLine]:
        """The last lines of one server, or of all in the order they arrived."""
        tails = self._tails.values() if server is None else [self._tails.get(server, deque())]
        # Each tail is in order, so the newest lines of all are found without looking at the others.
        newest_first = heapq.merge(*map(reversed, tails), key=itemgetter(0), reverse=True)
        return [_without_secrets(line) for _, line in islice(newest_first, max(count, 0))][::-1]

    def _tail_of(self, server: str) -> deque[tuple[int, LogLine]]:
        tail = self._tails.get(server)
        if tail is None:
            if len(self._tails) >= MAX_TAILS:
                del self._tails[min(self._tails, key=lambda each: self._tails[each][-1][0])]
            tail = self._tails[server] = deque(maxlen=MAX_LINES)
        return tail


def line_of(event: LogWritten) -> LogLine:
    """The line that an event tells of."""
    return LogLine(_instant(event.at), event.source, event.stream, event.text)


def _instant(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="milliseconds")


def _without_secrets(line: LogLine) -> LogLine:
    """Redacting happens on reading, as nobody reads most lines."""
    return msgspec.structs.replace(line, text=redact(line.text))
