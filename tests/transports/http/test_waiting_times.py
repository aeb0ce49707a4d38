"""How long a client may keep its connection waiting, as a table."""

from __future__ import annotations

import pytest

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.phase import RequestPhase
from interlock.transports.http.server.waiting_times import OverduePart, WaitingTimes

BOUNDS = HttpBounds(head_s=1, body_s=2, idle_s=3, stall_s=4, linger_s=5)
WAITS = [
    (RequestPhase.IDLE, 0, 0, 1, OverduePart.NEXT_REQUEST),
    (RequestPhase.IDLE, 1, 0, 3, OverduePart.NEXT_REQUEST),
    (RequestPhase.HEAD, 1, 0, 1, OverduePart.REQUEST),
    (RequestPhase.BODY, 1, 0, 2, OverduePart.REQUEST),
    (RequestPhase.CLOSING, 1, 0, 5, OverduePart.LINGERING),
    *((phase, 1, 9, 4, OverduePart.READING) for phase in RequestPhase),
]


@pytest.mark.parametrize(("phase", "begun", "unread", "longest", "late"), WAITS)
def test_a_client_is_late_after_the_longest_wait_and_not_before(
    phase: RequestPhase, begun: int, unread: int, longest: float, late: OverduePart
) -> None:
    times = WaitingTimes(BOUNDS)
    seen = [times.judge(phase, begun, unread, 100 + waited, is_served=False) for waited in (0, longest, longest + 0.1)]
    assert seen == [None, None, late]


def test_a_wait_begins_anew_with_every_change() -> None:
    times = WaitingTimes(BOUNDS)
    states = [
        (RequestPhase.HEAD, 1, 0),
        (RequestPhase.BODY, 1, 0),
        (RequestPhase.HEAD, 2, 0),
        (RequestPhase.HEAD, 2, 7),
        (RequestPhase.HEAD, 2, 6),
    ]
    for number, state in enumerate(states):
        assert times.judge(*state, 100.0 * number, is_served=False) is None


def test_a_client_that_waits_for_us_is_never_late_unless_it_does_not_read() -> None:
    times = WaitingTimes(BOUNDS)
    assert [times.judge(RequestPhase.IDLE, 1, 0, now, is_served=True) for now in (0, 100, 200)] == [None] * 3
    assert [times.judge(RequestPhase.IDLE, 1, 0, now, is_served=False) for now in (202, 204)] == [
        None,
        OverduePart.NEXT_REQUEST,
    ]
    assert [times.judge(RequestPhase.IDLE, 1, 5, now, is_served=True) for now in (300, 305)] == [
        None,
        OverduePart.READING,
    ]
