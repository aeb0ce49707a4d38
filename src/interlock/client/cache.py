"""Answers that stay fresh for as long as the server said. One client is one authorization, so `private` ones too."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

ENTRIES: Final = 256
MAX_TTL_MS: Final = 24 * 3600 * 1000


class Cache:
    """By method and key, the oldest dropped first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()

    def get(self, method: str, key: str) -> bytes | None:
        """The entry, if it is still fresh."""
        entry = self._entries.get((method, key))
        if entry is None or entry[0] <= time.monotonic():
            return None
        return entry[1]

    def put(self, method: str, key: str, value: bytes, ttl_ms: int | None) -> None:
        """Keep it for as long as the server said; not at all where it said nothing."""
        self._entries.pop((method, key), None)
        if ttl_ms is None or ttl_ms <= 0:
            return
        self._entries[method, key] = (time.monotonic() + min(ttl_ms, MAX_TTL_MS) / 1000, value)
        while len(self._entries) > ENTRIES:
            self._entries.popitem(last=False)

    def forget(self, method: str) -> None:
        """Everything of a method: the server said that it changed."""
        for entry in [entry for entry in self._entries if entry[0] == method]:
            del self._entries[entry]
