"""Counters of one topic since the hub started."""

from __future__ import annotations

from collections import Counter


class RoomCounts:
    """Counters of one topic. Labels are bounded: reasons are those of MCPx."""

    __slots__ = ("dropped", "joined", "passed", "presences", "refused")

    def __init__(self) -> None:
        self.joined = 0
        self.passed = 0
        """Envelopes that were passed on."""
        self.presences = 0
        """Comings, goings and changes that everyone was told of."""
        self.dropped = 0
        """Connections that ended because their participants did not read."""
        self.refused: Counter[str] = Counter()
        """By reason."""
