"""Small charts of a server's last calls: one bar for each call, with its duration as height and its outcome as mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.hub.audit.search import FoundEntry

CALLS: Final = 60
"""Calls in one chart."""
HEIGHT: Final = 32
WIDTH: Final = 4
LOWEST: Final = 2
"""The height of the shortest call, so that every call is visible."""


class CallBar(msgspec.Struct, frozen=True):
    """The bar of one call: its place, its height, and a colour by its outcome."""

    x: int
    y: int
    height: int
    outcome: str


class Chart(msgspec.Struct, frozen=True):
    """The last calls of a server, oldest first, and their figures."""

    bars: list[CallBar]
    calls: int
    failed: int
    median_us: int
    p95_us: int

    @property
    def error_percent(self) -> int:
        """The share of failed calls, rounded up: one failure is never shown as none."""
        return -(-100 * self.failed // self.calls) if self.calls else 0


def chart_of(entries: Sequence[FoundEntry]) -> Chart:
    """The chart of entries, which come newest first. Entries without a duration are not calls, and are skipped."""
    calls = [entry for entry in entries if entry.record.duration_us is not None][:CALLS][::-1]
    durations = [entry.record.duration_us or 0 for entry in calls]
    longest = max(durations, default=0) or 1
    bars = [
        _bar(at, max(LOWEST, round(HEIGHT * duration / longest)), entry.result)
        for at, (entry, duration) in enumerate(zip(calls, durations, strict=True))
    ]
    failed = sum(entry.result != "SUCCESS" for entry in calls)
    ordered = sorted(durations)
    return Chart(bars, len(calls), failed, _quantile(ordered, 0.5), _quantile(ordered, 0.95))


def _bar(at: int, height: int, outcome: str) -> CallBar:
    return CallBar(at * WIDTH, HEIGHT - height, height, outcome)


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0
