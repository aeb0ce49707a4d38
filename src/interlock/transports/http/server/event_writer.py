"""Writes the events of one connection: the first in a turn of the loop at once, the others together at its end.

A stream of many small events would otherwise cost a system call each.
"""

from __future__ import annotations

import asyncio

from interlock.transports.batching import Batching


class EventWriter:
    """The events that wait for the end of this turn of the loop."""

    __slots__ = ("_batching", "_burst", "_loop", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, batching: Batching) -> None:
        self._loop = loop
        self._batching = batching
        self.waiting: list[bytes] = []
        """Events that were not written yet."""
        self._burst = False
        """Whether an event was written in this turn."""

    def write(self, transport: asyncio.WriteTransport, event: bytes) -> None:
        """Write an event, or have it wait for those before it."""
        if self._burst:
            self.waiting.append(event)
            return
        self._burst = True
        self._loop.call_soon(self._end_turn, transport)
        self._batching.write(transport, event)

    def flush(self, transport: asyncio.WriteTransport) -> None:
        """Write everything that waits, before other bytes follow."""
        waiting, self.waiting = self.waiting, []
        if waiting and not transport.is_closing():
            self._batching.write(transport, b"".join(waiting))

    def _end_turn(self, transport: asyncio.WriteTransport) -> None:
        self._burst = False
        self.flush(transport)
