"""Remembers agents that were given text from outside, an event or a message. `touch_gate.py` asks because of it.

Rule: text is delivered after its touch is stored, so that other nodes and the next run know of it. A further message
within `renew_s` is not stored again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, Protocol

import msgspec

from interlock.hub.calls.delivery_rounds import DeliveryRounds, settle
from interlock.hub.live.events.documents import PendingEvent, agent_of, now
from interlock.store import Collection, Mirror, Store, StoreError
from interlock.wire.errors import Fault

MAX_TOUCHED: Final = 10_000
"""Upper bound for remembered agents. The oldest are forgotten first."""
MAX_RENEW_S: Final = 60.0
AT_ONCE: Final = 256
"""Agents in one transaction."""
KEEP_S: Final = 86_400.0
"""Touches are kept for at least this time, as `ask_s` may grow."""


class Touch(msgspec.Struct, frozen=True):
    """When an agent was last given text from outside."""

    agent: str
    at: float
    """The wall clock, as other nodes and later runs read it."""


LIVE_TOUCHED: Final = Collection("live_touched", Touch, key="agent", shares_damage=True)


class TouchListener(Protocol):
    """Is told when the live gate begins to ask about an agent's calls."""

    def on_touched(self, agent: str) -> None:
        """Text from outside reached an agent, after a time without any."""


class Touches:
    """The touches of all agents."""

    def __init__(self, ask_s: Callable[[], float], log: Callable[[str, str], None]) -> None:
        self._ask_s = ask_s
        self._log = log
        self._at: dict[str, float] = {}
        self._stored: dict[str, float] = {}
        self._unstored: dict[str, float] = {}
        """Touches that the next round stores."""
        self._rounds = DeliveryRounds(self)
        self._listener: TouchListener | None = None
        self._store: Store
        self._mirror = Mirror(LIVE_TOUCHED)
        self._events: Mirror[PendingEvent] | None = None

    async def start(self, store: Store, listener: TouchListener) -> None:
        """Load the touches of earlier runs and other nodes, and follow them."""
        self._listener = listener
        self._mirror = await store.mirror(LIVE_TOUCHED)
        self._mirror.replay_to(self._changed)
        self._store = store

    async def close(self) -> None:
        """Drop touches that are not stored yet, and the deliveries that wait for them."""
        await self._rounds.close()

    def at(self, agent: str) -> float:
        """When an agent was last given text from outside, by the wall clock; 0 for never.

        It is now while a stored touch or event cannot be read that may be of this agent.
        """
        return now() if self._doubts(agent) else self._at.get(agent, 0.0)

    def follow_events(self, events: Mirror[PendingEvent]) -> None:
        """Count events that cannot be read as well: each may have reached its agent."""
        self._events = events

    def on_unreadable(self, agent: str) -> None:
        """An entry of an agent was damaged: the live gate begins to ask about its calls."""
        if self._listener is not None:
            self._listener.on_touched(agent)

    def _doubts(self, agent: str) -> bool:
        if self._mirror.problems and self._mirror.doubts(agent.__eq__):
            return True
        events = self._events
        return events is not None and bool(events.problems) and events.doubts(lambda key: agent_of(key) == agent)

    @property
    def renew_s(self) -> float:
        """The time after which a further touch is stored again."""
        return min(MAX_RENEW_S, self._ask_s() / 10) or MAX_RENEW_S

    def note(self, agent: str, at: float) -> None:
        """Note a touch that is in the store already."""
        before = self._at.get(agent, 0.0)
        if at > before:
            self._at[agent] = at
            ask_s = self._ask_s()
            if self._listener is not None and ask_s and before + ask_s <= at:
                self._listener.on_touched(agent)

    def add(self, agents: Iterable[str], then: Callable[[], None], failed: Callable[[Fault], None]) -> None:
        """Note that agents are about to be given text. It counts at once.

        `then` is called once it is stored, or `failed` if it cannot be stored.

        Nothing is stored while the live gate is off.
        """
        at, renew_s = now(), self.renew_s
        waits = False
        for agent in agents:
            self.note(agent, at)
            # An entry that cannot be read counts as a touch of now, and cannot be replaced.
            is_due = at >= self._stored.get(agent, 0.0) + renew_s and agent not in self._mirror.problems
            if self._ask_s() and is_due:
                self._unstored[agent] = at
                waits = True
        if waits:
            self._rounds.join(then, failed)
        else:
            then()

    async def added(self, agent: str) -> None:
        """Note that an agent is about to be given text. Returns once that is stored. Raises a `Fault`."""
        stored = asyncio.get_running_loop().create_future()
        self.add((agent,), partial(settle, stored), partial(settle, stored))
        await stored

    async def sweep(self) -> None:
        """Delete expired touches, and the oldest if there are too many."""
        oldest = sorted(self._at.items(), key=lambda each: each[1])
        surplus, expired = len(oldest) - MAX_TOUCHED, now() - max(KEEP_S, self._ask_s())
        gone = [agent for place, (agent, at) in enumerate(oldest) if place < surplus or at < expired][:1000]
        async with self._store.transaction() as transaction:
            for agent in gone:
                if (document := self._mirror.lookup_document(agent)) is not None:
                    # Another node may just have stored a newer one.
                    transaction.expect(LIVE_TOUCHED, agent, document.version)
                    transaction.delete(LIVE_TOUCHED, agent)
        for agent in gone:
            self._changed(agent, None)

    async def store_round(self) -> None:
        """Store all waiting touches, `AT_ONCE` in each transaction."""
        touched, self._unstored = self._unstored, {}
        agents = iter(touched)
        try:
            while chosen := list(islice(agents, AT_ONCE)):
                async with self._store.transaction() as transaction:
                    for agent in chosen:
                        transaction.put(LIVE_TOUCHED, Touch(agent, touched[agent]))
        except StoreError as cause:
            # They count in this process anyway, and the next message stores them.
            self._log("hub", f"messages from outside are withheld, as they could not be noted: {cause.for_operators}")
            raise

    def _changed(self, agent: str, touch: Touch | None) -> None:
        """Follow a change of a touch in the store. A deleted touch no longer counts."""
        if touch is None:
            self._at.pop(agent, None)
            self._stored.pop(agent, None)
            if agent in self._mirror.problems:
                self.on_unreadable(agent)
            return
        self._stored[agent] = max(touch.at, self._stored.get(agent, 0.0))
        self.note(agent, touch.at)
