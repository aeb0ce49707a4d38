"""Cuts the bytes of a WebSocket into frames, so that a reader can count frames and stop between two of them.

It reads lengths alone (RFC 6455, Base Framing Protocol). `websockets` judges the frames, and is imported with the first
participant.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

_FINAL, _CONTROL, _OPCODE, _CLOSE = 0x80, 0x08, 0x0F, 0x08
_MASKED, _LENGTH = 0x80, 0x7F


class MessageOutcome(enum.Enum):
    """How a receiver took a message."""

    ACCEPTED = enum.auto()
    REFUSED = enum.auto()
    """Answered with a refusal. Its cost counts against the peer's share of the loop."""
    LATER = enum.auto()
    """Not taken. Nothing more is read until `resume`."""


class Frames:
    """The bytes of one peer that were received and not read yet."""

    __slots__ = ("_at", "_data", "_missing")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._missing = 0
        """Bytes of the frame that was begun."""

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    @property
    def at_start(self) -> bool:
        """Whether the next bytes begin a frame."""
        return self._missing == 0

    def first(self) -> int | None:
        """The next byte. None while nothing can be read: a frame is only begun when its head has arrived."""
        if self._at >= len(self._data) or (self._missing == 0 and self._length() is None):
            return None
        return self._data[self._at]

    def take(self) -> bytes:
        """The next frame, or the part of it that has arrived. Only after `first` gave a byte."""
        length = self._missing or self._length()
        assert length is not None
        begin, end = self._at, min(self._at + length, len(self._data))
        self._missing = length - (end - begin)
        self._at = end
        if begin == 0 and end == len(self._data):
            return self._data
        return self._data[begin:end]

    def _length(self) -> int | None:
        """The length of the frame that begins here, its head included."""
        data, at = self._data, self._at
        if len(data) - at < 2:
            return None
        length = data[at + 1] & _LENGTH
        more = {126: 2, 127: 8}.get(length, 0)
        head = 2 + more + (4 if data[at + 1] & _MASKED else 0)
        if len(data) - at < head:
            return None
        if more:
            length = int.from_bytes(data[at + 2 : at + 2 + more], "big")
        return head + length


def is_message_end(first: int) -> bool:
    """Whether a frame with this first byte completes a message."""
    return bool(first & _FINAL) and not first & _CONTROL


def is_closing(first: int) -> bool:
    """Whether a frame with this first byte ends the connection."""
    return first & _OPCODE == _CLOSE


def texts_of(frames: bytes) -> Iterator[bytes]:
    """The messages in frames of `text_frame`, one after the other."""
    at = 0
    while at < len(frames):
        # RFC 6455, Base Framing Protocol: 126 and 127 say that 2 or 8 bytes with the length follow.
        size, start = frames[at + 1], at + 2
        if size > 125:
            start = at + {126: 4, 127: 10}[size]
            size = int.from_bytes(frames[at + 2 : start])
        at = start + size
        yield frames[start:at]
