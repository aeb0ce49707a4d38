"""A started server, as the launcher sees it: its process, its control groups, and when its time is over."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from interlock.containment import bubblewrap, sandlock_backend

if sys.platform != "linux":
    raise ImportError("containment needs Linux")


class LauncherChild:
    """A server that was started and has not ended."""

    def __init__(self, pid: int, backend: str, groups: list[Path], ends_at: float, pins: list[int]) -> None:
        self._pid = pid
        self._backend = backend
        self.groups = groups
        self._pins = pins
        self.ends_at = ends_at
        self.killed = False

    def forget(self) -> None:
        """Forget a server that has ended."""
        sandlock_backend.forget(self._pid)
        close_all(self._pins)

    def signal(self, number: int) -> None:
        """Send a signal to the server and its group."""
        reached = bubblewrap.servers_below(self._pid) if self._backend == "bubblewrap" else set()
        if number == signal.SIGKILL or not reached:
            kill(self._pid, number)
        for server in reached:
            kill(server, number, group=False)


def close_all(numbers: list[int]) -> None:
    """Close descriptors and empty the list, so that a second call closes no number that was used again."""
    while numbers:
        os.close(numbers.pop())


def kill(pid: int, number: int, *, group: bool = True) -> None:
    """Send a signal to a process, or to its group, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, number)
