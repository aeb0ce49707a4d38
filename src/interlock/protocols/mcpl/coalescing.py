"""Coalescing: events of one key wait for a quiet period, never beyond a longest delay, and are delivered together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec

MOST_KEYS: Final = 4_096
MOST_EVENTS: Final = 256
"""Most events of one group that are kept; of more, only the number is."""

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

    @property
    def due(self) -> float:
        """When it is delivered."""
        return min(self.last + self.timing.quiet, self.first + self.timing.longest)


class Waiting(msgspec.Struct, Generic[Event], frozen=True):
    """All groups that wait."""

    groups: Mapping[str, Group[Event]] = {}

    @property
    def next_due(self) -> float | None:
        """When the first group is due; None if none waits."""
        return min((group.due for group in self.groups.values()), default=None)


def join(waiting: Waiting[Event], key: str, event: Event, timing: Timing, now: float) -> Waiting[Event] | None:
    """With an event in its group. None when too many keys wait: the caller then delivers what is due, or refuses."""
    known = waiting.groups.get(key)
    if known is None:
        if len(waiting.groups) >= MOST_KEYS:
            return None
        group = Group(key, now, now, timing, (event,), 1)
    else:
        events = known.events if len(known.events) >= MOST_EVENTS else (*known.events, event)
        # An event that may wait for longer, as a held one, does not put off those before it.
        shorter = Timing(min(timing.quiet, known.timing.quiet), min(timing.longest, known.timing.longest))
        group = Group(key, known.first, max(now, known.last), shorter, events, known.count + 1)
    return Waiting({**waiting.groups, key: group})


def take_due(waiting: Waiting[Event], now: float) -> tuple[tuple[Group[Event], ...], Waiting[Event]]:
    """The groups that are due, earliest first, and the rest."""
    due = sorted((group for group in waiting.groups.values() if group.due <= now), key=lambda group: group.due)
    taken = {group.key for group in due}
    return tuple(due), Waiting({key: group for key, group in waiting.groups.items() if key not in taken})
