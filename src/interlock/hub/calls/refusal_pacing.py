"""Delays refusals for too many requests, so that a caller that goes on asking costs the others nothing.

The first refusal is sent at once. None is delayed for longer than a second.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from interlock.hub.calls.call import OpenCalls

EVERY_S: Final = 0.02
"""The pause between two such refusals of one principal."""
MAX_PAUSE_S: Final = 1.0
SLOWED: Final = frozenset({"RATE_LIMITED", "RESOURCE_EXHAUSTED"})


class RefusalPacing:
    """When the next refusal of each principal is due."""

    def __init__(self) -> None:
        self._due: WeakKeyDictionary[OpenCalls, float] = WeakKeyDictionary()

    def pause_s(self, open_calls: OpenCalls, now: float) -> float:
        """How long to delay a refusal."""
        due = max(now, self._due.get(open_calls, 0.0))
        self._due[open_calls] = min(due + EVERY_S, now + MAX_PAUSE_S)
        return due - now
