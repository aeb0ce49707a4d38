"""A subscription: a filter and a place in the rings of the bus, from which its reader takes what is new.

Nobody pushes into a subscription. A reader that is slow, dead or wrong therefore costs the bus nothing, and a reader
that fell behind finds a `Gap` for each source whose events it lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

import msgspec

from .ring import EventRing
from .types import Delivery, Event, Gap

BATCH_EVENTS: Final = 256
"""How many events one `take` returns, unless the reader asks for more."""

MAX_SOURCES: Final = 4096
"""For how many sources of a type a subscription keeps the last number. Servers come and go while it reads."""


class EventFilter(msgspec.Struct, frozen=True):
    """The events that a subscriber wants: of these types, and with `sources` from these sources only."""

    types: frozenset[type[Event]]
    sources: frozenset[str] | None = None

    @classmethod
    def of(cls, *types: type[Event], sources: frozenset[str] | None = None) -> EventFilter:
        """The filter for these types, from all sources unless `sources` names some."""
        return cls(frozenset(types), sources)


class Unsubscribes(Protocol):
    """The part of the bus that a subscription uses when it closes."""

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription that was closed."""


class Subscription:
    """Made by `Bus.subscribe`. Iterate over it, or `take` what is there; `close` it in the end."""

    def __init__(self, bus: Unsubscribes, rings: list[EventRing], tick: int) -> None:
        self._bus = bus
        self._rings = rings
        self._tick = tick
        """The last publication that was taken."""
        self._read: dict[type[Event], dict[str, int]] = {ring.kind: {} for ring in rings}
        """The last number taken, by type and source. Without it a gap of the source begins earlier than it must.

        The garbage collector does not track text and numbers. A tuple for each reader of an event would make it run.
        """
        self._taken: deque[Delivery] = deque()
        """Taken for the iterator, which returns them one by one."""
        self._waiter: asyncio.Future[None] | None = None
        self.closed = False

    def take(self, most: int = BATCH_EVENTS) -> list[Delivery]:
        """The new events, oldest first. A gap comes before the events that follow it."""
        found: list[tuple[int, Delivery]] = []
        for ring in self._rings:
            if ring.tick > self._tick:
                found += ring.after(self._tick, self._read[ring.kind], most)
        if not found:
            return []
        if len(self._rings) > 1:
            found.sort(key=_published)
        del found[most:]
        self._tick = found[-1][0]
        read = self._read
        for _, each in found:
            if type(each) is Gap:
                read[each.type][each.source] = each.last
            elif isinstance(each, Event):
                read[type(each)][each.source] = each.sequence
        for sources in read.values():
            while len(sources) > MAX_SOURCES:
                del sources[next(iter(sources))]
        return [each for _, each in found]

    @property
    def tick(self) -> int:
        """The last publication that was taken."""
        return self._tick

    @property
    def unread(self) -> int:
        """How many events the bus keeps for this subscription."""
        new = (ring for ring in self._rings if ring.tick > self._tick)
        return sum(len(ring.after(self._tick, self._read[ring.kind], len(ring.events))) for ring in new)

    async def wait(self) -> None:
        """Wait until there is something to take, or the subscription is closed."""
        while not self.closed and not any(ring.tick > self._tick for ring in self._rings):
            if self._waiter is not None:
                raise RuntimeError("a subscription has one reader")
            self._waiter = asyncio.get_running_loop().create_future()
            for ring in self._rings:
                ring.waiting[self] = None
            try:
                await self._waiter
            finally:
                self._waiter = None
                for ring in self._rings:
                    ring.waiting.pop(self, None)

    def wake(self) -> None:
        """Let the reader continue, if it waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Receive nothing more. Harmless at any time, and twice."""
        if not self.closed:
            self.closed = True
            self._taken.clear()
            self._bus.unsubscribe(self)
            self._rings = []
            self.wake()

    @property
    def rings(self) -> list[EventRing]:
        """The rings that it reads."""
        return self._rings

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Delivery:
        while not self._taken:
            if self.closed:
                raise StopAsyncIteration
            await self.wait()
            if not self.closed:
                self._taken.extend(self.take())
        return self._taken.popleft()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _published(found: tuple[int, Delivery]) -> int:
    return found[0]
