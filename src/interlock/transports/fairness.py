"""Bounds the loop time that one server may take with messages that are no answers.

A server that sends more than its share is read later, so only its own messages wait.
"""

from __future__ import annotations

from typing import Final

PART: Final = 0.125
SLICE_S: Final = 0.00025
"""The loop time for each turn of a server that never stops sending. It hardly delays a call beside it."""
MAX_S: Final = 0.001
"""Upper bound for the allowance that a silent server collects."""
FIRST_S: Final = 0.00002
"""Assumed cost of the first message after an answer, which is not measured."""


class Share:
    """The remaining allowance of one server."""

    __slots__ = ("_left", "_seen")

    def __init__(self) -> None:
        self._left = MAX_S
        self._seen = 0.0

    def spend(self, seconds: float, now: float) -> float:
        """Take some of the allowance. Returns how long to pause: 0 while some is left, else until a slice is."""
        self._left = min(self._left + (now - self._seen) * PART, MAX_S) - seconds
        self._seen = now
        return 0.0 if self._left > 0 else (SLICE_S - self._left) / PART
