"""Flow control of one client connection, which also keeps received bytes that wait for a later turn of the loop.

Nothing more is read from the socket while bytes wait, whoever asks for it.
"""

from __future__ import annotations

import asyncio


class ReadFlow:
    """The flow of one client connection."""

    read_paused = False

    waiting = b""
    """Bytes that were received and not read yet."""
    _held = False

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def hold(self, data: bytes) -> None:
        """Keep bytes, behind those that wait already."""
        self.waiting += data
        if not self._held:
            self._held = True
            if not self.read_paused:
                self._transport.pause_reading()

    def take(self) -> bytes:
        """The bytes that wait. `release` or `hold` follows."""
        data, self.waiting = self.waiting, b""
        return data

    def release(self) -> None:
        """No bytes wait any more."""
        self.waiting = b""
        if self._held:
            self._held = False
            if not self.read_paused and not self._transport.is_closing():
                self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Read nothing more from the socket."""
        if not self.read_paused:
            self.read_paused = True
            if not self._held:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again, once no bytes wait."""
        if self.read_paused:
            self.read_paused = False
            if not self._held:
                self._transport.resume_reading()
