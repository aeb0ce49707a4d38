"""Measures the memory of this process, and returns free memory to the system.

Much memory is free after a start, or after many definitions changed.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

from interlock.process.allocator import call_allocator

FLOOD: Final = 1_000
"""From this count on, a fall to the half frees much memory."""
_ARENA_MAX: Final = -8


def resident_mb() -> float | None:
    """The resident memory in megabytes. Where the system has only its maximum, that; on Windows None."""
    if sys.platform == "win32":
        return None
    try:
        with open("/proc/self/statm", "rb") as statm:
            return round(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1e6 if sys.platform == "darwin" else peak / 1e3, 1)


def return_free_memory() -> None:
    """Return free memory to the system (glibc only). It locks the heap of all threads, for 80 ms if that is large: call
    it only while nobody waits for this process."""
    call_allocator("malloc_trim", 0)


_freed = threading.Event()


def note_freed_memory() -> None:
    """Much memory of this process has become free. Any thread may say so."""
    _freed.set()


def share_one_heap() -> None:
    """Let all threads share one heap, where glibc would give each its own: few threads run here, and seldom at once.
    Call this before any thread starts."""
    call_allocator("mallopt", _ARENA_MAX, 1)


class FreeMemory:
    """Decides when free memory goes back to the system: once there is much of it, and nobody calls."""

    def __init__(self) -> None:
        self._trend = MemoryTrend()

    def is_due(self, connections: int, *, quiet: bool) -> bool:
        """Whether to return it now. Asked regularly, with the number of open connections."""
        if self._trend.has_fallen(connections):
            _freed.set()
        if not quiet or not _freed.is_set():
            return False
        _freed.clear()
        return True


class MemoryTrend:
    """Detects that a large number of objects or bytes fell by half, so that their memory can be returned."""

    def __init__(self, flood: int = FLOOD) -> None:
        self._flood = flood
        self._peak = 0

    def has_fallen(self, count: int) -> bool:
        """Whether the count is at most half of its peak since the last fall."""
        if self._peak >= self._flood and count * 2 <= self._peak:
            self._peak = count
            return True
        self._peak = max(self._peak, count)
        return False
