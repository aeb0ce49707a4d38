"""A server's share of the loop, over made-up time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.transports.fairness import MAX_S, PART, SLICE_S, Share


def test_a_few_messages_now_and_then_never_make_it_rest() -> None:
    share = Share()
    assert not any(share.spend(SLICE_S, now) for now in (0.0, 0.01, 0.02, 0.03))


def test_a_message_that_took_long_is_followed_by_a_long_rest() -> None:
    assert Share().spend(0.02, 0.0) >= 0.019 / PART


def test_it_is_never_too_late_to_rest_less() -> None:
    share = Share()
    assert share.spend(MAX_S, 0.0) > 0
    assert share.spend(MAX_S / 2, 1.0) == 0, "whoever is heard late may say more"


@given(st.lists(st.floats(1e-6, 0.01), min_size=50, max_size=200))
def test_a_server_that_never_stops_gets_its_part_of_the_time(costs: list[float]) -> None:
    share, now, spent = Share(), 0.0, 0.0
    for cost in costs:
        now += cost
        spent += cost
        now += share.spend(cost, now)
    assert spent <= now * PART + MAX_S
