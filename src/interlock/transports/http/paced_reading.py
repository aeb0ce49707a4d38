"""Reads the bytes of one connection a piece at a time. While bytes wait, the socket is not read.

Both halves of HTTP use it: connections of clients, and connections to servers.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class PieceReader(Protocol):
    """Reads the bytes of one connection."""

    def read_piece(self, data: bytes, at: int) -> int:
        """Read a piece of `data` from there on. Returns where the next one begins; the end if the rest is dropped."""

    def must_wait(self) -> bool:
        """Whether the next piece waits. Asked before every piece but the first of `data`."""

    def on_waiting(self) -> None:
        """Bytes wait from now on. The reader has them read later (`PacedReading.read_waiting`)."""


class PacedReading:
    """The bytes that wait on one connection, and the flow of its socket."""

    __slots__ = ("_has_bytes", "_transport", "is_paused", "waiting")

    def __init__(self, transport: asyncio.ReadTransport) -> None:
        self._transport = transport
        self._has_bytes = False
        """Whether the socket is not read because bytes wait."""
        self.is_paused = False
        """Whether the socket is not read for another reason."""
        self.waiting = b""
        """Bytes that were received and not read yet."""

    def read(self, data: bytes, reader: PieceReader) -> None:
        """Read received bytes, behind those that wait: as many pieces as may be read now."""
        if self.waiting:
            self.hold(data, reader)
            return
        at, size = 0, len(data)
        while at < size:
            if at and reader.must_wait():
                self.hold(data[at:], reader)
                return
            at = reader.read_piece(data, at)

    def hold(self, data: bytes, reader: PieceReader) -> None:
        """Keep received bytes for later, behind those that wait."""
        self.waiting += data
        if not self._has_bytes:
            self._has_bytes = True
            if not self.is_paused:
                self._transport.pause_reading()
        reader.on_waiting()

    def read_waiting(self, reader: PieceReader) -> None:
        """Read the bytes that wait, and then the socket again if none are left."""
        data, self.waiting = self.waiting, b""
        self.read(data, reader)
        if not self.waiting:
            self.release()

    def release(self) -> None:
        """Drop the bytes that wait."""
        self.waiting = b""
        if self._has_bytes:
            self._has_bytes = False
            if not self.is_paused and not self._transport.is_closing():
                self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Read nothing more from the socket."""
        if not self.is_paused:
            self.is_paused = True
            if not self._has_bytes:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again, once no bytes wait."""
        if self.is_paused:
            self.is_paused = False
            if not self._has_bytes:
                self._transport.resume_reading()
