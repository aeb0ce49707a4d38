"""Coalescing: events with the same key wait for a quiet period, up to a longest delay, and are delivered together."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import msgspec

MAX_KEYS: Final = 4_096
MAX_EVENTS: Final = 256
"""Events of one group that are kept. Further ones are only counted."""
SPARE_TIMES: Final = 64
"""Outdated entries of the heap that may stay before it is rebuilt."""

Event = TypeVar("Event")


class CoalescingTimes(msgspec.Struct, frozen=True):
    """How long events wait, in seconds. Without a quiet period, they are delivered at once."""

    quiet: float = 0.0
    longest: float = 60.0


class EventGroup(msgspec.Struct, Generic[Event], frozen=True):
    """Events of one key that wait together."""

    key: str
    first: float
    last: float
    timing: CoalescingTimes
    events: tuple[Event, ...] = ()
    count: int = 0
    """The number of events, including those that are not kept."""
    number: int = 0
    """Identifies the group within its `WaitingGroups`."""

    @property
    def due(self) -> float:
        """When the group is delivered: after a quiet time, or when its first event has waited for the longest time."""
        return min(self.last + self.timing.quiet, self.first + self.timing.longest)


class WaitingGroups(Generic[Event]):
    """All waiting groups. Servers decide how many there are, so no operation visits all of them."""

    def __init__(self) -> None:
        self._groups: dict[str, EventGroup[Event]] = {}
        self._times: list[tuple[float, int, str]] = []
        """A heap: when each group is due, with its number and key. Some are times that no longer hold."""
        self._numbers = 0

    @property
    def groups(self) -> Mapping[str, EventGroup[Event]]:
        """The groups by their keys."""
        return MappingProxyType(self._groups)

    @property
    def next_due(self) -> float | None:
        """When the first group is due; None if none waits."""
        while self._times and not self._holds(self._times[0]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def join(self, key: str, events: Sequence[Event], timing: CoalescingTimes, now: float) -> bool:
        """Add events to their group. False if too many groups wait; then the caller delivers or refuses the events."""
        known = self._groups.get(key)
        if known is None:
            if len(self._groups) >= MAX_KEYS:
                return False
            self._numbers += 1
            group = EventGroup(key, now, now, timing, tuple(events[:MAX_EVENTS]), len(events), self._numbers)
        else:
            kept = (*known.events, *events[: MAX_EVENTS - len(known.events)])
            # An event with a longer wait, such as a held one, must not delay the events before it.
            shorter = CoalescingTimes(min(timing.quiet, known.timing.quiet), min(timing.longest, known.timing.longest))
            count = known.count + len(events)
            group = EventGroup(key, known.first, max(now, known.last), shorter, kept, count, known.number)
        self._groups[key] = group
        if known is None or known.due != group.due:
            heapq.heappush(self._times, (group.due, group.number, key))
            if len(self._times) > 2 * len(self._groups) + SPARE_TIMES:
                self._times = [(group.due, group.number, key) for key, group in self._groups.items()]
                heapq.heapify(self._times)
        return True

    def take_due(self, now: float, most: int | None = None) -> list[EventGroup[Event]]:
        """Take the groups that are due, earliest first. With `most`, stop after so many events."""
        taken: list[EventGroup[Event]] = []
        events = 0
        while (due := self.next_due) is not None and due <= now and (most is None or events < most):
            group = self._groups.pop(heapq.heappop(self._times)[2])
            taken.append(group)
            events += len(group.events)
        return taken

    def _holds(self, time: tuple[float, int, str]) -> bool:
        due, number, key = time
        group = self._groups.get(key)
        return group is not None and (group.due, group.number) == (due, number)
