"""What resources held when they were last read, kept for as long as each says it is good, and no longer.

What one caller may see of a private resource is never shown to another.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

MOST_ENTRIES: Final = 1_000
MOST_BYTES: Final = 32 * 1024 * 1024
LARGEST: Final = 4 * 1024 * 1024


class ParkedCall(msgspec.Struct, frozen=True):
    """What is still good, and for how long."""

    members: bytes
    left_ms: int


class _Entry(msgspec.Struct, frozen=True):
    resource: object
    members: bytes
    until: float


class Kept:
    """By address and owner, the least lately used dropped first. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.changes = 0
        """Grows with whatever is forgotten, so that what was read before a change is not kept after it."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, resource: object, uri: str, owner: str) -> ParkedCall | None:
        """What this very resource held, if that is still good."""
        with self._lock:
            entry = self._entries.get((uri, owner))
            if entry is None:
                return None
            left_ms = int((entry.until - self._clock()) * 1000)
            if left_ms <= 0 or entry.resource is not resource:
                self._drop((uri, owner))
                return None
            self._entries.move_to_end((uri, owner))
            return ParkedCall(entry.members, left_ms)

    def put(self, resource: object, uri: str, owner: str, members: bytes, ttl_ms: int, changes: int) -> None:
        """Keep what was read, unless something has changed since `changes`. What is too large is read every time."""
        with self._lock:
            self._drop((uri, owner))
            if len(members) > LARGEST or changes != self.changes:
                return
            self._entries[uri, owner] = _Entry(resource, members, self._clock() + ttl_ms / 1000)
            self._bytes += len(members)
            while len(self._entries) > MOST_ENTRIES or self._bytes > MOST_BYTES:
                self._drop(next(iter(self._entries)))

    def forget(self, uri: str) -> None:
        """It has changed."""
        with self._lock:
            self.changes += 1
            for key in [key for key in self._entries if key[0] == uri]:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.members)
