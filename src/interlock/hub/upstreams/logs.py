"""Log lines of servers for the operator: stderr, stray output on stdout, log messages.

The hub keeps a bounded tail for each server and redacts secrets when somebody reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

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

    def __init__(self) -> None:
        self._tails: dict[str, deque[LogLine]] = {}
        self._listeners: set[Callable[[LogLine], None]] = set()

    def add(self, server: str, stream: str, text: str) -> None:
        """Keep a line, drop the oldest, and pass the line to followers."""
        shown = text[:MAX_LINE_CHARS]
        if not shown.isprintable():
            shown = "".join(char if char.isprintable() or char == "\t" else "�" for char in shown)
        line = LogLine(datetime.now(UTC).isoformat(timespec="milliseconds"), server, stream, shown)
        self._tails.setdefault(server, deque(maxlen=MAX_LINES)).append(line)
        if self._listeners:
            line = _without_secrets(line)
        for listener in tuple(self._listeners):
            listener(line)

    def tail(self, server: str | None, count: int) -> list[LogLine]:
        """The last lines of one server, or of all in the order they arrived."""
        chosen: Iterable[deque[LogLine]] = (
            self._tails.values() if server is None else [self._tails.get(server, deque())]
        )
        lines = sorted((line for tail in chosen for line in tail), key=lambda line: line.at)
        return [_without_secrets(line) for line in lines[-count:]] if count > 0 else []

    def follow(self, listener: Callable[[LogLine], None]) -> Callable[[], None]:
        """Pass every further line to a listener. Returns a function that stops that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def forget(self, server: str) -> None:
        """Drop the lines of a server that was removed."""
        self._tails.pop(server, None)


def _without_secrets(line: LogLine) -> LogLine:
    """Redacting happens on reading, as nobody reads most lines."""
    return msgspec.structs.replace(line, text=redact(line.text))
