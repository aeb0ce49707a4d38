from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cases import each_case
from example_counts import example_count
from interlock.discovery.budget import SessionTools, TokenBudget, fit
from interlock.discovery.errors import DiscoveryError

EXAMPLE = TokenBudget(max_tokens=8_000, pinned_reserve=2_000, discovery_reserve=3_000, cache_limit=3_000)


def test_one_figure_gives_the_proportions_of_the_specification() -> None:
    assert TokenBudget.of(8_000) == EXAMPLE


@given(st.integers(1, 1_000_000))
def test_any_single_figure_is_used_up_exactly(tokens: int) -> None:
    budget = TokenBudget.of(tokens)
    assert budget.pinned_reserve + budget.discovery_reserve + budget.cache_limit == tokens


@each_case(
    "figures",
    [
        (0, 0, 0, 0),
        (100, 50, 50, 50),
        (-1, 0, 0, 0),
        (100, True, 0, 0),
        (100, 1.5, 0, 0),
        ("100", 0, 0, 0),
        (10**12, 0, 0, 0),
    ],
)
def test_a_budget_that_cannot_be_is_refused(figures: tuple[Any, ...]) -> None:
    with pytest.raises(DiscoveryError):
        TokenBudget(*figures)


def test_a_budget_that_cannot_hold_the_pinned_tools_says_what_is_needed() -> None:
    with pytest.raises(DiscoveryError, match=r"2500 tokens and pinned_reserve is 2000.*'store' with 1500"):
        SessionTools(EXAMPLE, {"think": 1_000, "store": 1_500})


def test_the_least_recently_used_tool_makes_way() -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 1_000), ("b", 1_000), ("c", 1_000)])
    session.use("a")
    assert session.load([("d", 500)]).evicted == ("b",)
    assert session.cached == ("c", "a", "d")
    assert session.loaded == ("a", "c", "d")  # their order in a list does not follow their use


def test_calling_a_tool_that_is_not_cached_changes_nothing() -> None:
    session = SessionTools(EXAMPLE, {"think": 100})
    session.use("think")
    session.use("unknown")
    assert session.cached == ()


def test_another_budget_keeps_what_was_loaded_as_far_as_it_has_room() -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 1_000), ("b", 1_000), ("c", 1_000)])
    session.use("a")
    session.adopt(TokenBudget.of(6_000, 500), {"c": 500})
    assert session.cached == ("b", "a")
    session.adopt(TokenBudget.of(3_000), {})
    assert session.cached == ("a",)


def test_tools_that_are_gone_leave_and_those_that_grew_cost_more() -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 1_000), ("b", 1_000), ("c", 900)])
    session.refresh({"b": 1_500, "c": 1_000})
    assert (session.cached, session.total_tokens) == (("b", "c"), 2_500)
    session.refresh({"b": 2_500, "c": 1_000})
    assert session.cached == ("c",)


def test_what_an_answer_tells_has_room_beside_what_it_loads() -> None:
    session = SessionTools(TokenBudget(1_000, 0, 500, 500))
    session.load([("old", 300)])
    loaded = session.load([("a", 300), ("b", 200)], answer_tokens={"a": 350, "b": 250}, spare=100)
    assert (loaded.kept, loaded.left_out, loaded.evicted) == (("a",), ("b",), ("old",))
    assert session.total_tokens + 350 + 100 <= 1_000


def test_a_pinned_tool_is_never_cached_counted_twice_or_evicted() -> None:
    session = SessionTools(EXAMPLE, {"think": 100})
    loaded = session.load([("think", 100)])
    assert (loaded.tokens_added, session.cached, session.total_tokens) == (0, (), 100)
    with pytest.raises(DiscoveryError, match="pinned"):
        session.evict(["think"])


@each_case("tokens", [-1, 1.5, True, 10**12])
def test_a_token_count_that_cannot_be_is_refused(tokens: Any) -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 10)])
    for use in (
        lambda: session.load([("b", tokens)]),
        lambda: session.adopt(EXAMPLE, {"b": tokens}),
        lambda: session.refresh({"a": tokens}),
        lambda: session.discover([("b", tokens)]),
    ):
        with pytest.raises(DiscoveryError):
            use()
    assert (session.cached, session.total_tokens) == (("a",), 10)


