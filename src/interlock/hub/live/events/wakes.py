"""Decides whether an event wakes its agent, is held or is dropped, and wakes agents once for a group of events.

The first event of a group wakes at once. Events that follow within the quiet period share one further wake. A group
belongs to one rule. When it is due, each of its events is judged by itself, so none is held because of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, Protocol

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
from interlock.hub.live.events.wake_chains import TURN_S, WakeChains
from interlock.hub.live.events.wake_groups import ChosenEvents
from interlock.hub.live.events.wake_rules import AgentRules, local_now
from interlock.hub.live.events.wake_webhook import WakeWebhook
from interlock.protocols.mcpl import wake as rules
from interlock.protocols.mcpl.budgets import SpendingLedger
from interlock.protocols.mcpl.coalescing import CoalescingTimes, EventGroup, WaitingGroups
from interlock.protocols.mcpl.wake import (
    EVERYTHING,
    SEPARATOR,
    WakeDecision,
    WakeEvent,
    WakeVerdict,
    coalescing_key,
    server_key,
)
from interlock.store import Store, StoreError, Transaction
from interlock.wire.errors import Fault

AGAIN_S: Final = 1.0
"""How long a group waits at least, after the rules held it or its wake could not be committed."""
RECHECK_S: Final = 30.0
"""The longest time until the rules are applied to held events again. Quiet hours end by the wall clock, which runs on
while a machine sleeps and may be set. Settings may change, too."""
EVENTS_AT_ONCE: Final = 8
"""Waiting events that one turn of the loop judges, rounded up to whole groups. Groups that are held for the same reason
are all due together."""
MAX_KEYS: Final = 8_192
"""Groups whose latest event is remembered."""
HOUR_S: Final = 3600.0
LOOP: Final = "loop"
"""Prefix of the cause of an event that was held because agents kept waking each other."""


class OccurredEvent(Protocol):
    """The properties of an event that decide about waking."""

    @property
    def server(self) -> str: ...
    @property
    def feature_set(self) -> str: ...
    @property
    def channel(self) -> str | None: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def from_agent(self) -> bool: ...


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
        self._settings = settings
        self._deliveries = deliveries
        self._causes = causes
        self._journal = journal
        self._bus = bus
        self._webhook = webhook
        self._log = log
        self._ledgers: dict[str, SpendingLedger] = {}
        self._groups: WaitingGroups[str] = WaitingGroups()
        """Events that wait for others of their group: their ids, by the group's key."""
        self._latest: dict[str, float] = {}
        """When the latest event of each group came, by the loop's clock."""
        self._rules: dict[str, AgentRules] = {}
        self._rules_of: LiveSettings | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """When the timer ends, by the loop's clock."""
        self._tasks = BackgroundTasks()
        self._store: Store

    async def start(self, store: Store) -> None:
        """Restore budgets and waiting groups from the store."""
        self._store = store
        today = day_of(now())
        known = [found.value for day in (today - 1, today) for found in await store.find(LIVE_WAKES, day=day)]
        newest: dict[str, float] = {}
        for wake in sorted(known, key=lambda wake: wake.at):
            newest[wake.group] = wake.at
            ago_s = max(0.0, now() - wake.at)
            if ago_s < HOUR_S:
                self._spend(wake)
            if ago_s < TURN_S:
                self._causes.on_woken(wake.agent, wake.chain, ago_s)
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

    def take(self, event: OccurredEvent, agent: str, at: float) -> DecidedEvent:
        """Decide about an event for an agent, and spend its wake. Call `undo` if it cannot be committed."""
        rules_of = self._of(agent)
        decision = self._decide(event, agent)
        name = rules_of.name(decision.rule)
        cause = _cause(decision, name)
        if decision.verdict is WakeVerdict.DROP:
            return DecidedEvent("dropped", cause)
        group = SEPARATOR.join((coalescing_key(self._occurrence(event, agent)), name))
        if decision.verdict is WakeVerdict.HOLD:
            return DecidedEvent("held", cause, group)
        instant, last = _instant(), self._latest.get(group)
        if len(self._latest) >= MAX_KEYS:
            self._latest.clear()
        self._latest[group] = instant
        if group in self._groups.groups or (last is not None and instant - last < decision.timing.quiet):
            return DecidedEvent("coalesced", cause, group, None, last)
        tokens = tokens_of(event.size)
        chain = self._causes.led_to(event.server, agent)
        wake = Wake(wake_id(), agent, event.server, event.feature_set, group, name, at, day_of(at), 1, tokens, chain)
        self._spend(wake)
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
            self._take_back(decided.wake)

    def join(self, event: PendingEvent) -> None:
        """Let a committed event wait for its group's wake. It stays held if the rules no longer wake for it."""
        if event.outcome != "wake":
            self._join(event.group, [event.id], self._decide(event, event.agent))

    def _join(self, group: str, ids: Sequence[str], decision: WakeDecision) -> None:
        """Let events of a group wait according to a decision."""
        if decision.verdict is WakeVerdict.WAKE:
            if not self._wait(group, ids, decision.timing):
                # Too many groups wait, so these events get a wake of their own, within the budgets.
                own = EventGroup(group, 0.0, 0.0, decision.timing, tuple(ids), len(ids))
                self._tasks.begin(self._wake(own), None)
        elif decision.verdict is WakeVerdict.HOLD and decision.cause in ("quiet_hours", "budget"):
            left_s = RECHECK_S if decision.until is None else decision.until.timestamp() - now()
            wait_s = min(RECHECK_S, max(AGAIN_S, left_s))
            if not self._wait(group, ids, CoalescingTimes(wait_s, wait_s)):
                self._log("hub", f"{agent_of(group)} will not be woken for held events: too many groups of events wait")

    def store(self, transaction: Transaction, wake: Wake) -> None:
        """Add a wake to the transaction that commits it, with the message for the operator's webhook."""
        transaction.insert(LIVE_WAKES, wake)
        self._webhook.stage(transaction, wake)

    def announce(self, wake: Wake) -> None:
        """Publish a committed wake."""
        self._causes.on_woken(wake.agent, wake.chain)
        if self._bus.wants(AgentWoken):
            woken = AgentWoken("live", self._bus.next(), now_us(), wake.agent, wake.id, wake.server, wake.events)
            self._bus.publish(woken)

    @property
    def waiting_groups(self) -> int:
        """How many groups of events wait for their wake."""
        return len(self._groups.groups)

    def spent(self, agent: str) -> tuple[int, int]:
        """Wakes and tokens of an agent within the last hour."""
        return self._ledgers.get(agent, _EMPTY).of(EVERYTHING).at(now())

    async def close(self) -> None:
        """Stop waking agents. Waiting events stay in the store."""
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    def _decide(self, event: OccurredEvent, agent: str, tokens: int = 0) -> WakeDecision:
        """The decision about an event in a wake that already takes `tokens` tokens."""
        occurrence = self._occurrence(event, agent, tokens)
        return rules.decide(self._of(agent).policy, occurrence, self._ledgers.get(agent, _EMPTY), local_now())

    def _wait(self, group: str, ids: Sequence[str], timing: CoalescingTimes) -> bool:
        """Add events to their group. False if too many groups wait."""
        if not self._groups.join(group, ids, timing, _instant()):
            return False
        self._arm()
        return True

    def _arm(self) -> None:
        """Set the timer for the next group that is due, unless it ends earlier already."""
        due = self._groups.next_due
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        left_s = due - _instant()
        # Groups that are due already are handled in the next turn of the loop.
        delay_s = max(0.01, left_s) if left_s > 0 else 0.0
        self._timer, self._timer_at = asyncio.get_running_loop().call_later(delay_s, self._on_time), due

    def _on_time(self) -> None:
        self._timer = None
        for group in self._groups.take_due(_instant(), EVENTS_AT_ONCE):
            self._tasks.begin(self._wake(group), None)
        self._arm()

    async def _wake(self, group: EventGroup[str]) -> None:
        """Wake an agent for a group that is due, for its events that still wait and that the rules wake for."""
        agent = agent_of(group.key)
        events = self._deliveries.still_waiting(group.events, agent)
        if not events:
            return
        chosen = self._choose(agent, events)
        at, count = now(), group.count - len(chosen.held)
        wake: Wake | None = None
        if chosen.events:
            first, rule = chosen.events[0], self._of(agent).name(chosen.rule)
            wake = Wake(
                wake_id(), agent, first.server, first.feature_set, group.key, rule, at, day_of(at), count,
                chosen.tokens, self._causes.led_to(first.server, agent),
            )  # fmt: skip
            self._spend(wake)
        try:
            await self._commit(agent, wake, chosen, at)
        except (StoreError, Fault) as cause:
            self._log("hub", f"{agent} was not woken for {group.count} events: {cause.for_operators}")
            if wake is not None:
                self._take_back(wake)
            self._wait(group.key, [event.id for event in events], CoalescingTimes(AGAIN_S, AGAIN_S))
            return
        for decision, held in groupby(chosen.held, itemgetter(1)):
            self._join(group.key, [event.id for event, _ in held], decision)
        if wake is not None:
            self._deliveries.wake(agent, [event.id for event in chosen.events])
            self.announce(wake)

    def _choose(self, agent: str, events: list[PendingEvent]) -> ChosenEvents:
        """Judge the events. Those of one rule that fit into the budgets share a wake.

        For rules, events of one kind differ only in their size, so a group of 256 events takes few decisions.
        """
        kinds: dict[tuple[object, ...], list[PendingEvent]] = {}
        for event in events:
            kind = (event.server, event.feature_set, event.channel, event.tags, event.from_agent)
            kinds.setdefault(kind, []).append(event)
        chosen = ChosenEvents()
        for alike in kinds.values():
            smallest = self._decide(min(alike, key=lambda event: event.tokens), agent, chosen.tokens)
            if not chosen.takes(smallest):
                chosen.hold(smallest, alike)
                continue
            total = sum(event.tokens for event in alike)
            whole = self._decide(alike[0], agent, chosen.tokens + total - alike[0].tokens)
            if chosen.takes(whole):
                chosen.add(whole, alike)
            else:
                self._choose_some(chosen, agent, alike)
        return chosen

    def _choose_some(self, chosen: ChosenEvents, agent: str, alike: list[PendingEvent]) -> None:
        """Choose events of one kind, oldest first, within the budgets."""
        full: WakeDecision | None = None
        for event in alike:
            decision = full or self._decide(event, agent, chosen.tokens)
            if chosen.takes(decision):
                chosen.add(decision, [event])
            else:
                chosen.held.append((event, decision))
                full = decision if chosen.events else None

    async def _commit(self, agent: str, wake: Wake | None, chosen: ChosenEvents, at: float) -> None:
        """Commit a wake, and the reasons why the other events of the group are held. Raises StoreError or a `Fault`."""
        noted = [(event, why) for event, why in chosen.held if wake is not None or event.cause != self._why(agent, why)]
        if wake is None and not noted:
            return
        async with self._store.transaction() as transaction:
            if wake is not None:
                self.store(transaction, wake)
                transaction.record(self._journal.live_wake(agent, wake.server, wake.feature_set, wake.id, wake.events))
            for event, why in noted:
                document = await transaction.get(LIVE_PENDING, event.id)
                if document is not None and not document.value.delivered:
                    # A time after the wake, so that the next start knows that the wake did not include this event.
                    held = msgspec.structs.replace(
                        document.value,
                        outcome="coalesced" if why.verdict is WakeVerdict.WAKE else "held",
                        cause=self._why(agent, why),
                        held_at=at + 0.001,
                    )
                    transaction.put(LIVE_PENDING, held)

    def _why(self, agent: str, decision: WakeDecision) -> str:
        return _cause(decision, self._of(agent).name(decision.rule))

    def _of(self, agent: str) -> AgentRules:
        settings = self._settings()
        if settings is not self._rules_of:
            self._rules, self._rules_of = {}, settings
        found = self._rules.get(agent)
        if found is None:
            found = self._rules[agent] = AgentRules(settings, agent)
        return found

    def _occurrence(self, event: OccurredEvent, agent: str, tokens: int = 0) -> WakeEvent:
        return WakeEvent(
            event.server,
            agent,
            event.feature_set,
            event.channel,
            frozenset(event.tags),
            event.from_agent,
            self._causes.chain(event.server, agent),
            tokens + tokens_of(event.size),
        )

    def _spend(self, wake: Wake) -> None:
        ledger = self._ledgers.get(wake.agent, _EMPTY)
        self._ledgers[wake.agent] = ledger.add(self._keys(wake), wake.at, wakes=1, tokens=wake.cost)

    def _take_back(self, wake: Wake) -> None:
        ledger = self._ledgers.get(wake.agent, _EMPTY)
        self._ledgers[wake.agent] = ledger.take_back(self._keys(wake), wake.at, wakes=1, tokens=wake.cost)

    def _keys(self, wake: Wake) -> tuple[str, str]:
        """The budgets that a wake counts for: that of the agent, and that of the rule for the server."""
        return EVERYTHING, server_key(wake.rule, wake.server)


def _instant() -> float:
    return asyncio.get_running_loop().time()


def _cause(decision: WakeDecision, name: str) -> str:
    """The reason of a decision, in words."""
    if decision.cause == "rule":
        return f"rule {name}"
    return decision.cause + (f", rule {name}" if name else "")


_EMPTY: Final = SpendingLedger()
