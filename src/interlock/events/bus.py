"""The bus: parts of the hub publish events, and subscribers read them at their own speed.

Rules: an event is published after its commit; `publish` never waits, never fails for a subscriber's sake, and costs the
same for any number of subscribers; everything is bounded. Publishers ask `wants` first, so that an event that nobody
reads is not even made. The bus is used on the loop's thread. A filter names types and sources and nothing else, so
that a bus between processes can apply it too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

from .ring import Address, EventRing, RingReader
from .subscription import EventFilter, Subscription
from .types import Event

LIMIT: Final = 1024
"""How many unread events the bus keeps for a subscription, unless it asks for another number."""
MAX_LIMIT: Final = 65_536
WOKEN_AT_ONCE: Final = 64
"""The largest number of readers that continue in one turn of the loop. The others continue in the next ones."""
FEWEST_AT_ONCE: Final = 4
TURN_S: Final = 0.002
"""After a longer turn of the loop half as many readers continue in the next one."""


class Bus:
    """Passes events to subscribers without waiting for any: a slow one loses events, and reads a `Gap`."""

    def __init__(self) -> None:
        self.wanted: dict[type[Event], int] = {}
        """The event types that somebody subscribes to, each with the number of its rings."""
        self._rings: dict[Address, EventRing] = {}
        self._tick = 0
        self._number = 0
        self._to_wake: deque[RingReader] = deque()
        self._waking = False
        self._slice = FEWEST_AT_ONCE
        """How many readers continue in the next turn."""
        self._woken_at = 0.0
        """When readers were woken last; 0 if that is long ago."""

    def wants(self, kind: type[Event]) -> bool:
        """Whether anybody subscribes to events of a type."""
        return kind in self.wanted

    def next(self) -> int:
        """A number for an event that neither the audit chain nor the store has numbered."""
        self._number += 1
        return self._number

    def publish(self, event: Event) -> None:
        """Add an event to the rings of its subscribers, and wake them."""
        kind = type(event)
        if kind not in self.wanted:
            return
        self._tick += 1
        for address in (kind, (kind, event.source)):
            ring = self._rings.get(address)
            if ring is not None:
                ring.add(self._tick, event)
                if ring.waiting:
                    self._wake(ring)

    def subscribe(self, wanted: EventFilter, limit: int = LIMIT) -> Subscription:
        """Read events from now on. The bus keeps at least `limit` unread ones of each type, or of each named source."""
        if not 0 < limit <= MAX_LIMIT:
            raise ValueError(f"a limit is between 1 and {MAX_LIMIT}")
        rings = [self._join(address, limit) for address in _addresses(wanted)]
        subscription = Subscription(self, rings, self._tick)
        for ring in rings:
            ring.readers.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Called by `Subscription.close`. Drops a ring without readers."""
        for ring in subscription.rings:
            ring.waiting.pop(subscription, None)
            ring.readers.discard(subscription)
            if not ring.readers:
                del self._rings[ring.address]
                self.wanted[ring.kind] -= 1
                if not self.wanted[ring.kind]:
                    del self.wanted[ring.kind]

    def _join(self, address: Address, limit: int) -> EventRing:
        ring = self._rings.get(address)
        if ring is None:
            ring = self._rings[address] = EventRing(address, limit)
            self.wanted[ring.kind] = self.wanted.get(ring.kind, 0) + 1
        ring.capacity = max(ring.capacity, limit)
        return ring

    def _wake(self, ring: EventRing) -> None:
        self._to_wake.extend(ring.waiting)
        ring.waiting.clear()
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        """Wake readers in the order in which they began to wait, a few in each turn of the loop.

        Between two slices the loop runs the readers and everybody else. How long that takes says how many come next.
        """
        if self._woken_at:
            took = perf_counter() - self._woken_at
            if took > TURN_S:
                self._slice = max(FEWEST_AT_ONCE, self._slice // 2)
            elif took < TURN_S / 2:
                self._slice = min(WOKEN_AT_ONCE, self._slice * 2)
        for _ in range(min(self._slice, len(self._to_wake))):
            self._to_wake.popleft().wake()
        self._waking = bool(self._to_wake)
        self._woken_at = 0.0
        if self._waking:
            self._woken_at = perf_counter()
            asyncio.get_running_loop().call_soon(self._wake_some)


def _addresses(wanted: EventFilter) -> list[Address]:
    if wanted.sources is None:
        return list(wanted.types)
    return [(kind, source) for kind in wanted.types for source in wanted.sources]
