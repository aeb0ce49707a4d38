"""A cache of a topic's recent values, bounded per sender and in total.

A sender that exceeds its share loses its own oldest entries, so that no participant can evict the entries of another.
Callers pass the time, which never runs backwards.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")

_MAX_AT_ONCE = 64
"""Expired entries that one call deletes. Others are no longer found, and are deleted later."""


class RecentValues(Generic[T]):
    """Values by key, each kept for the same time."""

    __slots__ = ("_by_sender", "_entries", "_per_sender", "_total", "_window")

    def __init__(self, window: float, per_sender: int, total: int) -> None:
        if min(per_sender, total) < 1 or not window > 0:
            raise ValueError("a memory holds at least one entry for some time")
        self._window, self._per_sender, self._total = window, per_sender, total
        self._entries: OrderedDict[str, tuple[str, float, T]] = OrderedDict()
        self._by_sender: dict[str, deque[str]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now: float) -> T | None:
        """The value of a key; None if there is none."""
        entry = self._entries.get(key)
        return entry[2] if entry is not None and now < entry[1] else None

    def add(self, key: str, value: T, sender: str, now: float) -> None:
        """Add a value. A known key keeps its place and gets the new value."""
        if (known := self._entries.get(key)) is not None and now < known[1]:
            self._entries[key] = (known[0], known[1], value)
            return
        if known is not None:
            self._forget(key)
        self._forget_old(now)
        own = self._by_sender.setdefault(sender, deque())
        own.append(key)
        self._entries[key] = (sender, now + self._window, value)
        if len(own) > self._per_sender:
            self._forget(own[0])
        elif len(self._entries) > self._total:
            self._forget(next(iter(self._entries)))

    def _forget_old(self, now: float) -> None:
        for _ in range(_MAX_AT_ONCE):
            oldest = next(iter(self._entries.items()), None)
            if oldest is None or now < oldest[1][1]:
                return
            self._forget(oldest[0])

    def _forget(self, key: str) -> None:
        sender = self._entries.pop(key)[0]
        own = self._by_sender[sender]
        # Entries of one sender are deleted in their order, except for an expired key that is added again.
        if own[0] == key:
            own.popleft()
        else:
            own.remove(key)
        if not own:
            del self._by_sender[sender]
