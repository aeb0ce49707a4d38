"""Events that wait for agents, and their delivery: once, and only to the agent that each is addressed to.

The hub checks again whether the agent may have an event when it hands the event out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

import msgspec

from interlock.events import Bus
from interlock.events.types import ResourceUpdated, now_us
from interlock.hub.journal import Journal
from interlock.hub.live.events.delivery_addresses import EventAddresses
from interlock.hub.live.events.delivery_changes import DeliveryChanges, waiting_again
from interlock.hub.live.events.delivery_queue import AgentQueue
from interlock.hub.live.events.documents import LIVE_PENDING, PendingEvent, agent_of, now, seen_id
from interlock.hub.live.events.touches import Touches
from interlock.hub.repeated_commits import commit
from interlock.process.open_counts import OpenCounts
from interlock.store import Conflict, Mirror, Store, Transaction
from interlock.wire.errors import Fault

OWN: Final = ":live"
"""The hub, in the place of a server's name. No server can have this name."""
MAX_IN_ALL: Final = 20_000
"""Waiting events of all agents. A server may use half of the remaining space, so none locks others out."""
KEEP_DELIVERED: Final = 100
"""Delivered events of one agent that can be read again."""
KEEP_DELIVERED_S: Final = 86_400.0
MAX_WAITERS: Final = 16
"""Calls of one agent that wait for events at a time."""
TRIES: Final = 5
"""How often the hub chooses events again because another hub handed some of them out."""
ON_WAY_S: Final = 7_200.0
"""An event without an answer waits again after this time, because the node that handed it on must be gone. A turn of
a channel may wait for its conversation for half as long."""

R = TypeVar("R")


