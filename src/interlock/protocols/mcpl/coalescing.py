"""Coalescing: events of one key wait for a quiet period, never beyond a longest delay, and are delivered together."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import msgspec

MAX_KEYS: Final = 4_096
MAX_EVENTS: Final = 256
"""Most events of one group that are kept; of more, only the number is."""
SPARE_TIMES: Final = 64
"""Times that no longer hold and that are kept at least, until they are cleared away."""

Event = TypeVar("Event")


class Timing(msgspec.Struct, frozen=True):
    """How long events wait, in seconds. No quiet period delivers at once."""

    quiet: float = 0.0
    longest: float = 60.0


class Group(msgspec.Struct, Generic[Event], frozen=True):
    """Events of one key that wait together."""

    key: str
    first: float
    last: float
    timing: Timing
    events: tuple[Event, ...] = ()
    count: int = 0
    """How many there were, kept or not."""
    number: int = 0
    """The groups of one `WaitingGroups` are numbered."""

    @property
    def due(self) -> float:
        """When it is delivered."""
        return min(self.last + self.timing.quiet, self.first + self.timing.longest)


class WaitingGroups(Generic[Event]):
    """All groups that wait. Servers choose how many there are, so no step looks at all of them."""

    def __init__(self) -> None:
        self._groups: dict[str, Group[Event]] = {}
        self._times: list[tuple[float, int, str]] = []
        """A heap: when each group is due, with its number and key. Some are times that no longer hold."""
        self._numbers = 0

    @property
    def groups(self) -> Mapping[str, Group[Event]]:
        """The groups by their keys."""
        return MappingProxyType(self._groups)

    @property
    def next_due(self) -> float | None:
        """When the first group is due; None if none waits."""
        while self._times and not self._holds(self._times[0]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def join(self, key: str, events: Sequence[Event], timing: Timing, now: float) -> bool:
        """Put events into their group. False when too many keys wait: the caller then delivers them, or refuses."""
        known = self._groups.get(key)
        if known is None:
            if len(self._groups) >= MAX_KEYS:
                return False
            self._numbers += 1
            group = Group(key, now, now, timing, tuple(events[:MAX_EVENTS]), len(events), self._numbers)
        else:
            kept = (*known.events, *events[: MAX_EVENTS - len(known.events)])
            # An event that may wait for longer, as a held one, does not put off those before it.
            shorter = Timing(min(timing.quiet, known.timing.quiet), min(timing.longest, known.timing.longest))
            count = known.count + len(events)
            group = Group(key, known.first, max(now, known.last), shorter, kept, count, known.number)
        self._groups[key] = group
        if known is None or known.due != group.due:
            heapq.heappush(self._times, (group.due, group.number, key))
            if len(self._times) > 2 * len(self._groups) + SPARE_TIMES:
                self._times = [(group.due, group.number, key) for key, group in self._groups.items()]
                heapq.heapify(self._times)
        return True

    def take_due(self, now: float, most: int | None = None) -> list[Group[Event]]:
        """Take the groups that are due, earliest first; with `most`, no further ones after so many events."""
        taken: list[Group[Event]] = []
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
