"""Sealed state: what one caller was given is worthless to another, altered, late, or for something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.hub.calls.bridges.request_states import MAX_APPROVED, RequestStates
from interlock.wire.errors import Fault

SEAL = RequestStates(b"s" * 32)


@given(st.text(), st.text(), st.text())
def test_the_principal_gets_back_what_was_sealed(principal_name: str, purpose: str, state: str) -> None:
    assert SEAL.open(SEAL.close(principal_name, purpose, state, 10), principal_name, purpose, 9) == state


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_token_with_any_character_changed_is_refused(position: int, change: int) -> None:
    token = SEAL.close("a", "p", "state", 10)
    at = position % len(token)
    other = chr(change)
    if other == token[at]:
        return
    with pytest.raises(Fault) as caught:
        SEAL.open(token[:at] + other + token[at + 1 :], "a", "p", 1)
    assert caught.value.name == "REQUEST_STATE_REFUSED"


@each_case(("principal_name", "purpose", "now"), [("b", "p", 1), ("a", "other", 1), ("a", "p", 10), ("a", "p", 11)])
def test_another_principal_purpose_or_time_is_refused_in_the_same_words(
    principal_name: str, purpose: str, now: float
) -> None:
    token = SEAL.close("a", "p", "state", 10)
    with pytest.raises(Fault) as caught:
        SEAL.open(token, principal_name, purpose, now)
    with pytest.raises(Fault) as rubbish:
        SEAL.open("rubbish", "a", "p", 1)
    assert caught.value.message == rubbish.value.message


@given(st.text(max_size=100))
def test_no_text_is_a_token_by_chance(text: str) -> None:
    with pytest.raises(Fault):
        SEAL.open(text, "a", "p", 1)


@each_case("more", ["-TAMPERED", "=", "A", " ", "\n"])
def test_a_token_with_anything_added_is_refused(more: str) -> None:
    with pytest.raises(Fault):
        SEAL.open(SEAL.close("a", "p", "state", 10) + more, "a", "p", 1)


def test_another_secret_opens_nothing() -> None:
    with pytest.raises(Fault):
        RequestStates(b"t" * 32).open(SEAL.close("a", "p", "s", 10), "a", "p", 1)


def test_an_approval_goes_on_once_with_the_round_it_was_given_in_for_its_principal_and_purpose() -> None:
    token = SEAL.close("a", "p", None, 10, "matter")
    assert SEAL.open(token, "a", "p", 1) is None
    for principal_name, purpose, now in (("b", "p", 1), ("a", "other", 1), ("a", "p", 10)):
        assert SEAL.approved(token, principal_name, purpose, now) == ""
    assert SEAL.approved(SEAL.close("a", "p", "state", 10), "a", "p", 1) == ""
    assert SEAL.approved(token, "a", "p", 1) == "matter"
    assert SEAL.approved(token, "a", "p", 1) == ""


def test_how_many_approved_rounds_are_remembered_is_bounded() -> None:
    states = RequestStates(b"s" * 32)
    tokens = [states.close("a", "p", None, 10, str(number)) for number in range(MAX_APPROVED + 1)]
    assert states.approved(tokens[0], "a", "p", 1) == ""
    assert states.approved(tokens[1], "a", "p", 1) == "1"
