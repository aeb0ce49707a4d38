"""Measures stalls of the event loop: how late a periodic timer fires."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

EVERY_S: Final = 0.05
STALL_S: Final = 0.005
"""A delay of this length counts as a stall."""
KEPT_S: Final = 60.0


class LoopWatch:
    """Measures the stalls of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._late: deque[tuple[float, float]] = deque()
        """Stalls as (time, length), each longer than all after it."""
        self.stalls = 0
        """How many stalls there were."""

    @classmethod
    def here(cls) -> LoopWatch:
        """The watch of the running loop."""
        loop = asyncio.get_running_loop()
        found = _WATCHES.get(loop)
        if found is None:
            found = _WATCHES[loop] = cls(loop)
        return found

    def start(self) -> None:
        """Watch from now on."""
        self._due = self._loop.time() + EVERY_S
        self._timer = self._loop.call_at(self._due, self._ring)

    def stop(self) -> None:
        """Cancel the timer. The stalls so far still count."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def longest_s(self) -> float:
        """The longest stall of the last minute."""
        self._forget(self._loop.time())
        return self._late[0][1] if self._late else 0.0

    def _ring(self) -> None:
        now = self._loop.time()
        late = now - self._due
        if late >= STALL_S:
            self.stalls += 1
            while self._late and self._late[-1][1] <= late:
                self._late.pop()
            self._late.append((now, late))
        self._forget(now)
        self.start()

    def _forget(self, now: float) -> None:
        while self._late and self._late[0][0] < now - KEPT_S:
            self._late.popleft()


_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatch] = WeakKeyDictionary()
