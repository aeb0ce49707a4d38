"""A cache of resource reads. Each entry lives as long as its resource says it is good.

An entry of a private resource is only ever given to the principal who read it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

MAX_ENTRIES: Final = 1_000
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_ENTRY_BYTES: Final = 4 * 1024 * 1024


class CachedRead(msgspec.Struct, frozen=True):
    """The members of a ReadResourceResult, and for how long they are still good."""

    members: bytes
    left_ms: int


class _Entry(msgspec.Struct, frozen=True):
    resource: object
    members: bytes
    until: float


class ResourceCache:
    """Reads by address and principal; the least recently used go first. Every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.changes = 0
        """Counts updates, so that `put` can refuse a read that began before one."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, resource: object, uri: str, principal_name: str) -> CachedRead | None:
        """The last read of this very resource, if it is still good."""
        with self._lock:
            entry = self._entries.get((uri, principal_name))
            if entry is None:
                return None
            left_ms = int((entry.until - self._clock()) * 1000)
            if left_ms <= 0 or entry.resource is not resource:
                self._drop((uri, principal_name))
                return None
            self._entries.move_to_end((uri, principal_name))
            return CachedRead(entry.members, left_ms)

    def put(self, resource: object, uri: str, principal_name: str, members: bytes, ttl_ms: int, changes: int) -> None:
        """Keep a read, unless it is too large or something was updated since `changes`."""
        with self._lock:
            self._drop((uri, principal_name))
            if len(members) > MAX_ENTRY_BYTES or changes != self.changes:
                return
            self._entries[uri, principal_name] = _Entry(resource, members, self._clock() + ttl_ms / 1000)
            self._bytes += len(members)
            while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
                self._drop(next(iter(self._entries)))

    def forget(self, uri: str) -> None:
        """Drop every read of an address that was updated."""
        with self._lock:
            self.changes += 1
            for key in [key for key in self._entries if key[0] == uri]:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.members)
