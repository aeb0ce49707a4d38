"""Wakes agents, once for a group of events.

The first event of a group wakes at once. Events that follow within the quiet period share one further wake, which
`wake_timer.py` begins. A wake is committed before it is announced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from interlock.config.live_settings import LiveSettings
from interlock.events import Bus
from interlock.events.types import AgentWoken, now_us
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.journal import Journal
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.documents import (
    LIVE_PENDING,
    LIVE_WAKES,
    Outcome,
    PendingEvent,
    Wake,
    agent_of,
    day_of,
    now,
    tokens_of,
    wake_id,
)
from interlock.hub.live.events.wake_chains import WOKEN_TURN_S, WakeChains
from interlock.hub.live.events.wake_choice import ChosenEvents, choose
from interlock.hub.live.events.wake_decisions import OccurredEvent, WakeDecisions
from interlock.hub.live.events.wake_timer import EVENTS_AT_ONCE, WakeTimer, instant
from interlock.hub.live.events.wake_webhook import WakeWebhook
from interlock.protocols.mcpl.coalescing import CoalescingTimes, EventGroup
from interlock.protocols.mcpl.wake import WakeDecision, WakeVerdict
from interlock.store import Store, StoreError, Transaction
from interlock.wire.errors import Fault

AGAIN_S: Final = 1.0
"""How long a group waits at least, after the rules held it or its wake could not be committed."""
RECHECK_S: Final = 30.0
"""The longest time until the rules are applied to held events again. Quiet hours end by the wall clock, which runs on
while a machine sleeps and may be set. Settings may change, too."""
MAX_KEYS: Final = 8_192
"""Groups whose latest event is remembered."""
HOUR_S: Final = 3600.0
LOOP: Final = "loop"
"""Prefix of the cause of an event that was held because agents kept waking each other."""


class DecidedEvent(msgspec.Struct, frozen=True):
    """The decision about one event for one agent."""

    outcome: Outcome
    cause: str
    group: str = ""
    wake: Wake | None = None
    """The wake of an event that does not wait for its group."""
    previous: float | None = None
    """When the previous event of its group arrived."""


class Wakes:
    """The wakes of all agents."""

    def __init__(
        self,
        settings: Callable[[], LiveSettings],
        deliveries: EventDeliveries,
        causes: WakeChains,
        journal: Journal,
        bus: Bus,
        webhook: WakeWebhook,
        log: Callable[[str, str], None],
    ) -> None:
        self._decisions = WakeDecisions(settings, causes)
        self._deliveries = deliveries
        self._causes = causes
        self._journal = journal
        self._bus = bus
        self._webhook = webhook
        self._log = log
        self._timer = WakeTimer(self)
        self._latest: dict[str, float] = {}
        """When the latest event of each group came, by the loop's clock."""
        self._tasks = BackgroundTasks()
        self._store: Store

    async def start(self, store: Store) -> None:
        """Restore budgets and waiting groups from the store."""
        self._store = store
        newest = await self._restore_wakes()
        for number, event in enumerate(self._deliveries.all(), 1):
            if number % EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            # The calls that led to a loop are unknown after a restart, so an event that was held for a loop stays held.
            if event.delivered or event.wake or event.cause.startswith(LOOP):
                continue
            if max(event.at, event.held_at) <= newest.get(event.group, 0.0):
                self._deliveries.wake(event.agent, (event.id,))
            else:
                self.join(event)

    async def close(self) -> None:
        """Stop waking agents. Waiting events stay in the store."""
        self._timer.stop()
        await self._tasks.close()

    @property
    def waiting_groups(self) -> int:
        """How many groups of events wait for their wake."""
        return len(self._timer)

    def spent(self, agent: str) -> tuple[int, int]:
        """Wakes and tokens of an agent within the last hour."""
        return self._decisions.spent(agent)

    # The intake calls these, in their order.

    def take(self, event: OccurredEvent, agent: str, at: float) -> DecidedEvent:
        """Decide about an event for an agent, and spend its wake. Call `undo` if it cannot be committed."""
        decision = self._decisions.decide(event, agent)
        cause = self._decisions.cause(agent, decision)
        if decision.verdict is WakeVerdict.DROP:
            return DecidedEvent("dropped", cause)
        group = self._decisions.group(event, agent, decision)
        if decision.verdict is WakeVerdict.HOLD:
            return DecidedEvent("held", cause, group)
        came, last = instant(), self._latest.get(group)
        if len(self._latest) >= MAX_KEYS:
            self._latest.clear()
        self._latest[group] = came
        if group in self._timer or (last is not None and came - last < decision.timing.quiet):
            return DecidedEvent("coalesced", cause, group, None, last)
        name, tokens = self._decisions.rule(agent, decision.rule), tokens_of(event.size)
        chain = self._causes.led_to(event.server, agent)
        wake = Wake(wake_id(), agent, event.server, event.feature_set, group, name, at, day_of(at), 1, tokens, chain)
        self._decisions.spend(wake)
        return DecidedEvent("wake", cause, group, wake, last)

    def undo(self, decided: DecidedEvent) -> None:
        """Take back what `take` did for an event that was not committed."""
        if decided.wake is None and decided.outcome != "coalesced":
            return
        if decided.previous is None:
            self._latest.pop(decided.group, None)
        else:
            self._latest[decided.group] = decided.previous
        if decided.wake is not None:
            self._decisions.take_back(decided.wake)

    def store(self, transaction: Transaction, wake: Wake) -> None:
        """Add a wake to the transaction that commits it, with the message for the operator's webhook."""
        transaction.insert(LIVE_WAKES, wake)
        self._webhook.stage(transaction, wake)

    def join(self, event: PendingEvent) -> None:
        """Let a committed event wait for its group's wake. It stays held if the rules no longer wake for it."""
        if event.outcome != "wake":
            self._join(event.group, [event.id], self._decisions.decide(event, event.agent))

    def announce(self, wake: Wake) -> None:
        """Publish a committed wake."""
        self._causes.on_woken(wake.agent, wake.chain)
        if self._bus.wants(AgentWoken):
            woken = AgentWoken("live", self._bus.next(), now_us(), wake.agent, wake.id, wake.server, wake.events)
            self._bus.publish(woken)

    # The timer calls this.

    def on_due(self, group: EventGroup[str]) -> None:
        """Wake an agent for a group that is due."""
        self._tasks.begin(self._wake(group), None)

    async def _restore_wakes(self) -> dict[str, float]:
        """Count the stored wakes for budgets and chains. Returns when the latest wake of each group was."""
        today = day_of(now())
        known: list[Wake] = []
        for day in (today - 1, today):
            found, unreadable = await self._store.find_readable(LIVE_WAKES, day=day)
            known += (document.value for document in found)
            if unreadable:
                # It may be of any agent, and of now.
                self._decisions.hold_until(now() + HOUR_S)
        newest: dict[str, float] = {}
        for wake in sorted(known, key=lambda wake: wake.at):
            newest[wake.group] = wake.at
            ago_s = max(0.0, now() - wake.at)
            if ago_s < HOUR_S:
                self._decisions.spend(wake)
            if ago_s < WOKEN_TURN_S:
                self._causes.on_woken(wake.agent, wake.chain, ago_s)
        return newest

    def _join(self, group: str, ids: Sequence[str], decision: WakeDecision) -> None:
        """Let events of a group wait according to a decision."""
        if decision.verdict is WakeVerdict.WAKE:
            if not self._timer.add(group, ids, decision.timing):
                # Too many groups wait, so these events get a wake of their own, within the budgets.
                self.on_due(EventGroup(group, 0.0, 0.0, decision.timing, tuple(ids), len(ids)))
        elif decision.verdict is WakeVerdict.HOLD and decision.cause in ("quiet_hours", "budget"):
            left_s = RECHECK_S if decision.until is None else decision.until.timestamp() - now()
            wait_s = min(RECHECK_S, max(AGAIN_S, left_s))
            if not self._timer.add(group, ids, CoalescingTimes(wait_s, wait_s)):
                self._log("hub", f"{agent_of(group)} will not be woken for held events: too many groups of events wait")

    async def _wake(self, group: EventGroup[str]) -> None:
        """Wake an agent for the events of a group that still wait and that the rules wake for."""
        agent = agent_of(group.key)
        events = self._deliveries.still_waiting(group.events, agent)
        if not events:
            return
        chosen = choose(self._decisions, agent, events)
        at, count = now(), group.count - len(chosen.held)
        wake: Wake | None = None
        if chosen.events:
            first, rule = chosen.events[0], self._decisions.rule(agent, chosen.rule)
            wake = Wake(
                wake_id(), agent, first.server, first.feature_set, group.key, rule, at, day_of(at), count,
                chosen.tokens, self._causes.led_to(first.server, agent),
            )  # fmt: skip
            self._decisions.spend(wake)
        try:
            await self._commit(agent, wake, chosen, at)
        except (StoreError, Fault) as cause:
            self._log("hub", f"{agent} was not woken for {group.count} events: {cause.for_operators}")
            if wake is not None:
                self._decisions.take_back(wake)
            self._timer.add(group.key, [event.id for event in events], CoalescingTimes(AGAIN_S, AGAIN_S))
            return
        for decision, held in groupby(chosen.held, itemgetter(1)):
            self._join(group.key, [event.id for event, _ in held], decision)
        if wake is not None:
            self._deliveries.wake(agent, [event.id for event in chosen.events])
            self.announce(wake)

    async def _commit(self, agent: str, wake: Wake | None, chosen: ChosenEvents, at: float) -> None:
        """Commit a wake, and the reasons why the other events of the group are held. Raises StoreError or a `Fault`."""
        reasons = [(event, why, self._decisions.cause(agent, why)) for event, why in chosen.held]
        noted = [(event, why, text) for event, why, text in reasons if wake is not None or event.cause != text]
        if wake is None and not noted:
            return
        async with self._store.transaction() as transaction:
            if wake is not None:
                self.store(transaction, wake)
                transaction.record(self._journal.live_wake(agent, wake.server, wake.feature_set, wake.id, wake.events))
            for event, why, text in noted:
                document = await transaction.get(LIVE_PENDING, event.id)
                if document is not None and not document.value.delivered:
                    # A time after the wake, so that the next start knows that the wake did not include this event.
                    held = msgspec.structs.replace(
                        document.value,
                        outcome="coalesced" if why.verdict is WakeVerdict.WAKE else "held",
                        cause=text,
                        held_at=at + 0.001,
                    )
                    transaction.put(LIVE_PENDING, held)
