"""Caches answers for their `ttlMs`, also `private` ones: one client has one authorization."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

ENTRIES: Final = 256
MAX_TTL_MS: Final = 24 * 3600 * 1000


class Cache:
    """Answers by method and key. The oldest are dropped first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()

    def get(self, method: str, key: str) -> bytes | None:
        """The entry, if it is still fresh."""
        entry = self._entries.get((method, key))
        if entry is None or entry[0] <= time.monotonic():
            return None
        return entry[1]

    def put(self, method: str, key: str, value: bytes, ttl_ms: int | None) -> None:
        """Keep an answer for its `ttlMs`; an answer without one is not kept."""
        self._entries.pop((method, key), None)
        if ttl_ms is None or ttl_ms <= 0:
            return
        self._entries[method, key] = (time.monotonic() + min(ttl_ms, MAX_TTL_MS) / 1000, value)
        while len(self._entries) > ENTRIES:
            self._entries.popitem(last=False)

    def forget(self, method: str) -> None:
        """Drop all answers of a method: the server said that they changed."""
        for entry in [entry for entry in self._entries if entry[0] == method]:
            del self._entries[entry]
