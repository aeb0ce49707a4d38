"""Counts of open work by peer forget peers without any."""

from __future__ import annotations

from interlock.process.open_counts import OpenCounts


def test_a_peer_without_open_work_is_forgotten() -> None:
    counts: OpenCounts[str] = OpenCounts()
    for amount in (3, 2, -1):
        counts.add("ada", amount)
    counts.add("bob")
    assert (counts["ada"], counts["bob"], counts["nobody"], counts.total()) == (4, 1, 0, 5)
    counts.add("ada", -4)
    counts.add("carol", 0)
    assert list(counts) == ["bob"]
