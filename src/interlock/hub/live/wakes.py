"""Decides what becomes of an event and wakes agents: by rules, budgets, quiet hours, and once for a group of events.

The first event of a group wakes at once. Those that follow within the quiet period share one further wake.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from interlock.config.live_settings import Live
from interlock.events import Bus
from interlock.events.types import AgentWoken, now_us
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.journal import Journal
from interlock.hub.live.causes import Causes
from interlock.hub.live.deliveries import Deliveries
from interlock.hub.live.events import LIVE_WAKES, Outcome, Pending, Wake, agent_of, day_of, now, tokens_of, wake_id
from interlock.hub.live.wake_rules import AgentRules, local_now
from interlock.protocols.mcpl import wake as rules
from interlock.protocols.mcpl.budgets import Ledger
from interlock.protocols.mcpl.coalescing import Group, Timing, Waiting, join, take_due
from interlock.protocols.mcpl.wake import EVERYTHING, Occurrence, Verdict, WakeDecision, coalescing_key, server_key
from interlock.store import Store, StoreError
from interlock.wire.errors import Fault

AGAIN_S: Final = 1.0
"""How long a group waits at least, after the rules held it or its wake could not be committed."""
MAX_KEYS: Final = 8_192
"""Groups whose latest event is remembered."""
HOUR_S: Final = 3600.0


class Occurred(Protocol):
    """An event, as far as waking goes."""

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


class Decided(msgspec.Struct, frozen=True):
    """The handling of one event for one agent."""

    outcome: Outcome
    cause: str
    group: str = ""
    wake: Wake | None = None
    """The wake of an event that waits for no others."""
    previous: float | None = None
    """When the event before it in its group came."""


class Wakes:
    """The wakes of all agents."""

    def __init__(
        self,
        settings: Callable[[], Live],
        deliveries: Deliveries,
        causes: Causes,
        journal: Journal,
        bus: Bus,
        log: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._deliveries = deliveries
        self._causes = causes
        self._journal = journal
        self._bus = bus
        self._log = log
        self._ledgers: dict[str, Ledger] = {}
        self._groups: Waiting[str] = Waiting()
        """Events that wait for others of their group: their ids, by the group's key."""
        self._latest: dict[str, float] = {}
        """When the latest event of each group came, by the machine's clock."""
        self._rules: dict[str, AgentRules] = {}
        self._rules_of: Live | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = BackgroundTasks()
        self._store: Store | None = None

    async def start(self, store: Store) -> None:
        """Go on where the last run ended: budgets, and groups that wait."""
        self._store = store
        today = day_of(now())
        known = [found.value for day in (today - 1, today) for found in await store.find(LIVE_WAKES, day=day)]
        newest: dict[str, float] = {}
        for wake in known:
            newest[wake.group] = max(newest.get(wake.group, 0.0), wake.at)
            if wake.at > now() - HOUR_S:
                self._spend(wake)
        for event in self._deliveries.all():
            if event.delivered or event.wake:
                continue
            if event.at <= newest.get(event.group, 0.0):
                self._deliveries.wake(event.agent, (event.id,))
            else:
                self.join(event)

    def take(self, event: Occurred, agent: str, at: float) -> Decided:
        """Decide what becomes of an event for an agent, and spend its wake. `undo` if it cannot be committed."""
        rules_of = self._of(agent)
        decision = self._decide(event, agent)
        name = rules_of.name(decision.rule)
        cause = f"rule {name}" if decision.cause == "rule" else decision.cause + (f", rule {name}" if name else "")
        if decision.verdict is Verdict.DROP:
            return Decided("dropped", cause)
        group = coalescing_key(self._occurrence(event, agent))
        if decision.verdict is Verdict.HOLD:
            return Decided("held", cause, group)
        instant, last = time.monotonic(), self._latest.get(group)
        if len(self._latest) >= MAX_KEYS:
            self._latest.clear()
        self._latest[group] = instant
        if group in self._groups.groups or (last is not None and instant - last < decision.timing.quiet):
            return Decided("coalesced", cause, group, None, last)
        tokens = tokens_of(event.size)
        wake = Wake(wake_id(), agent, event.server, event.feature_set, group, name, at, day_of(at), 1, tokens)
        self._spend(wake)
        return Decided("wake", cause, group, wake, last)

    def undo(self, decided: Decided) -> None:
        """Take back what `take` did for an event that was not committed."""
        if decided.wake is None and decided.outcome != "coalesced":
            return
        if decided.previous is None:
            self._latest.pop(decided.group, None)
        else:
            self._latest[decided.group] = decided.previous
        if decided.wake is not None:
            self._take_back(decided.wake)

    def join(self, event: Pending) -> None:
        """Let a committed event wait for its group's wake. One that the rules no longer wake for stays held."""
        if event.outcome == "wake":
            return
        decision = self._decide(event, event.agent)
        if decision.verdict is Verdict.WAKE:
            if not self._wait(event, decision.timing):
                # Too many groups wait. Its own wake is within the budgets, as any.
                self._tasks.begin(self._wake(Group(event.group, 0.0, 0.0, decision.timing, (event.id,), 1)), None)
        elif decision.verdict is Verdict.HOLD and decision.until is not None:
            wait_s = max(AGAIN_S, decision.until.timestamp() - now())
            if not self._wait(event, Timing(wait_s, wait_s)):
                self._log("hub", f"{event.agent} will not be woken for held events: too many groups of events wait")

    def announce(self, wake: Wake) -> None:
        """Tell of a committed wake."""
        self._causes.on_woken(wake.agent, wake.server)
        if self._bus.wants(AgentWoken):
            said = AgentWoken("live", self._bus.next(), now_us(), wake.agent, wake.id, wake.server, wake.events)
            self._bus.publish(said)

    def spent(self, agent: str) -> tuple[int, int]:
        """Wakes and tokens of an agent within the last hour."""
        return self._ledgers.get(agent, _EMPTY).of(EVERYTHING).at(now())

    async def close(self) -> None:
        """Wake nobody any more. Groups that wait are stored."""
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    def _decide(self, event: Occurred, agent: str) -> WakeDecision:
        occurrence = self._occurrence(event, agent)
        return rules.decide(self._of(agent).policy, occurrence, self._ledgers.get(agent, _EMPTY), local_now())

    def _wait(self, event: Pending, timing: Timing) -> bool:
        """Put an event into its group. False if too many groups wait."""
        joined = join(self._groups, event.group, event.id, timing, time.monotonic())
        if joined is None:
            return False
        self._groups = joined
        self._arm()
        return True

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._groups.next_due
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.01, due - time.monotonic()), self._on_time)

    def _on_time(self) -> None:
        due, self._groups = take_due(self._groups, time.monotonic())
        for group in due:
            self._tasks.begin(self._wake(group), None)
        self._arm()

    async def _wake(self, group: Group[str]) -> None:
        """Wake for a group that is due, if its events are still there and the rules still say so."""
        agent = agent_of(group.key)
        events = self._deliveries.still_waiting(group.events, agent)
        if not events or self._store is None:
            return
        first = events[0]
        occurrence = msgspec.structs.replace(
            self._occurrence(first, agent), tokens=sum(event.tokens for event in events)
        )
        decision = rules.decide(self._of(agent).policy, occurrence, self._ledgers.get(agent, _EMPTY), local_now())
        if decision.verdict is not Verdict.WAKE:
            for event in events:
                self.join(event)
            return
        at, rule = now(), self._of(agent).name(decision.rule)
        wake = Wake(
            wake_id(), agent, first.server, first.feature_set, group.key, rule, at, day_of(at), group.count,
            occurrence.tokens,
        )  # fmt: skip
        self._spend(wake)
        try:
            async with self._store.transaction() as transaction:
                transaction.insert(LIVE_WAKES, wake)
                transaction.record(
                    self._journal.live_wake(agent, first.server, first.feature_set, wake.id, group.count)
                )
        except (StoreError, Fault) as cause:
            self._log("hub", f"{agent} was not woken for {group.count} events: {cause}")
            self._take_back(wake)
            for event in events:
                self._wait(event, Timing(AGAIN_S, AGAIN_S))
            return
        self._deliveries.wake(agent, [event.id for event in events])
        self.announce(wake)

    def _of(self, agent: str) -> AgentRules:
        settings = self._settings()
        if settings is not self._rules_of:
            self._rules, self._rules_of = {}, settings
        found = self._rules.get(agent)
        if found is None:
            found = self._rules[agent] = AgentRules(settings, agent)
        return found

    def _occurrence(self, event: Occurred, agent: str) -> Occurrence:
        return Occurrence(
            event.server,
            agent,
            event.feature_set,
            event.channel,
            frozenset(event.tags),
            event.from_agent,
            self._causes.chain(event.server, agent),
            tokens_of(event.size),
        )

    def _spend(self, wake: Wake) -> None:
        ledger = self._ledgers.get(wake.agent, _EMPTY)
        self._ledgers[wake.agent] = ledger.add(self._keys(wake), wake.at, wakes=1, tokens=wake.cost)

    def _take_back(self, wake: Wake) -> None:
        ledger = self._ledgers.get(wake.agent, _EMPTY)
        self._ledgers[wake.agent] = ledger.take_back(self._keys(wake), wake.at, wakes=1, tokens=wake.cost)

    def _keys(self, wake: Wake) -> tuple[str, str]:
        """The limits that a wake counts for: everything of the agent, and its rule for one server."""
        names = self._of(wake.agent).names
        return EVERYTHING, server_key(names.index(wake.rule) if wake.rule in names else -1, wake.server)


_EMPTY: Final = Ledger()
