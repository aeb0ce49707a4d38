"""The events of one agent: waiting and lately delivered ones, and how much space each server uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from interlock.hub.live.events.documents import PendingEvent
from interlock.process.open_counts import OpenCounts

MAX_PER_AGENT: Final = 2_000
MAX_BYTES_PER_AGENT: Final = 16 * 1024 * 1024
"""Space for waiting events. A server may use as much of it as it leaves free, so that none locks the others out."""


class AgentQueue:
    """The events of one agent: those that wait and those that it got lately."""

    __slots__ = ("changed", "counts", "delivered", "events", "lock", "reserved", "sizes", "woken")

    def __init__(self) -> None:
        self.events: dict[str, PendingEvent] = {}
        self.delivered: dict[str, PendingEvent] = {}
        """Events that the agent got, to be read again."""
        self.counts: OpenCounts[str] = OpenCounts()
        """Waiting and reserved events, by server."""
        self.sizes: OpenCounts[str] = OpenCounts()
        """Their bytes."""
        self.reserved: dict[str, tuple[str, int]] = {}
        """Events that are being committed, by `seen_id`: server and bytes. A committed one is in `events` alone."""
        self.woken: set[str] = set()
        """Events for which it was woken and that it has not got yet."""
        self.changed: set[asyncio.Future[None]] = set()
        """Calls that wait for a wake."""
        self.lock = asyncio.Lock()

    @property
    def oldest_first(self) -> list[PendingEvent]:
        """The events that wait."""
        return [event for _, event in sorted(self.events.items())]

    def surplus(self, keep: int, expired: float) -> list[str]:
        """Delivered events that are older than `expired`, or exceed the newest `keep`."""
        arrived = (event for event in self.delivered.values() if not event.on_way)
        old = sorted(arrived, key=lambda event: event.delivered)
        return [event.id for place, event in enumerate(old) if place < len(old) - keep or event.delivered < expired]

    def has_capacity(self, server: str, size: int) -> bool:
        """Whether an event fits: afterwards at least as much space must be free as its server uses."""
        has_place = self.counts[server] + 1 <= MAX_PER_AGENT - self.counts.total() - 1
        return has_place and self.sizes[server] + size <= MAX_BYTES_PER_AGENT - self.sizes.total() - size

    def take_room(self, server: str, size: int) -> None:
        """Take space for an event that waits, or is about to."""
        self.counts.add(server)
        self.sizes.add(server, size)

    def give_room(self, server: str, size: int) -> None:
        """Free the space of an event that waits no longer."""
        self.counts.add(server, -1)
        self.sizes.add(server, -size)

    def wake(self, ids: Iterable[str]) -> None:
        """Mark events as woken and resume waiting calls, if some of these events still wait."""
        self.woken.update(id_ for id_ in ids if id_ in self.events)
        if self.woken:
            for changed in list(self.changed):
                if not changed.done():
                    changed.set_result(None)
