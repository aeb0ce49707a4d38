"""Groups of events that wait for their wake, and the timer for the next group that is due.

Groups that are held for the same reason are all due together, so one turn of the loop takes only some of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from interlock.protocols.mcpl.coalescing import CoalescingTimes, EventGroup, WaitingGroups

EVENTS_AT_ONCE: Final = 8
"""Waiting events that one turn of the loop judges, rounded up to whole groups."""


class DueListener(Protocol):
    """Takes the groups that are due."""

    def on_due(self, group: EventGroup[str]) -> None:
        """A group is due. It no longer waits."""


class WakeTimer:
    """The waiting groups: the ids of their events, by the group's key."""

    def __init__(self, listener: DueListener) -> None:
        self._listener = listener
        self._groups: WaitingGroups[str] = WaitingGroups()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """When the timer ends, by the loop's clock."""

    def __len__(self) -> int:
        return len(self._groups.groups)

    def __contains__(self, group: str) -> bool:
        return group in self._groups.groups

    def add(self, group: str, ids: Sequence[str], timing: CoalescingTimes) -> bool:
        """Add events to their group. False if too many groups wait."""
        if not self._groups.join(group, ids, timing, instant()):
            return False
        self._arm()
        return True

    def stop(self) -> None:
        """Report no more groups."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        """Set the timer for the next group that is due, unless it ends earlier already."""
        due = self._groups.next_due
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        self.stop()
        left_s = due - instant()
        # Groups that are due already are handled in the next turn of the loop.
        delay_s = max(0.01, left_s) if left_s > 0 else 0.0
        self._timer, self._timer_at = asyncio.get_running_loop().call_later(delay_s, self._on_time), due

    def _on_time(self) -> None:
        self._timer = None
        for group in self._groups.take_due(instant(), EVENTS_AT_ONCE):
            self._listener.on_due(group)
        self._arm()


def instant() -> float:
    """The current time of the loop."""
    return asyncio.get_running_loop().time()
