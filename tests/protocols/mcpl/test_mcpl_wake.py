"""Waking: rules, quiet hours and loops; budgets and coalescing against slow and obvious models."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcpl import coalescing
from interlock.protocols.mcpl.budgets import MAX_KEYS, HourlyBudget, SpendingLedger, SpentBudget, fits, fits_from
from interlock.protocols.mcpl.coalescing import MAX_EVENTS, CoalescingTimes, WaitingGroups
from interlock.protocols.mcpl.wake import (
    QuietHours,
    WakeEvent,
    WakePolicy,
    WakeRule,
    WakeVerdict,
    coalescing_key,
    decide,
    quiet_until,
    server_key,
)
from interlock.protocols.patterns import PatternError
from memory_kept import kept_by

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""A Monday."""
WAKE = WakeRule(WakeVerdict.WAKE)
EMPTY = SpendingLedger()


def event(**more: Any) -> WakeEvent:
    return WakeEvent(**{"server": "gitlab", "principal": "alice", "feature_set": "gitlab.push", **more})


def verdict(
    policy: WakePolicy, occurrence: WakeEvent, now: datetime = NOON, ledger: SpendingLedger = EMPTY
) -> tuple[str, str]:
    decision = decide(policy, occurrence, ledger, now)
    return decision.verdict.value, decision.cause


def test_without_a_rule_an_event_is_held() -> None:
    assert verdict(WakePolicy(), event()) == ("hold", "no_rule")


@each_case(
    ("rule", "occurrence", "matches"),
    [
        (WAKE, {}, True),
        (WakeRule(WakeVerdict.WAKE, servers=("git*",)), {}, True),
        (WakeRule(WakeVerdict.WAKE, servers=("slack",)), {}, False),
        (WakeRule(WakeVerdict.WAKE, servers=()), {}, False),
        (WakeRule(WakeVerdict.WAKE, feature_sets=("gitlab.*",)), {}, True),
        (WakeRule(WakeVerdict.WAKE, feature_sets=("gitlab.*",)), {"feature_set": "gitlab.a.b"}, True),
        (WakeRule(WakeVerdict.WAKE, feature_sets=("gitlab",)), {}, False),
        (WakeRule(WakeVerdict.WAKE, feature_sets=("*",)), {"feature_set": None}, True),
        (WakeRule(WakeVerdict.WAKE, channels=("discord:acme/*",)), {"channel": "discord:acme/x"}, True),
        (WakeRule(WakeVerdict.WAKE, channels=("discord:acme/*",)), {"channel": "discord:acme/x/y"}, False),
        (WakeRule(WakeVerdict.WAKE, channels=("**",)), {}, False),
        (WakeRule(WakeVerdict.WAKE, tags_any=("chat:addressed",)), {"tags": frozenset({"chat:dm"})}, True),
        (WakeRule(WakeVerdict.WAKE, tags_any=("chat:addressed",)), {"tags": frozenset({"chat:ambient"})}, False),
        (WakeRule(WakeVerdict.WAKE, tags_all=("chat:dm", "x:*")), {"tags": frozenset({"chat:dm"})}, False),
        (WakeRule(WakeVerdict.WAKE, tags_none=("chat:ambient",)), {"tags": frozenset({"chat:ambient"})}, False),
        (
            WakeRule(WakeVerdict.WAKE, tags_none=("chat:ambient",)),
            {"tags": frozenset({"chat:ambient", "chat:dm"})},
            True,
        ),
    ],
)
def test_a_rule_matches_by_server_set_channel_and_tags(
    rule: WakeRule, occurrence: dict[str, Any], matches: bool
) -> None:
    assert (verdict(WakePolicy((rule,)), event(**occurrence))[0] == "wake") is matches


def test_the_first_rule_that_matches_decides() -> None:
    policy = WakePolicy(
        (WakeRule(WakeVerdict.DROP, servers=("spam",)), WakeRule(WakeVerdict.HOLD, channels=("quiet",)), WAKE)
    )
    assert verdict(policy, event(server="spam"))[0] == "drop"
    assert verdict(policy, event(channel="quiet"))[0] == "hold"
    assert verdict(policy, event())[0] == "wake"


