"""The memory of this process: how much it holds, and giving back what is free of it. After a start, or a change of many
definitions, that is much."""

from __future__ import annotations

import os
import sys
from typing import Final

from interlock.transports.allocator import call_allocator

FLOOD: Final = 1_000
"""So many of something are a flood; when half of them have gone, so has what they took."""
_ARENA_MAX: Final = -8


def resident_mb() -> float | None:
    """What it holds now, in megabytes; where the system does not tell, the most it ever held, or None."""
    if sys.platform == "win32":
        return None
    try:
        with open("/proc/self/statm", "rb") as statm:
            return round(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    except OSError:
        pass
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / 1e6 if sys.platform == "darwin" else most / 1e3, 1)


def give_back() -> None:
    """Hand what the allocator keeps for later back to the system, where its allocator can: glibc's. Takes milliseconds,
    without the interpreter's lock."""
    call_allocator("malloc_trim", 0)


def share_one_heap() -> None:
    """Have all threads take from one heap, where the allocator (glibc's) would keep one for each of them: few threads
    work here, and seldom at once. To be said before there are any."""
    call_allocator("mallopt", _ARENA_MAX, 1)


class MemoryTrend:
    """Notices that many of something have gone, each of which took memory of its own."""

    def __init__(self) -> None:
        self._most = 0

    def has_fallen(self, count: int) -> bool:
        """Whether there are at most half as many as there were since this was last so."""
        if self._most >= FLOOD and count * 2 <= self._most:
            self._most = count
            return True
        self._most = max(self._most, count)
        return False
