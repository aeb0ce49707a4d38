"""The last events of one address, shared by all its subscribers: adding one costs the same for one or ten thousand."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from operator import itemgetter
from typing import Final, Protocol, TypeAlias

import msgspec

from .types import Delivery, Event, Gap

Address: TypeAlias = type[Event] | tuple[type[Event], str]
"""All events of a type, or those of one source."""


FORGET_AT: Final = 1024
"""With this many sources the ring forgets losses that every reader knows of. Servers come and go while it lives."""


class RingReader(Protocol):
    """A subscription, as the ring sees it: a position to read from, and a reader to wake."""

    @property
    def tick(self) -> int:
        """The last publication that it has taken."""

    def wake(self) -> None:
        """Let the reader continue."""


class LostEvents(msgspec.Struct, gc=False):
    """The events of one source that the ring dropped."""

    first: int
    last: int
    tick: int
    """When the last of them was published."""


class EventRing:
    """The newest `capacity` events of an address, by tick: the number of their publication on this bus."""

    __slots__ = ("_forget_at", "address", "capacity", "dropped", "events", "kind", "lost", "readers", "tick", "waiting")

    def __init__(self, address: Address, capacity: int) -> None:
        self.address = address
        self.kind = address[0] if isinstance(address, tuple) else address
        """The type of its events."""
        self.capacity = capacity
        self.events: deque[tuple[int, Event]] = deque()
        self.lost: dict[str, LostEvents] = {}
        """By source."""
        self._forget_at = FORGET_AT
        self.tick = 0
        """The newest event."""
        self.dropped = 0
        """The newest event that was dropped."""
        self.readers: set[RingReader] = set()
        """All subscriptions."""
        self.waiting: dict[RingReader, None] = {}
        """Subscriptions whose readers wait, in the order in which they came."""

    def add(self, tick: int, event: Event) -> None:
        """Keep an event, and drop the oldest of a full ring."""
        if len(self.events) >= self.capacity:
            self._drop()
        self.events.append((tick, event))
        self.tick = tick

    def after(self, tick: int, read: Mapping[str, int], most: int) -> list[tuple[int, Delivery]]:
        """The first `most` events after a tick, oldest first, behind a gap for each source that lost some.

        `read` has the last number that the reader took of each source.
        """
        found: list[tuple[int, Delivery]] = []
        for entry in reversed(self.events):
            if entry[0] <= tick:
                found.reverse()
                break
            if len(found) == most:
                # The reader is far behind. It must not walk over everything that is new for each piece.
                start = bisect_right(self.events, tick, key=itemgetter(0))
                found = [self.events[index] for index in range(start, start + most)]
                break
            found.append(entry)
        else:
            found.reverse()
        return found if self.dropped <= tick else [*self._gaps(tick, read), *found]

    def _gaps(self, tick: int, read: Mapping[str, int]) -> list[tuple[int, Delivery]]:
        gaps: list[tuple[int, Delivery]] = []
        for source, lost in self.lost.items():
            if lost.tick > tick:
                # A source numbers by commits, and commits of two nodes may arrive in either order.
                first = min(read.get(source, lost.first - 1) + 1, lost.last)
                gaps.append((lost.tick, Gap(self.kind, source, first, lost.last)))
        return sorted(gaps, key=itemgetter(0))

    def _drop(self) -> None:
        tick, event = self.events.popleft()
        self.dropped = tick
        lost = self.lost.get(event.source)
        if lost is None:
            if len(self.lost) >= self._forget_at:
                self._forget()
            self.lost[event.source] = LostEvents(event.sequence, event.sequence, tick)
        else:
            lost.last, lost.tick = max(lost.last, event.sequence), tick

    def _forget(self) -> None:
        oldest = min((reader.tick for reader in self.readers), default=self.tick)
        self.lost = {source: lost for source, lost in self.lost.items() if lost.tick > oldest}
        self._forget_at = max(FORGET_AT, 2 * len(self.lost))