def test_a_rule_with_a_pattern_that_is_none_is_refused_when_it_is_made() -> None:
    for wrong in ({"servers": ("",)}, {"feature_sets": ("",)}, {"tags_any": ("x" * 2000,)}):
        with pytest.raises(PatternError):
            WakeRule(WakeVerdict.WAKE, **wrong)  # type: ignore[arg-type]


@each_case(
    "occurrence",
    [
        {"tags": frozenset({"chat:from-agent"})},
        {"tags": frozenset({"chat:from-self"})},
        {"chain": ("alice", "bob", "alice", "alice")},
        {"chain": ("alice", "alice", "alice"), "tags": frozenset({"chat:from-human"})},
    ],
)
def test_agents_that_talk_to_each_other_are_held_unless_a_rule_says_otherwise(occurrence: dict[str, Any]) -> None:
    assert verdict(WakePolicy((WAKE,)), event(**occurrence)) == ("hold", "loop")
    assert verdict(WakePolicy((WakeRule(WakeVerdict.WAKE, loops=True),)), event(**occurrence))[0] == "wake"


def test_a_chain_of_other_agents_is_no_loop() -> None:
    assert verdict(WakePolicy((WAKE,)), event(chain=("bob",) * 9))[0] == "wake"
    assert verdict(WakePolicy((WAKE,)), event(chain=("alice", "bob", "alice")))[0] == "wake", "a few rounds are work"


NIGHT = QuietHours(time(22), time(7))
WORK = QuietHours(time(9), time(17), frozenset({0, 1, 2, 3, 4}))


@each_case(
    ("hours", "now", "until"),
    [
        (NIGHT, datetime(2026, 1, 5, 21, 59), None),
        (NIGHT, datetime(2026, 1, 5, 22), datetime(2026, 1, 6, 7)),
        (NIGHT, datetime(2026, 1, 6, 6, 59), datetime(2026, 1, 6, 7)),
        (NIGHT, datetime(2026, 1, 6, 7), None),
        (WORK, datetime(2026, 1, 5, 12), datetime(2026, 1, 5, 17)),
        (WORK, datetime(2026, 1, 10, 12), None),
        (QuietHours(time(22), time(7), frozenset({4})), datetime(2026, 1, 10, 3), datetime(2026, 1, 10, 7)),
        (QuietHours(time(22), time(7), frozenset({4})), datetime(2026, 1, 9, 3), None),
        (QuietHours(time(8), time(8)), datetime(2026, 1, 9, 3), datetime(2026, 1, 9, 8)),
    ],
)
def test_quiet_hours_hold_by_the_clock_on_the_wall(hours: QuietHours, now: datetime, until: datetime | None) -> None:
    now = now.replace(tzinfo=UTC)
    assert quiet_until((hours,), now) == (until and until.replace(tzinfo=UTC))
    held = decide(WakePolicy((WAKE,), (hours,)), event(), SpendingLedger(), now)
    assert (held.verdict is WakeVerdict.HOLD) is (until is not None)
    through = WakePolicy((WakeRule(WakeVerdict.WAKE, through_quiet_hours=True),), (hours,))
    assert decide(through, event(), SpendingLedger(), now).verdict is WakeVerdict.WAKE


# Budgets

spends = st.lists(st.tuples(st.floats(0, 5_000), st.integers(0, 3), st.integers(0, 500)), max_size=30)
budgets = st.builds(HourlyBudget, st.none() | st.integers(0, 20), st.none() | st.integers(0, 3_000))


@given(spends, budgets, st.floats(0, 5_000), st.integers(0, 500))
def test_no_hour_ever_holds_more_than_its_budget(
    steps: list[tuple[float, int, int]], budget: HourlyBudget, later: float, tokens: int
) -> None:
    """A model that remembers every wake: what fits is never over the budget in the sixty minutes before it."""
    now, spent, history = 0.0, SpentBudget(), []
    for pause, _, cost in steps:
        now += pause
        if fits(budget, spent, now, cost):
            spent = spent.add(now, 1, cost)
            history.append((now, cost))
    for end, _ in history:
        window = [cost for at, cost in history if end - 3600 < at <= end]
        assert budget.wakes is None or len(window) <= budget.wakes
        assert budget.tokens is None or sum(window) <= budget.tokens
    assert len(spent.minutes) <= 61


