"""Whoever is refused for asking too much, and goes on asking, is answered at an even pace: others do not pay for it.

A refusal that comes first is told at once. Nobody waits longer than a second for one.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from interlock.hub.calls.call import Load

EVERY_S: Final = 0.02
"""Between two such refusals of one principal."""
LONGEST_S: Final = 1.0
SLOWED: Final = frozenset({"RATE_LIMITED", "RESOURCE_EXHAUSTED"})


class RefusalPacing:
    """When the next refusal of each principal is due."""

    def __init__(self) -> None:
        self._due: WeakKeyDictionary[Load, float] = WeakKeyDictionary()

    def pause_s(self, load: Load, now: float) -> float:
        """How long a refusal waits."""
        due = max(now, self._due.get(load, 0.0))
        self._due[load] = min(due + EVERY_S, now + LONGEST_S)
        return due - now