def test_evicting_what_is_unknown_changes_nothing() -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 10)])
    with pytest.raises(DiscoveryError, match="not in the session cache"):
        session.evict(["a", "b"])
    assert session.cached == ("a",)
    assert session.evict(["a", "a"]) == 10


def test_results_over_the_budget_are_fewer_and_say_so() -> None:
    session = SessionTools(TokenBudget(1_000, 0, 1_000, 0))
    found = session.discover([("a", 600), ("b", 500), ("c", 300)])
    assert (found.kept, found.left_out, found.tokens) == (("a", "c"), ("b",), 900)


def test_new_results_take_the_place_of_the_old() -> None:
    session = SessionTools(TokenBudget(1_000, 0, 1_000, 0))
    session.discover([("a", 900)])
    assert session.discover([("b", 900)]).kept == ("b",)
    assert session.discovered == ("b",)


def test_a_tool_already_in_the_context_is_told_of_again_and_stands_once() -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 500)])
    assert session.discover([("a", 500), ("b", 100)]).tokens == 600
    assert session.total_tokens == 600


def test_a_tool_larger_than_the_cache_is_left_out_and_evicts_nobody() -> None:
    session = SessionTools(EXAMPLE)
    session.load([("a", 500)])
    loaded = session.load([("huge", 5_000)])
    assert (loaded.left_out, loaded.evicted, session.cached) == (("huge",), (), ("a",))


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 500)), max_size=20), st.integers(0, 2_000))
def test_what_fits_and_what_is_left_out_are_the_whole_list(found: list[tuple[str, int]], room: int) -> None:
    result = fit(found, room)
    assert result.tokens <= room
    assert set(result.kept) | set(result.left_out) == {name for name, _ in found}
    assert not set(result.kept) & set(result.left_out)


class SessionAgainstModel(RuleBasedStateMachine):
    """The session and a plain list of uses, oldest first."""

    sizes = {f"t{i}": 40 * (i + 1) for i in range(8)}  # noqa: RUF012 - never changed
    names = st.sampled_from(sorted(sizes))

    @initialize(maximum=st.integers(400, 1_200))
    def start(self, maximum: int) -> None:
        self.session = SessionTools(TokenBudget.of(maximum), {"t0": 40})
        self.uses: list[str] = []

    @rule(name=names)
    def use(self, name: str) -> None:
        self.session.use(name)
        if name in self.uses:
            self.uses = [*(n for n in self.uses if n != name), name]

    @rule(name=names)
    def load(self, name: str) -> None:
        size = self.sizes[name]
        self.session.load([(name, size)])
        if name == "t0" or size > self.session.budget.cache_limit:
            return
        self.uses = [*(n for n in self.uses if n != name), name]
        while sum(self.sizes[n] for n in self.uses) > self.session.budget.cache_limit:
            self.uses.pop(0)

    @rule(found=st.lists(names, max_size=6))
    def discover(self, found: list[str]) -> None:
        room = self.session.remaining
        result = self.session.discover([(name, self.sizes[name]) for name in found])
        assert sum(self.sizes[name] for name in result.kept) <= room

    @rule(name=names)
    def evict(self, name: str) -> None:
        if name in self.uses:
            assert self.session.evict([name]) == self.sizes[name]
            self.uses.remove(name)
        else:
            with pytest.raises(DiscoveryError):
                self.session.evict([name])

    @invariant()
    def stays_within_the_budget(self) -> None:
        if not hasattr(self, "session"):
            return
        assert list(self.session.cached) == self.uses
        assert set(self.session.loaded) == set(self.uses)
        assert self.session.pinned == ("t0",)
        assert self.session.total_tokens <= self.session.budget.max_tokens
        stands = [*self.session.pinned, *self.session.cached, *self.session.discovered]
        assert len(stands) == len(set(stands))
        assert self.session.total_tokens == sum(self.sizes[name] for name in stands)


TestSessionAgainstModel = SessionAgainstModel.TestCase
TestSessionAgainstModel.settings = settings(max_examples=example_count(30, 60), stateful_step_count=25, deadline=None)
