"""Injections in their places: the same order every time, within bounds, behind a prefix that stays as it was."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.injections import (
    ArrangedInjections,
    InjectionLimits,
    SourcedInjection,
    SystemPrefix,
    arrange,
    render,
)


def sourced(server: str, namespace: str, position: Any, text: str) -> SourcedInjection:
    return SourcedInjection(server, Injection(namespace, position, text))


turns = st.lists(
    st.builds(
        sourced,
        st.sampled_from(["a", "b"]),
        st.sampled_from(["m", "n"]),
        st.sampled_from(["system", "beforeUser", "afterUser"]),
        st.sampled_from(["one", "two"]),
    ),
    max_size=6,
)


def texts(arrangement: ArrangedInjections) -> list[list[tuple[str, str]]]:
    places = (arrangement.prefix.items or (), arrangement.before_user, arrangement.after_user)
    return [[(p.server, msgspec.json.decode(p.body)[0]["text"]) for p in place] for place in places]


def test_injections_stand_by_position_then_by_the_operators_order_then_as_their_server_gave_them() -> None:
    given_order = [
        sourced("z", "n", "beforeUser", "1"),
        sourced("b", "n", "beforeUser", "2"),
        sourced("a", "n", "afterUser", "3"),
        sourced("b", "a", "beforeUser", "4"),
        sourced("a", "n", "system", "5"),
    ]
    found = arrange(given_order, order={"z": 0})
    assert texts(found) == [[("a", "5")], [("z", "1"), ("b", "2"), ("b", "4")], [("a", "3")]]


@given(turns, st.data())
def test_the_order_in_which_servers_answer_changes_nothing(turn: list[SourcedInjection], data: st.DataObject) -> None:
    by_server = {s: [found for found in turn if found.server == s] for s in ("a", "b")}
    assert arrange(by_server["a"] + by_server["b"]) == arrange(by_server["b"] + by_server["a"])


@given(st.lists(turns, min_size=1, max_size=6))
def test_the_prefix_only_ever_shrinks_and_nothing_is_lost(conversation: list[list[SourcedInjection]]) -> None:
    prefix = SystemPrefix()
    for number, turn in enumerate(conversation):
        found = arrange(turn, prefix)
        before, after = list(prefix.items or ()), list(found.prefix.items or ())
        if number:
            remaining = iter(before)
            assert all(item in remaining for item in after)
        system = sorted(f.injection.content for f in turn if f.injection.position == "system")  # type: ignore[type-var]
        late = [p for p in found.before_user if p.asked == "system"]
        placed = sorted(msgspec.json.decode(p.body)[0]["text"] for p in [*after, *late])
        assert placed == system
        prefix = found.prefix


@given(turns, turns, turns)
def test_a_turn_that_brings_the_same_system_text_keeps_every_byte_of_the_prefix(
    first: list[SourcedInjection], second: list[SourcedInjection], third: list[SourcedInjection]
) -> None:
    system = [found for found in first if found.injection.position == "system"]
    prefix = arrange(first).prefix
    for turn in (second, third):
        rest = [found for found in turn if found.injection.position != "system"]
        found = arrange([*reversed(rest), *system], prefix)
        assert found.prefix.render() == prefix.render()
        prefix = found.prefix


def test_text_that_changes_leaves_the_prefix_once() -> None:
    stable, first = sourced("a", "s", "system", "stable"), sourced("b", "v", "system", "v1")
    one = arrange([stable, first])
    two = arrange([stable, sourced("b", "v", "system", "v2")], one.prefix)
    three = arrange([stable, sourced("b", "v", "system", "v3")], two.prefix)
    assert texts(two)[:2] == [[("a", "stable")], [("b", "v2")]]
    assert three.prefix.render() == two.prefix.render() == render(one.prefix.items[:1] if one.prefix.items else ())


def test_new_system_text_of_a_later_turn_does_not_touch_the_prefix() -> None:
    one = arrange([])
    two = arrange([sourced("a", "n", "system", "late")], one.prefix)
    assert two.prefix.render() == b""
    assert texts(two)[1] == [("a", "late")]


def test_what_is_over_a_bound_is_left_out_with_its_reason_and_others_are_not() -> None:
    limits = InjectionLimits(each_bytes=100, server_bytes=150, turn_bytes=250, per_server=2)
    found = arrange(
        [
            sourced("a", "big", "beforeUser", "x" * 200),
            sourced("a", "1", "beforeUser", "x" * 40),
            sourced("a", "2", "beforeUser", "x" * 40),
            sourced("a", "3", "beforeUser", "x"),
            sourced("b", "1", "beforeUser", "x" * 60),
            sourced("b", "2", "beforeUser", "x" * 60),
            sourced("c", "1", "beforeUser", "x" * 60),
        ],
        limits=limits,
    )
    assert [(d.server, d.namespace, d.reason) for d in found.dropped] == [
        ("a", "big", "too_large"),
        ("a", "3", "too_many"),
        ("b", "2", "server_full"),
        ("c", "1", "turn_full"),
    ]
    assert sum(found.costs.values()) <= 250
    assert found.costs.keys() == {("a", "1"), ("a", "2"), ("b", "1")}


def test_each_item_is_labelled_with_its_server_and_cannot_forge_another() -> None:
    found = arrange([sourced("a", 'n","server":"b', "system", '"}]\n{"server":"b"')])
    (line,) = found.prefix.render().splitlines()
    assert msgspec.json.decode(line)["server"] == "a"
