"""Decides whether an admitted event wakes a model, is held or is dropped: by rules, quiet hours, loops and budgets.

The first rule that matches decides. Without one, an event is held. Tags are the server's claims, so a rule that must
not depend on them names the server, the feature set or the channel. Callers decide when an event arrives, and again
when its coalesced group is due. They spend once for the group.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime, time, timedelta
from typing import Final, Literal

import msgspec

from interlock.protocols.mcpl.budgets import HourlyBudget, SpendingLedger, fits, fits_from
from interlock.protocols.mcpl.coalescing import CoalescingTimes
from interlock.protocols.mcpl.events import expand_tags
from interlock.protocols.mcpl.policy import names
from interlock.protocols.patterns import FEATURE_SETS, compile_pattern


class WakeVerdict(enum.Enum):
    """The verdict on an event."""

    WAKE = "wake"
    HOLD = "hold"
    """The event is kept until the next turn that begins for another reason."""
    DROP = "drop"


class WakeEvent(msgspec.Struct, frozen=True):
    """The properties of an admitted event that decide about waking."""

    server: str
    principal: str
    """The agent that would be woken."""
    feature_set: str | None = None
    channel: str | None = None
    tags: frozenset[str] = frozenset()
    chain: tuple[str, ...] = ()
    """The agents whose wakes led to it, as the hub traced them."""
    tokens: int = 0
    """The expected cost of a wake."""


class WakeRule(msgspec.Struct, frozen=True):
    """One rule. A list that is None matches everything. An empty list matches nothing."""

    verdict: WakeVerdict
    servers: tuple[str, ...] | None = None
    feature_sets: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    tags_none: tuple[str, ...] = ()
    loops: bool = False
    """Whether it also wakes for events that agents caused."""
    through_quiet_hours: bool = False
    timing: CoalescingTimes = CoalescingTimes()
    budget: HourlyBudget = HourlyBudget()
    """The budget of the rule, for each server."""
    name: str = ""
    """The name under which its spending is counted."""

    def __post_init__(self) -> None:
        """Refuse a rule with a pattern that cannot be used. Raises PatternError."""
        tags = (*self.tags_any, *self.tags_all, *self.tags_none)
        for pattern in (*(self.servers or ()), *(self.channels or ()), *tags):
            compile_pattern(pattern)
        for pattern in self.feature_sets or ():
            compile_pattern(pattern, FEATURE_SETS)


class QuietHours(msgspec.Struct, frozen=True):
    """A daily period by the local clock. An end before the start is on the next day."""

    start: time
    end: time
    days: frozenset[int] = frozenset(range(7))
    """Weekdays on which it starts; Monday is 0."""


class WakePolicy(msgspec.Struct, frozen=True):
    """The rules, quiet hours and budget of one agent."""

    rules: tuple[WakeRule, ...] = ()
    quiet_hours: tuple[QuietHours, ...] = ()
    budget: HourlyBudget = HourlyBudget(wakes=60)
    """The budget for all wakes of the agent."""


Cause = Literal["rule", "no_rule", "loop", "quiet_hours", "budget"]

EVERYTHING: Final = "*"
MAX_ROUNDS: Final = 3
"""Wakes of one agent in a chain, after which a further one counts as a loop."""
SEPARATOR: Final = "\x1f"
"""Separates the parts of a key. No name contains it."""


class WakeDecision(msgspec.Struct, frozen=True):
    """A decision, its cause, and the end of a hold if it is known."""

    verdict: WakeVerdict
    cause: Cause
    rule: int | None = None
    until: datetime | None = None
    key: str = ""
    """The coalescing key. Events with the same key are coalesced."""
    timing: CoalescingTimes = CoalescingTimes()


def decide(policy: WakePolicy, occurrence: WakeEvent, ledger: SpendingLedger, now: datetime) -> WakeDecision:
    """Decide about an event. `now` is aware, in the time zone of the quiet hours."""
    index, rule = next(((i, rule) for i, rule in enumerate(policy.rules) if matches(rule, occurrence)), (None, None))
    if rule is None:
        return WakeDecision(WakeVerdict.HOLD, "no_rule")
    if rule.verdict is not WakeVerdict.WAKE:
        return WakeDecision(rule.verdict, "rule", index)
    if is_loop(occurrence) and not rule.loops:
        return WakeDecision(WakeVerdict.HOLD, "loop", index)
    quiet = None if rule.through_quiet_hours else quiet_until(policy.quiet_hours, now)
    if quiet is not None:
        return WakeDecision(WakeVerdict.HOLD, "quiet_hours", index, quiet)
    instant = now.timestamp()
    budgets = ((policy.budget, EVERYTHING), (rule.budget, server_key(rule.name, occurrence.server)))
    if not all(fits(budget, ledger.of(key), instant, occurrence.tokens) for budget, key in budgets):
        free = [fits_from(budget, ledger.of(key), instant, occurrence.tokens) for budget, key in budgets]
        known = [at for at in free if at is not None]
        until = datetime.fromtimestamp(max(known), now.tzinfo) if len(known) == len(free) else None
        return WakeDecision(WakeVerdict.HOLD, "budget", index, until)
    return WakeDecision(WakeVerdict.WAKE, "rule", index, None, coalescing_key(occurrence), rule.timing)


def matches(rule: WakeRule, occurrence: WakeEvent) -> bool:
    """Whether a rule matches an event."""
    if not _one_of(rule.servers, occurrence.server) or not _one_of(rule.channels, occurrence.channel):
        return False
    if rule.feature_sets is not None and not names(rule.feature_sets, occurrence.feature_set or ""):
        return False
    tags = expand_tags(occurrence.tags)
    if rule.tags_any and not any(_tagged(pattern, tags) for pattern in rule.tags_any):
        return False
    if not all(_tagged(pattern, tags) for pattern in rule.tags_all):
        return False
    return not any(_tagged(pattern, tags) for pattern in rule.tags_none)


def is_loop(occurrence: WakeEvent) -> bool:
    """Whether an event is part of a loop: its server says so, or several wakes of the same agent led to it."""
    claimed = occurrence.tags & {"chat:from-agent", "chat:from-bot", "chat:from-self"}
    return bool(claimed) or occurrence.chain.count(occurrence.principal) >= MAX_ROUNDS


def quiet_until(hours: Iterable[QuietHours], now: datetime) -> datetime | None:
    """The end of the current quiet hours; None outside of them."""
    ends = []
    for window in hours:
        for back in (0, 1):
            day = (now - timedelta(days=back)).date()
            start = datetime.combine(day, window.start, now.tzinfo)
            end = datetime.combine(day, window.end, now.tzinfo)
            if end <= start:
                end += timedelta(days=1)
            if day.weekday() in window.days and start <= now < end:
                ends.append(end)
    return max(ends, default=None)


def coalescing_key(occurrence: WakeEvent) -> str:
    """The key of an event: its agent, server and channel, or its feature set without a channel."""
    place = occurrence.channel if occurrence.channel is not None else occurrence.feature_set
    return SEPARATOR.join(
        (occurrence.principal, occurrence.server, "c" if occurrence.channel is not None else "f", place or "")
    )


def server_key(rule: str, server: str) -> str:
    """The ledger's key for the spending of one rule for one server."""
    return f"{rule}:{server}"


def _one_of(patterns: tuple[str, ...] | None, subject: str | None) -> bool:
    if patterns is None:
        return True
    return subject is not None and any(compile_pattern(pattern).matches(subject) for pattern in patterns)


def _tagged(pattern: str, tags: frozenset[str]) -> bool:
    return any(compile_pattern(pattern).matches(tag) for tag in tags)
