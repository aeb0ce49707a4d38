"""The life of a server: the table is whole, and restarts are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.config.settings import RestartSettings
from interlock.hub.upstreams.restarts import Restarts
from interlock.hub.upstreams.states import TRANSITIONS, ServerEvent, ServerState, mermaid, step
from interlock.wire.transitions import ImpossibleTransition


@given(st.lists(st.sampled_from(list(ServerEvent)), max_size=40))
def test_every_sequence_of_possible_events_keeps_a_way_to_stop_and_to_start(events: list[ServerEvent]) -> None:
    state = ServerState.REGISTERED
    for event in events:
        if event in TRANSITIONS[state]:
            state = step(state, event)
        else:
            with pytest.raises(ImpossibleTransition):
                step(state, event)
    assert reaches(state, ServerState.DISCONNECTED)
    assert reaches(state, ServerState.CONNECTED)


def reaches(state: ServerState, goal: ServerState) -> bool:
    seen: set[ServerState] = set()
    waiting = [state]
    while waiting:
        here = waiting.pop()
        if here is goal:
            return True
        if here not in seen:
            seen.add(here)
            waiting.extend(TRANSITIONS[here].values())
    return False


def test_only_a_done_handshake_connects() -> None:
    arrows = {event for row in TRANSITIONS.values() for event, after in row.items() if after is ServerState.CONNECTED}
    assert arrows == {ServerEvent.READY}


def test_the_diagram_has_every_arrow_of_the_table() -> None:
    drawn = mermaid()
    for state, row in TRANSITIONS.items():
        for event, after in row.items():
            assert f"{state.value} --> {after.value}: {event.value}" in drawn


def test_pauses_grow_and_end_when_the_window_is_full() -> None:
    restarts = Restarts(RestartSettings(max_restarts=3, window_s=100, backoff_base_ms=1000, backoff_max_ms=3000))
    pauses = [restarts.next_pause(at, failed=True) for at in (0, 1, 2, 3)]
    assert pauses[3] is None
    for pause, base in zip(pauses[:3], (1, 2, 3), strict=True):
        assert pause is not None
        assert 0.8 * base <= pause <= 1.2 * base
    assert restarts.next_pause(101, failed=True) is not None


@each_case(
    ("policy", "failed", "again"),
    [("never", True, False), ("on_failure", True, True), ("on_failure", False, False), ("always", False, True)],
)
def test_the_policy_says_whether_there_is_a_next_time(policy: str, failed: bool, again: bool) -> None:
    rules = RestartSettings(policy=policy)  # type: ignore[arg-type]
    assert (Restarts(rules).next_pause(0, failed=failed) is not None) is again
