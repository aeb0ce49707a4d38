"""Turns of the running loop, asyncio's or uvloop's: how many there were, and how much was done in one at most."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from time import thread_time


class TurnMeter:
    """Looks at a count of work done, and at the thread's own time, once in every turn."""

    def __init__(self, done: Callable[[], int]) -> None:
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._seen = done()
        self._at = thread_time()
        self._on = True
        self.turns = 0
        self.most = 0
        """The most work of one turn."""
        self.dearest_s = 0.0
        """The dearest turn, in thread time."""
        self.spent_s = 0.0
        self._look()

    def stop(self) -> None:
        self._on = False

    def _look(self) -> None:
        done, now = self._done(), thread_time()
        self.turns += 1
        self.most = max(self.most, done - self._seen)
        self.dearest_s = max(self.dearest_s, now - self._at)
        self.spent_s += now - self._at
        self._seen, self._at = done, thread_time()
        if self._on:
            self._loop.call_soon(self._look)


@contextlib.contextmanager
def metered(done: Callable[[], int]) -> Iterator[TurnMeter]:
    """Measure the turns in between."""
    meter = TurnMeter(done)
    try:
        yield meter
    finally:
        meter.stop()
