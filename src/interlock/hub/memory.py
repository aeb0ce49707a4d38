"""Memory that is free goes back to the system: after a start, or a change of many definitions, there is much of it."""

from __future__ import annotations


def give_back() -> None:
    """Hand what the allocator keeps for later back to the system, where its allocator can: glibc's. Takes milliseconds,
    without the interpreter's lock."""
    import ctypes  # once at rest, and not at all where nothing comes to rest

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(0)
