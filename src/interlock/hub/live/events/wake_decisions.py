"""Decides whether an event wakes its agent, is held or is dropped: by the agent's rules, and within its budgets.

A decision spends nothing. `spend` counts a wake for the budgets of its agent and of its rule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from interlock.config.live_settings import LiveSettings
from interlock.hub.live.events.documents import Wake, now, tokens_of
from interlock.hub.live.events.wake_chains import WakeChains
from interlock.hub.live.events.wake_rules import AgentRules, local_now
from interlock.protocols.mcpl import wake as rules
from interlock.protocols.mcpl.budgets import SpendingLedger
from interlock.protocols.mcpl.wake import (
    EVERYTHING,
    SEPARATOR,
    WakeDecision,
    WakeEvent,
    WakeVerdict,
    coalescing_key,
    server_key,
)

_EMPTY: Final = SpendingLedger()


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


class WakeDecisions:
    """The rules of all agents, and the wakes that each has spent."""

    def __init__(self, settings: Callable[[], LiveSettings], causes: WakeChains) -> None:
        self._settings = settings
        self._causes = causes
        self._ledgers: dict[str, SpendingLedger] = {}
        self._rules: dict[str, AgentRules] = {}
        self._rules_of: LiveSettings | None = None
        self._held_until = 0.0

    def hold_until(self, at: float) -> None:
        """Count every budget as used up until then: it is not known which wakes were spent."""
        self._held_until = at

    def decide(self, event: OccurredEvent, agent: str, tokens: int = 0) -> WakeDecision:
        """The decision about an event in a wake that already takes `tokens` tokens."""
        occurrence = self._occurrence(event, agent, tokens)
        decision = rules.decide(self._of(agent).policy, occurrence, self._ledgers.get(agent, _EMPTY), local_now())
        if decision.verdict is not WakeVerdict.WAKE or now() >= self._held_until:
            return decision
        until = datetime.fromtimestamp(self._held_until, UTC)
        return msgspec.structs.replace(decision, verdict=WakeVerdict.HOLD, cause="budget", until=until)

    def group(self, event: OccurredEvent, agent: str, decision: WakeDecision) -> str:
        """The key of the group that an event belongs to. A group belongs to one rule."""
        return SEPARATOR.join((coalescing_key(self._occurrence(event, agent)), self.rule(agent, decision.rule)))

    def rule(self, agent: str, index: int | None) -> str:
        """The name of an agent's rule."""
        return self._of(agent).name(index)

    def cause(self, agent: str, decision: WakeDecision) -> str:
        """The reason of a decision, in words."""
        name = self.rule(agent, decision.rule)
        if decision.cause == "rule":
            return f"rule {name}"
        return decision.cause + (f", rule {name}" if name else "")

    def spend(self, wake: Wake) -> None:
        """Count a wake."""
        ledger = self._ledgers.get(wake.agent, _EMPTY)
        self._ledgers[wake.agent] = ledger.add(_budgets(wake), wake.at, wakes=1, tokens=wake.cost)

    def take_back(self, wake: Wake) -> None:
        """Count a wake no longer: it was not committed."""
        ledger = self._ledgers.get(wake.agent, _EMPTY)
        self._ledgers[wake.agent] = ledger.take_back(_budgets(wake), wake.at, wakes=1, tokens=wake.cost)

    def spent(self, agent: str) -> tuple[int, int]:
        """Wakes and tokens of an agent within the last hour."""
        return self._ledgers.get(agent, _EMPTY).of(EVERYTHING).at(now())

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
            self._causes.chain(event.server, agent),
            tokens + tokens_of(event.size),
        )


def _budgets(wake: Wake) -> tuple[str, str]:
    """The budgets that a wake counts for: that of the agent, and that of the rule for the server."""
    return EVERYTHING, server_key(wake.rule, wake.server)