class EventDeliveries:
    """The events of all agents."""

    def __init__(self, addresses: EventAddresses, journal: Journal, bus: Bus, touches: Touches) -> None:
        self._addresses = addresses
        self._touches = touches
        self._journal = journal
        self._changes = DeliveryChanges(journal)
        self._bus = bus
        self._agents: dict[str, AgentQueue] = {}
        self._on_way: set[str] = set()
        """Events that this node handed on and that nobody has answered for yet."""
        self._counts: OpenCounts[str] = OpenCounts()
        """Waiting and reserved events of all agents, by server."""
        self._node = ""
        self._store: Store
        self._mirror = Mirror(LIVE_PENDING)

    async def start(self, store: Store, node: str) -> None:
        """Load the events. Those that this node was handing on when its last run ended wait again.

        Other hubs of the store may be handing on others. `sweep` frees the events of a node that is gone.
        """
        self._node = node
        mirror = self._mirror = await store.mirror(LIVE_PENDING)
        if on_way := [event for event in mirror.readable() if event.on_way and event.node in ("", node)]:
            async with store.transaction() as transaction:
                for event in on_way:
                    transaction.put(LIVE_PENDING, waiting_again(event))
        mirror.replay_to(self._changed)
        self._touches.follow_events(mirror)
        self._store = store

    # Waiting events

    def reserve(self, agent: str, server: str, seen: str, size: int) -> None:
        """Reserve space for an event that is about to be committed. Raises RESOURCE_EXHAUSTED if too much waits.

        `seen` is its `seen_id`. The committed event takes over the space; otherwise `release` frees it.
        """
        waiting = self._agents.setdefault(agent, AgentQueue())
        if not waiting.has_capacity(server, size):
            raise _full(f"{waiting.counts[server]} events of {server} wait for {agent}")
        if self._counts[server] + 1 > MAX_IN_ALL - self._counts.total() - 1:
            raise _full(f"{self._counts[server]} events of {server} wait for agents")
        waiting.reserved[seen] = server, size
        self._reserve(waiting, server, size)

    def release(self, agent: str, seen: str) -> None:
        """Free the space that `reserve` took, unless a committed event has it."""
        waiting = self._agents[agent]
        if (kept := waiting.reserved.pop(seen, None)) is not None:
            self._give_room(waiting, *kept)

    def waiting(self, agent: str) -> list[PendingEvent]:
        """The events that an agent may have and has not got, oldest first."""
        found = self._agents.get(agent)
        if found is None:
            return []
        return self._those_it_may_have(agent, found.oldest_first)

    def delivered(self, agent: str) -> list[PendingEvent]:
        """The events that an agent got lately and may still have, oldest first."""
        found = self._agents.get(agent)
        if found is None:
            return []
        return self._those_it_may_have(agent, (event for _, event in sorted(found.delivered.items())))

    def has_waiting(self, agent: str) -> bool:
        """Whether events may wait for an agent. It is one lookup, because every result calls it."""
        found = self._agents.get(agent)
        return found is not None and bool(found.events)

    def still_waiting(self, ids: Iterable[str], agent: str) -> list[PendingEvent]:
        """The given events without those that were delivered or withdrawn meanwhile."""
        found = self._agents.get(agent)
        events = (None if found is None else found.events.get(id_) for id_ in ids)
        return [event for event in events if event is not None and self._may_have(event)]

    def all(self) -> list[PendingEvent]:
        """Every event that waits or was delivered lately. One that cannot be read reaches nobody."""
        return list(self._mirror.readable())

    # Delivery

    async def take(
        self,
        agent: str,
        most: int,
        most_bytes: int,
        of: Collection[tuple[str, str]] | None = None,
        *,
        on_way: bool = False,
    ) -> tuple[list[PendingEvent], int]:
        """Hand out the oldest events of an agent, each once. Returns them and how many are left.

        The store marks them as delivered before anybody gets them. With `on_way`, they count as delivered only after
        `arrived`, and wait again after a crash. `of` restricts them to some servers and feature sets.
        """
        found = self._agents.get(agent)
        if found is None:
            return [], 0
        async with found.lock:
            for _ in range(TRIES):
                waiting = [each for each in self.waiting(agent) if of is None or (each.server, each.feature_set) in of]
                chosen = _fitting(waiting, most, most_bytes)
                if not chosen:
                    return [], 0
                try:
                    await self._mark(agent, chosen, on_way)
                except Conflict:
                    continue  # another node handed some of them out
                if on_way:
                    self._on_way.update(event.id for event in chosen)
                return chosen, len(self.waiting(agent))
        raise Fault("RESOURCE_EXHAUSTED", "other hubs are reading the same events", retry_after_ms=500)

    async def arrived(self, agent: str, events: Collection[PendingEvent]) -> None:
        """Store that a client has answered for events that were on their way. Withdrawn events stay deleted."""
        await self._change(agent, partial(self._changes.arrive, agent=agent, events=events))
        self._on_way.difference_update(event.id for event in events)

    async def discard(self, agent: str, events: Collection[PendingEvent]) -> None:
        """Delete events that were on their way and cannot be delivered, and record that nobody got them."""
        await self._change(agent, partial(self._changes.discard, events=events))
        self._on_way.difference_update(event.id for event in events)

    async def put_back(self, agent: str, events: Iterable[PendingEvent]) -> None:
        """Let undelivered events wait again. Withdrawn events stay deleted."""
        ids = [event.id for event in events]
        self._on_way.difference_update(ids)
        self.wake(agent, await self._change(agent, partial(self._changes.put_back, ids=ids)))

    async def wait(self, agent: str, timeout_s: float) -> None:
        """Wait until the agent is woken, or the time is up. Raises RESOURCE_EXHAUSTED if too many calls wait."""
        found = self._agents.setdefault(agent, AgentQueue())
        if len(found.changed) >= MAX_WAITERS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_WAITERS} calls wait for events already", retry_after_ms=1000)
        ends = time.monotonic() + timeout_s
        while not self.is_woken(agent):
            left = ends - time.monotonic()
            if left <= 0:
                return
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            found.changed.add(changed)
            try:
                await asyncio.wait([changed], timeout=left)
            finally:
                found.changed.discard(changed)

    def waiting_calls(self, agent: str) -> int:
        """How many calls of an agent wait for a wake."""
        found = self._agents.get(agent)
        return 0 if found is None else len(found.changed)

    def woken_for(self, agent: str) -> Iterator[PendingEvent]:
        """The events that an agent was woken for, may have and has not got."""
        found = self._agents.get(agent)
        events = () if found is None else (found.events[id_] for id_ in found.woken if id_ in found.events)
        return (event for event in events if self._may_have(event))

    def is_woken(self, agent: str) -> bool:
        """Whether an agent was woken for events that it has not got."""
        return any(True for _ in self.woken_for(agent))

    def wake(self, agent: str, ids: Collection[str]) -> None:
        """Wake an agent for some of its events. Called after the commit of the wake."""
        self._agents.setdefault(agent, AgentQueue()).wake(ids)

    async def withdraw(self, server: str) -> None:
        """Delete the waiting events of a server that their agents may no longer have."""
        gone = [event for event in self.all() if event.server == server and not self._may_have(event)]
        if not gone:
            return
        async with self._store.transaction() as transaction:
            self._changes.withdraw(transaction, gone)

    async def sweep(self, keep_s: float) -> None:
        """Delete old or surplus delivered events, and waiting events that nobody read in time."""
        at = now()
        gone: list[str] = []
        unread: list[PendingEvent] = []
        for queue in self._agents.values():
            gone += queue.surplus(KEEP_DELIVERED, at - KEEP_DELIVERED_S)
            unread += (event for event in queue.events.values() if event.at < at - keep_s)
        if gone or unread:
            async with self._store.transaction() as transaction:
                for id_ in gone[:1000]:
                    transaction.delete(LIVE_PENDING, id_)
                self._changes.withdraw(transaction, unread[:1000])
        for agent, queue in list(self._agents.items()):
            lost = [event for event in queue.delivered.values() if event.on_way and event.id not in self._on_way]
            if lost := [event for event in lost if event.delivered < at - ON_WAY_S]:
                await self.put_back(agent, lost)

    async def _change(self, agent: str, write: Callable[[Transaction], Awaitable[R]]) -> R:
        """Commit a change of an agent's events. `write` runs again if an event was withdrawn meanwhile."""
        async with self._agents.setdefault(agent, AgentQueue()).lock:
            try:
                return await commit(self._store, write)
            except Conflict:
                message = "other hubs are changing the same events"
                raise Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=500) from None

    async def _mark(self, agent: str, chosen: list[PendingEvent], on_way: bool) -> None:
        at = now()
        async with self._store.transaction() as transaction:
            for event in chosen:
                document = self._mirror.lookup_document(event.id)
                transaction.expect(LIVE_PENDING, event.id, 0 if document is None else document.version)
                node = self._node if on_way else ""
                marked = msgspec.structs.replace(event, delivered=at, on_way=on_way, node=node)
                transaction.put(LIVE_PENDING, marked)
            for id_ in self._agents[agent].surplus(KEEP_DELIVERED, 0.0):
                transaction.delete(LIVE_PENDING, id_)
            if not on_way:
                transaction.record(self._journal.live_delivered(agent, [(each.server, each.event) for each in chosen]))

    def _those_it_may_have(self, agent: str, events: Iterable[PendingEvent]) -> list[PendingEvent]:
        """Thousands may wait, of few feature sets: each is looked up once."""
        addressed: dict[tuple[str, str], bool] = {}
        found: list[PendingEvent] = []
        for event in events:
            kind = event.server, event.feature_set
            known = addressed.get(kind)
            if known is None:
                known = addressed[kind] = self._addresses.addressed(event.server, agent, event.feature_set)
            if known:
                found.append(event)
        return found

    def _may_have(self, event: PendingEvent) -> bool:
        return self._addresses.addressed(event.server, event.agent, event.feature_set)

    def _changed(self, key: str, event: PendingEvent | None) -> None:
        """Follow a change of an event in the store."""
        agent = agent_of(key)
        waiting = self._agents.setdefault(agent, AgentQueue())
        before = waiting.events.pop(key, None)
        if before is not None:
            self._give_room(waiting, before.server, before.size)
        if event is None:
            waiting.delivered.pop(key, None)
            if key in self._mirror.problems:
                self._touches.on_unreadable(agent)
        elif event.delivered:
            waiting.delivered[key] = event
            self._touches.note(agent, event.delivered)
        else:
            self.release(agent, seen_id(event.server, event.event))
            waiting.delivered.pop(key, None)
            waiting.events[key] = event
            self._reserve(waiting, event.server, event.size)
            if before is None and self._bus.wants(ResourceUpdated):
                self._bus.publish(ResourceUpdated(OWN, self._bus.next(), now_us(), agent))
            if event.wake:
                self.wake(agent, (key,))
                return
        if event is None or event.delivered:
            waiting.woken.discard(key)

    def _reserve(self, queue: AgentQueue, server: str, size: int) -> None:
        queue.take_room(server, size)
        self._counts.add(server)

    def _give_room(self, queue: AgentQueue, server: str, size: int) -> None:
        queue.give_room(server, size)
        self._counts.add(server, -1)


def _full(message: str) -> Fault:
    return Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=60_000)


def _fitting(events: list[PendingEvent], most: int, most_bytes: int) -> list[PendingEvent]:
    """The oldest events within both bounds, but at least one, so that a large event does not block the rest."""
    chosen: list[PendingEvent] = []
    size = 0
    for event in events[:most]:
        size += event.size
        if chosen and size > most_bytes:
            break
        chosen.append(event)
    return chosen
