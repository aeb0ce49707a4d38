"""Log lines of servers for the operator: stderr, stray output on stdout, log messages.

The hub keeps a bounded tail for each server and redacts secrets when somebody reads it. Each line is an event too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.events import Bus
from interlock.events.types import LogWritten, now_us
from interlock.judge.secrets import redact

MAX_LINES: Final = 1000
MAX_LINE_CHARS: Final = 4000


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
        self._tails: dict[str, deque[LogLine]] = {}

    def add(self, server: str, stream: str, text: str) -> None:
        """Keep a line, drop the oldest, and publish the line."""
        shown = text[:MAX_LINE_CHARS]
        if not shown.isprintable():
            shown = "".join(char if char.isprintable() or char == "\t" else "�" for char in shown)
        at = now_us()
        self._tails.setdefault(server, deque(maxlen=MAX_LINES)).append(LogLine(_instant(at), server, stream, shown))
        if self._bus.wants(LogWritten):
            self._bus.publish(LogWritten(server, self._bus.next(), at, stream, redact(shown)))

    def tail(self, server: str | None, count: int) -> list[LogLine]:
        """The last lines of one server, or of all in the order they arrived."""
        chosen: Iterable[deque[LogLine]] = (
            self._tails.values() if server is None else [self._tails.get(server, deque())]
        )
        lines = sorted((line for tail in chosen for line in tail), key=lambda line: line.at)
        return [_without_secrets(line) for line in lines[-count:]] if count > 0 else []

    def forget(self, server: str) -> None:
        """Drop the lines of a server that was removed."""
        self._tails.pop(server, None)


def line_of(event: LogWritten) -> LogLine:
    """The line that an event tells of."""
    return LogLine(_instant(event.at), event.source, event.stream, event.text)


def _instant(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="milliseconds")


def _without_secrets(line: LogLine) -> LogLine:
    """Redacting happens on reading, as nobody reads most lines."""
    return msgspec.structs.replace(line, text=redact(line.text))
