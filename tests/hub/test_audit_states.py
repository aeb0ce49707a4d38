"""The recorder's table of states."""

from __future__ import annotations

import itertools

import pytest

from cases import each_case
from interlock.hub.audit.states import TRANSITIONS, RecorderEvent, RecorderState
from interlock.wire.transitions import ImpossibleTransition, next_state

AT_THE_DATABASE = {RecorderState.WRITING, RecorderState.RETRYING}


@each_case("state", RecorderState)
def test_one_batch_at_most_is_at_the_database(state: RecorderState) -> None:
    assert (RecorderEvent.SEND in TRANSITIONS[state]) == (state not in AT_THE_DATABASE)
    assert (RecorderEvent.COMMIT in TRANSITIONS[state]) == (state in AT_THE_DATABASE)
    assert (RecorderEvent.FAIL in TRANSITIONS[state]) == (state in AT_THE_DATABASE)


def test_a_batch_that_failed_is_sent_again_before_any_other() -> None:
    assert TRANSITIONS[RecorderState.FAILED] == {RecorderEvent.SEND: RecorderState.RETRYING}
    assert set(TRANSITIONS[RecorderState.RETRYING].values()) == {RecorderState.IDLE, RecorderState.FAILED}


@each_case("state", RecorderState)
def test_the_recorder_becomes_idle_again_from_every_state(state: RecorderState) -> None:
    reached = {state}
    while wider := {after for known in reached for after in TRANSITIONS[known].values()} - reached:
        reached |= wider
    assert RecorderState.IDLE in reached


@each_case(("state", "event"), list(itertools.product(RecorderState, RecorderEvent)))
def test_an_event_that_the_table_has_no_place_for_is_named(state: RecorderState, event: RecorderEvent) -> None:
    after = TRANSITIONS[state].get(event)
    if after is None:
        with pytest.raises(ImpossibleTransition, match=f"^{event.value} cannot happen to a recorder that is"):
            next_state(TRANSITIONS, state, event, "a recorder")
    else:
        assert next_state(TRANSITIONS, state, event, "a recorder") is after
