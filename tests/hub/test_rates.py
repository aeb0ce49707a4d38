"""Rates against a simple model: never more than the bucket holds and refills, and the wait that is told is enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.settings import Rate
from interlock.hub.rates import Meter, limited, take

counts = st.none() | st.integers(1, 20)


@given(counts, counts, st.lists(st.floats(0, 120), max_size=60))
def test_no_window_holds_more_than_the_bucket_and_what_it_refilled(
    minute: int | None, hour: int | None, pauses: list[float]
) -> None:
    meter, now, taken = Meter("key", Rate(minute, hour), 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        taken += take([meter], now) is None
    for count, seconds in ((minute, 60), (hour, 3600)):
        if count is not None:
            assert taken <= count + now * count / seconds + 1e-6


@given(st.integers(1, 20), st.integers(1, 20), st.floats(0, 1e6))
def test_after_the_wait_that_was_told_a_call_is_made(minute: int, hour: int, now: float) -> None:
    meter = Meter("key", Rate(minute, hour), now)
    while (refusal := take([meter], now)) is None:
        pass
    wait_ms = refusal.fault.retry_after_ms
    assert wait_ms is not None
    assert take([meter], now + wait_ms / 1000) is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 10))
def test_all_meters_give_or_none_does(sizes: list[int], calls: int) -> None:
    meters = [Meter("key", Rate(per_hour=size), 0.0) for size in sizes]
    taken = sum(take(meters, 0.0) is None for _ in range(calls))
    assert taken == min(calls, *sizes)
    for meter, size in zip(meters, sizes, strict=True):
        left = 0
        while take([meter], 0.0) is None:
            left += 1
        assert left == size - taken


@pytest.mark.parametrize("rate", [Rate(), Rate(per_minute=1)])
def test_a_look_takes_nothing(rate: Rate) -> None:
    meter = Meter("key", rate, 0.0)
    for _ in range(10):
        assert limited([meter], 0.0) is None
    assert take([meter], 0.0) is None
