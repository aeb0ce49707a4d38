"""The limit of open files and connections of this process (`RLIMIT_NOFILE`), which the hub raises at its start."""

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
"""The share that clients may take. The rest is for servers, files, and connections of the hub."""

_given: tuple[int, int] | None = None


def raise_limit() -> int:
    """Raise the limit as far as the system allows. Returns the new limit."""
    if sys.platform != "win32":  # there is no such limit there
        return _raised()
    return UNLIMITED


def for_clients(descriptors: int) -> int:
    """How many connections clients may have open at once."""
    return max(int(descriptors * FOR_CLIENTS), 16)


def as_given(pid: int) -> None:
    """Give a child process the limit that this process had at its start: some programs need a small one."""
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
