"""Makes the wake policy of one agent from `[live]` of the configuration, with the names of its rules."""

from __future__ import annotations

from datetime import datetime
from datetime import time as clock
from typing import Final

from interlock.config.live_settings import Day, LiveRuleSettings, LiveSettings
from interlock.protocols.mcpl.budgets import HourlyBudget
from interlock.protocols.mcpl.coalescing import CoalescingTimes
from interlock.protocols.mcpl.wake import QuietHours, WakePolicy, WakeRule, WakeVerdict
from interlock.protocols.patterns import compile_pattern

_DAYS: Final[dict[Day, int]] = {"mon": 0, "tue": 1, "wed": 2, "thu": 3, "fri": 4, "sat": 5, "sun": 6}


class AgentRules:
    """The wake policy of one agent."""

    def __init__(self, settings: LiveSettings, agent: str) -> None:
        mine = {name: rule for name, rule in settings.rules.items() if _concerns(rule, agent)}
        self.names = tuple(mine)
        """The names of its rules, in their order."""
        quiet = settings.quiet_hours
        hours: tuple[QuietHours, ...] = ()
        if quiet.start is not None:
            days = frozenset(_DAYS[day] for day in quiet.days)
            hours = (QuietHours(clock.fromisoformat(quiet.start), clock.fromisoformat(quiet.end), days),)
        budget = HourlyBudget(settings.wakes_per_hour, settings.tokens_per_hour)
        self.policy = WakePolicy(tuple(_rule(name, rule) for name, rule in mine.items()), hours, budget)

    def name(self, index: int | None) -> str:
        """The name of the rule at this place of the policy; empty for none."""
        return "" if index is None else self.names[index]


def local_now() -> datetime:
    """The current local time of this machine."""
    return datetime.now().astimezone()


def _concerns(rule: LiveRuleSettings, agent: str) -> bool:
    return rule.agents is None or any(compile_pattern(pattern).matches(agent) for pattern in rule.agents)


def _rule(name: str, rule: LiveRuleSettings) -> WakeRule:
    return WakeRule(
        WakeVerdict(rule.then),
        rule.servers,
        rule.feature_sets,
        rule.channels,
        rule.tags_any,
        rule.tags_all,
        rule.tags_none,
        rule.loops,
        rule.through_quiet_hours,
        CoalescingTimes(rule.quiet_s, rule.longest_s),
        HourlyBudget(rule.wakes_per_hour, rule.tokens_per_hour),
        name,
    )
