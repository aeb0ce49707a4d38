"""The short way to a call's row gives the very row that the long way gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.hub.audit.call_rows import MOST, CallRows
from interlock.hub.audit.chain import row_of
from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import FETCHED, LOST, SUCCEEDED, TOOL_FAILED, Outcome
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store.records import values_of

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.just("x" * 300) | st.just("\0")
PRINCIPALS = st.builds(Principal, TEXTS, st.sampled_from(["agent", "person", "service", "admin"]))
TARGETS = st.builds(Target, st.sampled_from(["tool", "prompt", "completion", "server"]), TEXTS, TEXTS)
OUTCOMES = st.sampled_from([SUCCEEDED, TOOL_FAILED, LOST, FETCHED, Outcome("answered", "error", code=-32000)])
TICKETS = st.builds(
    Ticket,
    st.integers(1, 2**53),
    st.integers(0, 2**62),
    PRINCIPALS,
    TARGETS,
    st.integers(1, 2**128 - 1).map("{:032x}".format),
    st.binary(min_size=1, max_size=40) | st.just("ab" * 32),
    st.just(0.0),
    outcome=OUTCOMES,
    took_us=st.integers(0, 10**9),
)


@given(st.lists(TICKETS, max_size=6), st.binary(min_size=32, max_size=32))
def test_a_plain_call_has_the_same_row_by_either_way(tickets: list[Ticket], previous: bytes) -> None:
    short = CallRows("chain")
    for ticket in [*tickets, *tickets]:
        long = row_of("chain", ticket.record(), previous)
        assert short.row(ticket, previous) == (values_of(long), long.hash)


def test_only_so_many_principals_and_targets_are_remembered() -> None:
    short = CallRows("chain")
    who = Principal("a", "agent")
    for number in range(MOST + 3):
        ticket = Ticket(number + 1, 0, who, Target("tool", "s", f"t{number}"), "1" * 32, b"{}", 0.0, outcome=SUCCEEDED)
        made = short.row(ticket, b"")
        assert made is not None
        assert made[0] == values_of(row_of("chain", ticket.record(), b""))
    assert len(short._known) <= MOST
