"""Runs the garbage collector so briefly that no call waits for it.

Reference counts free requests, so little is left: lost connections, old lists, unused faults. The time of a collection
grows with its objects, so it examines only new ones. The hub freezes (`gc.freeze`) surviving objects before they
are many, and looks for cycles among those when it is idle.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter
from typing import Final

from interlock.process.memory import resident_mb

YOUNG: Final = 5_000
"""New objects before a collection of the youngest generation: half a millisecond."""
YOUNG_COLLECTIONS: Final = 3
"""Collections of the youngest generation before one of the next: at most 20,000 objects, three milliseconds."""
NEVER: Final = 1_000_000
"""The interpreter never collects the last generation by itself; `Collector` does, between calls."""
MAX_NEW: Final = YOUNG * (YOUNG_COLLECTIONS + 1)
"""The largest number of new objects for one collection. More are frozen unexamined."""
MIN_NEW: Final = 700
"""Fewer new objects wait for the next time: an idle hub stays idle."""
LONG_S: Final = 0.001
"""After a longer collection the hub freezes the survivors, so that the next one is short."""
GROWTH_MB: Final = 64.0
"""A full collection needs this much growth of memory since the last one, and twice its size then:
a thousand servers hold 200,000 objects, and examining those takes a tenth of a second,"""
QUIET: Final = 30
"""and this many checks in a row without a call."""


def hold_collector_back() -> None:
    """Freeze the modules at the start, as they live as long as the process, and set the thresholds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_COLLECTIONS, NEVER)


class Collector:
    """Collects cycles between calls."""

    def __init__(self, resident: Callable[[], float | None] = resident_mb) -> None:
        self._resident = resident
        self._calls = 0
        self._quiet = 0
        self._seen_mb = resident() or 0.0
        gc.freeze()

    @property
    def is_quiet(self) -> bool:
        """Whether no call was made or open for half a minute."""
        return self._quiet >= QUIET

    def check(self, calls: int, open_calls: int) -> None:
        """Collect if it is time; `calls` is the number of calls so far. The hub calls this regularly."""
        self._quiet = 0 if open_calls or calls != self._calls else self._quiet + 1
        self._calls = calls
        young, middle, old = gc.get_count()
        new = young + YOUNG * middle + MAX_NEW * old
        if self.is_quiet and (self._resident() or 0.0) - self._seen_mb > max(GROWTH_MB, self._seen_mb):
            self._collect_all()
        elif new > MAX_NEW:
            gc.freeze()
        elif new > MIN_NEW:
            started = perf_counter()
            gc.collect()
            if perf_counter() - started > LONG_S:
                gc.freeze()

    def _collect_all(self) -> None:
        """Collect everything. Takes 25 milliseconds without servers and more with them, so nobody may wait for it."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._seen_mb = self._resident() or 0.0
        self._quiet = 0
