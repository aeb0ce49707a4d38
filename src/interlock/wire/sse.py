"""Server-sent events: an encoder, and a reader of bytes in pieces of any size. Each event has a bound."""

from __future__ import annotations

from typing import Final

import msgspec

KEEP_ALIVE: Final = b":\n\n"
LINES: Final = 10_000
"""Most lines of data in one event."""
LONG: Final = 64 * 1024
"""A line of this size is copied as few times as can be."""


class SseEvent(msgspec.Struct, frozen=True):
    """One event as the reader saw it."""

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventTooLarge(ValueError):
    """An event grew beyond the limit; the stream cannot be trusted any further."""


def encode_event(data: bytes, id: str | None = None, retry: int | None = None) -> bytes:
    """One message event. `data` is a single line."""
    head = b""
    if id is not None:
        head += b"id: %b\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    return b"%bdata: %b\n\n" % (head, data)


class EventReader:
    """Gives the events that the bytes complete (WHATWG, Server-sent events: interpreting an event stream)."""

    __slots__ = (
        "_buffered",
        "_cut",
        "_data",
        "_event",
        "_id",
        "_limit",
        "_pieces",
        "_retry",
        "_setting",
        "_size",
        "_started",
    )

    def __init__(self, limit: int, setting: str = "") -> None:
        """`limit`: bytes of one event. `setting`: the name of the limit, which the error then names."""
        self._limit = limit
        self._setting = setting
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._cut = False
        """The last byte was a CR, which ended its line; an LF that follows belongs to it."""
        self._started = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that these bytes complete, in order. Raises `EventTooLarge`."""
        if self._cut and data:
            self._cut = False
            data = data.removeprefix(b"\n")
        if b"\n" not in data and b"\r" not in data:
            # A long line in many pieces is joined once, at its end, not at every piece.
            self._hold(data)
            return []
        events: list[SseEvent] = []
        if self._buffered > LONG:
            data = self._end_long_line(data, events)
        buffer = b"".join((*self._pieces, data))
        self._pieces.clear()
        self._buffered = 0
        if not self._started and len(buffer) >= 3:
            self._started = True
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
        self._cut = buffer.endswith(b"\r")
        if b"\r" in buffer:
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = buffer.split(b"\n")
        for line in lines:
            self._take(line, events)
        self._hold(rest)
        return events

    def _end_long_line(self, data: bytes, events: list[SseEvent]) -> bytes:
        """Finish the line that came in many pieces, copying it once. Returns the bytes behind it."""
        end = min(at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0)
        pieces, self._pieces, self._buffered = self._pieces, [], 0
        if not self._started:
            self._started = True
            pieces[0] = pieces[0].removeprefix(b"\xef\xbb\xbf")
        prefix = b"data: " if pieces[0].startswith(b"data: ") else b"data:"
        if pieces[0].startswith(prefix):
            self._add(b"".join((pieces[0][len(prefix) :], *pieces[1:], data[:end])))
        else:
            self._take(b"".join((*pieces, data[:end])), events)
        if data[end : end + 2] == b"\r\n":
            return data[end + 2 :]
        self._cut = data[end:] == b"\r"
        return data[end + 1 :]

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1
        if self._size > self._limit:
            raise self._too_large()
        if len(self._data) >= LINES:
            raise EventTooLarge(f"event is over the limit of {LINES} lines")
        self._data.append(value)

    def _hold(self, piece: bytes) -> None:
        self._buffered += len(piece)
        if self._buffered + self._size > self._limit:
            raise self._too_large()
        if piece:
            self._pieces.append(piece)

    def _too_large(self) -> EventTooLarge:
        named = f" (`{self._setting}`)" if self._setting else ""
        return EventTooLarge(f"event is over the limit of {self._limit} bytes{named}")

    def _take(self, line: bytes, events: list[SseEvent]) -> None:
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data or self._id is not None or self._retry is not None:
            events.append(SseEvent(b"\n".join(self._data), self._event or "message", self._id, self._retry))
        self._data = []
        self._size = 0
        self._event = ""
        self._id = None
        self._retry = None
