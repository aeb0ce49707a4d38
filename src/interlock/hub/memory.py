"""The memory of this process: how much it holds, and giving back what is free of it. After a start, or a change of many
definitions, that is much."""

from __future__ import annotations

import os
import sys
from typing import Final

FLOOD: Final = 1_000
"""So many of something are a flood; when half of them have gone, so has what they took."""
_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
_LARGE_BLOCK: Final = 512 * 1024
_FREE_AT_TOP: Final = 4 * 1024 * 1024


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
    _allocator("malloc_trim", 0)


def share_one_heap() -> None:
    """Have all threads take from one heap, where the allocator (glibc's) would keep one for each of them: few threads
    work here, and seldom at once. To be said before there are any."""
    _allocator("mallopt", _ARENA_MAX, 1)


def return_large_blocks() -> None:
    """Have every large block be a mapping of its own, which goes back to the system when it is freed. glibc would raise
    its bound to the largest block it ever saw freed, up to 32 MB: from then on large bodies would come from the heap,
    and leave it as large as it was while most of them were there."""
    _allocator("mallopt", _MMAP_THRESHOLD, _LARGE_BLOCK)
    _allocator("mallopt", _TRIM_THRESHOLD, _FREE_AT_TOP)


def _allocator(name: str, *args: int) -> None:
    import ctypes  # a hub needs it; a help text does not

    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):
        return
    function(*args)


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