@given(spends, st.floats(0, 10_000))
def test_what_counts_is_what_was_spent_in_this_minute_and_the_sixty_before(
    steps: list[tuple[float, int, int]], later: float
) -> None:
    now, spent, history = 0.0, SpentBudget(), []
    for pause, wakes, tokens in steps:
        now += pause
        spent = spent.add(now, wakes, tokens)
        history.append((int(now // 60), wakes, tokens))
    now += later
    live = [entry for entry in history if entry[0] >= int(now // 60) - 60]
    assert spent.at(now) == (sum(entry[1] for entry in live), sum(entry[2] for entry in live))


@given(spends, budgets, st.integers(0, 500))
def test_the_instant_named_is_the_first_at_which_it_fits(
    steps: list[tuple[float, int, int]], budget: HourlyBudget, tokens: int
) -> None:
    now, spent = 0.0, SpentBudget()
    for pause, wakes, cost in steps:
        now += pause
        spent = spent.add(now, wakes, cost)
    free = fits_from(budget, spent, now, tokens)
    if free is None:
        assert not fits(budget, spent, now + 100_000, tokens)
    else:
        assert fits(budget, spent, free, tokens)
        assert free == now or not fits(budget, spent, free - 0.5, tokens) or free - 0.5 < now


def test_a_clock_that_runs_backwards_forgives_nothing() -> None:
    spent = SpentBudget().add(10_000, 1, 0).add(100, 1, 0)
    assert spent.at(10_000) == (2, 0)
    assert spent.at(100) == (2, 0)


def spent(occurrence: WakeEvent, now: datetime) -> SpendingLedger:
    """The ledger with one wake, for the first rule."""
    keys = ("*", server_key("", occurrence.server))
    return SpendingLedger().add(keys, now.timestamp(), wakes=1, tokens=occurrence.tokens)


def test_a_full_budget_holds_and_says_until_when() -> None:
    policy = WakePolicy((WakeRule(WakeVerdict.WAKE, budget=HourlyBudget(wakes=1)),))
    decision = decide(policy, event(tokens=10), SpendingLedger(), NOON)
    assert decision.verdict is WakeVerdict.WAKE
    ledger = spent(event(tokens=10), NOON)
    held = decide(policy, event(), ledger, NOON)
    assert (held.verdict, held.cause) == (WakeVerdict.HOLD, "budget")
    assert held.until is not None
    assert held.until > NOON + timedelta(hours=1)
    assert decide(policy, event(), ledger, held.until).verdict is WakeVerdict.WAKE
    assert decide(policy, event(server="other"), ledger, NOON).verdict is WakeVerdict.WAKE


def test_everything_together_has_a_budget_too() -> None:
    policy = WakePolicy((WAKE,), budget=HourlyBudget(tokens=100))
    ledger = spent(event(tokens=95), NOON)
    assert verdict(policy, event(server="other", tokens=10), NOON, ledger) == ("hold", "budget")
    assert verdict(policy, event(server="other", tokens=5), NOON, ledger)[0] == "wake"


def test_a_wake_that_was_not_committed_is_taken_back() -> None:
    at = NOON.timestamp()
    keys = ("*", server_key("", "s"))
    twice = spent(event(tokens=10), NOON).add(keys, at + 90, wakes=1, tokens=7)
    assert twice.take_back(keys, at + 90, wakes=1, tokens=7).of("*").at(at + 90) == (1, 10)
    assert twice.take_back(keys, at - 300, wakes=1, tokens=7) == twice, "a spend that was never counted takes nothing"


def test_a_wake_that_no_budget_ever_allows_is_held_without_an_end() -> None:
    policy = WakePolicy((WAKE,), budget=HourlyBudget(tokens=100))
    held = decide(policy, event(tokens=101), SpendingLedger(), NOON)
    assert held.cause == "budget"
    assert held.until is None


def test_a_ledger_forgets_what_no_longer_counts_and_nothing_else() -> None:
    old = {f"k{i}": SpentBudget().add(0, 1, 1) for i in range(MAX_KEYS)}
    ledger = SpendingLedger({**old, "recent": SpentBudget().add(99_000, 1, 1)})
    assert ledger.add(("new",), 100_000, wakes=1).spent.keys() == {"recent", "new"}


# Coalescing

offers = st.lists(st.tuples(st.floats(0, 30), st.sampled_from(["a", "b", "c"])), max_size=40)
timings = st.builds(CoalescingTimes, st.floats(0, 20), st.floats(0, 60))


@given(offers, timings)
def test_coalescing_agrees_with_the_model(steps: list[tuple[float, str]], timing: CoalescingTimes) -> None:
    """The model keeps a plain list for each key and looks at all of them at every instant."""
    waiting: WaitingGroups[int] = WaitingGroups()
    model: dict[str, list[tuple[float, int]]] = {}
    got: list[tuple[str, tuple[int, ...]]] = []
    expected: list[tuple[str, tuple[int, ...]]] = []
    now = 0.0

    def deliver(now: float) -> None:
        got.extend((group.key, group.events) for group in waiting.take_due(now))
        ready = []
        for key, events in model.items():
            at = min(events[-1][0] + timing.quiet, events[0][0] + timing.longest)
            if at <= now:
                ready.append((at, key))
        for _, key in sorted(ready, key=lambda entry: entry[0]):
            expected.append((key, tuple(number for _, number in model.pop(key))))

    for number, (pause, key) in enumerate(steps):
        now += pause
        deliver(now)
        assert waiting.join(key, [number], timing, now)
        model.setdefault(key, []).append((now, number))
    deliver(now + 1_000)
    assert got == expected
    assert waiting.next_due is None
    assert sorted(n for _, events in got for n in events) == list(range(len(steps)))


def test_a_group_is_delivered_after_its_longest_delay_however_busy_it_is() -> None:
    waiting: WaitingGroups[int] = WaitingGroups()
    for second in range(100):
        if waiting.take_due(second):
            assert second == 30
            return
        assert waiting.join("k", [second], CoalescingTimes(10, 30), second)
    raise AssertionError


def test_a_flood_is_counted_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: WaitingGroups[int] = WaitingGroups()
    for number in range(MAX_EVENTS + 50):
        assert waiting.join("k", [number], CoalescingTimes(10, 30), 0)
    assert waiting.join("together", list(range(MAX_EVENTS + 50)), CoalescingTimes(10, 30), 0)
    for group in waiting.take_due(100):
        assert group.events == tuple(range(MAX_EVENTS))
        assert group.count == MAX_EVENTS + 50
    monkeypatch.setattr(coalescing, "MAX_KEYS", 1)
    assert waiting.join("k", [0], CoalescingTimes(), 0)
    assert not waiting.join("other", [0], CoalescingTimes(), 0)
    assert waiting.join("k", [0], CoalescingTimes(), 0)


def test_one_look_takes_no_further_group_after_so_many_events() -> None:
    waiting: WaitingGroups[int] = WaitingGroups()
    for key in ("a", "b", "c"):
        assert waiting.join(key, [1, 2], CoalescingTimes(), 0)
    assert [group.key for group in waiting.take_due(1, 3)] == ["a", "b"]
    assert [group.key for group in waiting.take_due(1, 3)] == ["c"]


def test_times_that_no_longer_hold_are_cleared_away() -> None:
    waiting: WaitingGroups[None] = WaitingGroups()
    assert waiting.join("k", [None] * MAX_EVENTS, CoalescingTimes(10, 10_000), 0)

    def put_off() -> None:
        for number in range(5_000):
            assert waiting.join("k", [None], CoalescingTimes(10, 10_000), number / 10)

    # So many times are more than half a megabyte.
    assert kept_by(put_off) < 50_000


def test_events_of_one_place_belong_together_and_no_others() -> None:
    assert coalescing_key(event()) == coalescing_key(event(tags=frozenset({"x:y"})))
    keys = {
        coalescing_key(found)
        for found in (
            event(),
            event(principal="bob"),
            event(server="x"),
            event(feature_set="y"),
            event(channel="gitlab.push"),
        )
    }
    assert len(keys) == 5


def test_an_event_that_may_wait_longer_puts_off_none_before_it() -> None:
    waiting = WaitingGroups[str]()
    waiting.join("k", ["alarm"], CoalescingTimes(1, 10), 0)
    waiting.join("k", ["held"], CoalescingTimes(9_000, 9_000), 0.5)
    assert waiting.next_due == 1.5
    both = WaitingGroups[str]()
    both.join("k", ["held"], CoalescingTimes(9_000, 9_000), 0)
    both.join("k", ["alarm"], CoalescingTimes(1, 10), 100)
    assert both.next_due == 10, "nor does one that waits already put off the next"
