"""The recorder's table of states."""

from __future__ import annotations

from cases import each_case
from interlock.hub.audit.states import TRANSITIONS, RecorderEvent, RecorderState

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
