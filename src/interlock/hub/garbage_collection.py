"""When the garbage collector runs, and for how long: never so long that a call waits for it.

Requests are freed by reference counts alone, so what is left to the collector is little: lost connections to servers,
old lists, faults that nobody was told. Its time grows with the objects it looks at, so it looks at the new ones alone.
Those that stay are set aside (`gc.freeze`) before they are many. Cycles among those are found when nobody calls.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter
from typing import Final

from interlock.hub.memory import resident_mb

YOUNG: Final = 5_000
"""Objects made, less those freed, before the youngest generation is looked at: half a millisecond."""
ROUNDS: Final = 3
"""Looks at the youngest generation before the next is looked at with it: at most 20,000 objects, three milliseconds."""
NEVER: Final = 1_000_000
"""The last generation is looked at here, between calls, and not in the middle of one."""
FEW: Final = YOUNG * (ROUNDS + 1)
"""So many new objects are looked at in one go; more are set aside unseen."""
WORTH: Final = 700
"""Fewer new objects than that are left for the next time: an idle hub stays idle."""
LONG_S: Final = 0.001
"""A look that takes longer sets aside what it found alive, so that the next is short again."""
GROWTH_MB: Final = 16.0
"""Everything is looked at when memory has grown by so much since it was last,"""
QUIET: Final = 5
"""and no call was made or under way so many times in a row."""


def hold_collector_back() -> None:
    """At the start: the modules live as long as the process, and the collector need not look at them again."""
    gc.freeze()
    gc.set_threshold(YOUNG, ROUNDS, NEVER)


class Collector:
    """Looks for cycles, once in a while."""

    def __init__(self, resident: Callable[[], float | None] = resident_mb) -> None:
        self._resident = resident
        self._calls = 0
        self._quiet = 0
        self._seen_mb = 0.0
        self._look_at_everything()

    def look(self, calls: int, open_calls: int) -> None:
        """A moment has passed; `calls` were made so far."""
        self._quiet = 0 if open_calls or calls != self._calls else self._quiet + 1
        self._calls = calls
        young, rounds, more = gc.get_count()
        new = young + YOUNG * rounds + FEW * more
        if self._quiet >= QUIET and (self._resident() or 0.0) - self._seen_mb > GROWTH_MB:
            self._look_at_everything()
        elif new > FEW:
            gc.freeze()
        elif new > WORTH:
            began = perf_counter()
            gc.collect()
            if perf_counter() - began > LONG_S:
                gc.freeze()

    def _look_at_everything(self) -> None:
        """Takes some 25 milliseconds: at the start, or when nobody waits."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._seen_mb = self._resident() or 0.0
        self._quiet = 0
