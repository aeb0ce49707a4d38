"""Sets how much memory the allocator of glibc keeps, and has it return free pages."""

from __future__ import annotations

from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK: Final = 512 * 1024
_FREE_AT_TOP: Final = 4 * 1024 * 1024


def return_large_blocks() -> None:
    """Have every large block be a mapping of its own, which goes back to the system when it is freed.

    glibc raises its bound to the largest block it ever saw freed, up to 32 MB: from then on large bodies come from the
    heap, and leave it as large as it was while most of them were there.
    """
    call_allocator("mallopt", _MMAP_THRESHOLD, _LARGE_BLOCK)
    call_allocator("mallopt", _TRIM_THRESHOLD, _FREE_AT_TOP)


def call_allocator(name: str, *args: int) -> None:
    """Call one of its functions, where it has it."""
    import ctypes  # a process that serves needs it; a help text does not

    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):
        return
    function(*args)
