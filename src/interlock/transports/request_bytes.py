"""Bounds the bytes of open requests, per peer and over all connections that share a count.

A peer may hold as much as is still free, so that some is left for the next one. A single request may hold all of it:
otherwise a request over half of the bound would always be refused.
"""

from __future__ import annotations

from typing import Final

from interlock.process.memory import MemoryTrend, note_freed_memory
from interlock.process.open_counts import OpenCounts
from interlock.wire.errors import Fault

MAX_BYTES: Final = 64 * 1024 * 1024
SMALL: Final = 4 * 1024
"""Requests up to this size do not count: their number is bounded."""
FLOOD_BYTES: Final = 16 * 1024 * 1024
"""A fall from at least this many bytes to half of them frees much memory, which the allocator may keep: one small
object at its end is enough."""
COPIES: Final = 3
"""How often the bytes of a small request count: memory holds its body, its params and its arguments, and for a while
the message to the server."""


def full() -> Fault:
    """The refusal of a request for which there is no room."""
    message = "open requests of this caller hold too many bytes already"
    return Fault("RESOURCE_EXHAUSTED", message, hint="send it again in a moment", retry_after_ms=1000)


class RequestBytes:
    """The bytes of the requests that are not answered yet."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: dict[object, tuple[str, int]] = {}
        self._by_peer: OpenCounts[str] = OpenCounts()
        self._trend = MemoryTrend(FLOOD_BYTES)
        self.bytes = 0
        """The bytes of all peers."""

    def __contains__(self, request: object) -> bool:
        return request in self._held

    def hold(self, request: object, peer: str, size: int) -> bool:
        """Count the bytes that a request holds, until `release`. False where there is no room for them."""
        self._drop(request)
        self._held[request] = peer, size
        self._add(peer, size)
        self._note_trend()
        left = self._max_bytes - self.bytes
        is_only = self._by_peer[peer] == size
        return left >= 0 and (is_only or self._by_peer[peer] <= left)

    def release(self, request: object) -> None:
        """The request is answered, or its bytes are freed."""
        if request in self._held:
            self._drop(request)
            self._note_trend()

    def _drop(self, request: object) -> None:
        if request in self._held:
            peer, size = self._held.pop(request)
            self._add(peer, -size)

    def _add(self, peer: str, size: int) -> None:
        self.bytes += size
        self._by_peer.add(peer, size)

    def _note_trend(self) -> None:
        if self._trend.has_fallen(self.bytes):
            note_freed_memory()
