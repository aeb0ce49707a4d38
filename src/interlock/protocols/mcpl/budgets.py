"""Budgets for waking a model: so many wakes and so many tokens in any hour, counted in minutes.

A spend counts until its minute is a full hour old, so no window of sixty minutes ever holds more than the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

MINUTE: Final = 60.0
WINDOW: Final = 60
"""Minutes that a spend counts."""
MAX_KEYS: Final = 4_096


class HourlyBudget(msgspec.Struct, frozen=True):
    """The most wakes and tokens of one hour; None for no bound."""

    wakes: int | None = None
    tokens: int | None = None


class SpentBudget(msgspec.Struct, frozen=True):
    """Wakes and tokens by minute, oldest first. At most 61 entries."""

    minutes: tuple[tuple[int, int, int], ...] = ()
    """Minute, wakes, tokens."""

    def at(self, now: float) -> tuple[int, int]:
        """Wakes and tokens that count now."""
        live = [entry for entry in self.minutes if _counts(entry[0], now)]
        return sum(entry[1] for entry in live), sum(entry[2] for entry in live)

    def add(self, now: float, wakes: int, tokens: int) -> SpentBudget:
        """Add a spend at this instant. An earlier time than the latest minute counts as the latest minute."""
        minute = max(_minute(now), self.minutes[-1][0] if self.minutes else 0)
        live = [entry for entry in self.minutes if _counts(entry[0], now)]
        if live and live[-1][0] == minute:
            last = live.pop()
            wakes, tokens = wakes + last[1], tokens + last[2]
        return SpentBudget((*live, (minute, wakes, tokens)))

    def take_back(self, at: float, wakes: int, tokens: int) -> SpentBudget:
        """Remove a spend of that instant. A spend that was counted under a later minute stays."""
        minute = _minute(at)
        return SpentBudget(
            tuple(
                (entry[0], max(0, entry[1] - wakes), max(0, entry[2] - tokens)) if entry[0] == minute else entry
                for entry in self.minutes
            )
        )


def fits(budget: HourlyBudget, spent: SpentBudget, now: float, tokens: int) -> bool:
    """Whether one more wake with so many expected tokens is within the budget."""
    wakes_spent, tokens_spent = spent.at(now)
    if budget.wakes is not None and wakes_spent + 1 > budget.wakes:
        return False
    return budget.tokens is None or tokens_spent + tokens <= budget.tokens


def fits_from(budget: HourlyBudget, spent: SpentBudget, now: float, tokens: int) -> float | None:
    """The earliest instant at which the wake fits if nothing else is spent; None if it never does."""
    if fits(budget, spent, now, tokens):
        return now
    for minute, _, _ in spent.minutes:
        free = (minute + WINDOW + 1) * MINUTE
        if free > now and fits(budget, spent, free, tokens):
            return free
    return None


class SpendingLedger(msgspec.Struct, frozen=True):
    """The spending of several keys, such as a server, a feature set, or an agent."""

    spent: Mapping[str, SpentBudget] = {}

    def of(self, key: str) -> SpentBudget:
        """The spending under a key; nothing for an unknown one."""
        return self.spent.get(key, _NOTHING)

    def add(self, keys: tuple[str, ...], now: float, *, wakes: int = 0, tokens: int = 0) -> SpendingLedger:
        """Add a spend under several keys. Keys whose last spend no longer counts are forgotten."""
        updated = {**self.spent, **{key: self.of(key).add(now, wakes, tokens) for key in keys}}
        if len(updated) > MAX_KEYS:
            updated = {key: spent for key, spent in updated.items() if key in keys or any(spent.at(now))}
        return SpendingLedger(updated)

    def take_back(self, keys: tuple[str, ...], at: float, *, wakes: int = 0, tokens: int = 0) -> SpendingLedger:
        """Remove a spend of that instant under the same keys."""
        return SpendingLedger({**self.spent, **{key: self.of(key).take_back(at, wakes, tokens) for key in keys}})


_NOTHING = SpentBudget()


def _minute(now: float) -> int:
    return int(now // MINUTE)


def _counts(minute: int, now: float) -> bool:
    return minute >= _minute(now) - WINDOW
