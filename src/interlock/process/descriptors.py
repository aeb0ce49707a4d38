"""How many files and connections this process may have open: a system gives it few at first, and more when asked."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

if sys.platform != "win32":
    import resource

WANTED: Final = 65_536
FEWER: Final = 10_240
"""The value that some systems report for "no limit"."""
UNLIMITED: Final = 16_384
FOR_CLIENTS: Final = 0.75
"""The part of them that clients may take; the rest is for servers, files, and the way out."""

_given: tuple[int, int] | None = None


def raise_limit() -> int:
    """Ask for as many as there may be. Gives how many there are now."""
    if sys.platform != "win32":  # there is no such limit there
        return _raised()
    return UNLIMITED


def for_clients(descriptors: int) -> int:
    """How many connections clients may have open at once."""
    return max(int(descriptors * FOR_CLIENTS), 16)


def as_given(pid: int) -> None:
    """Let a process that was started here have the limit that this one was given: some count on a small one."""
    if sys.platform == "linux" and _given is not None:  # elsewhere one process cannot set it for another
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _given)


if sys.platform != "win32":

    def _raised() -> int:
        global _given
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        _given = _given or (soft, hard)
        for wanted in (WANTED, FEWER):
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            if soft != resource.RLIM_INFINITY and soft < most:
                try:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
                except (OSError, ValueError):
                    continue
                return most
        return WANTED if soft == resource.RLIM_INFINITY else soft
