"""Rates against an exact model: no stretch of a minute or an hour holds more calls than allowed, wherever it begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from hub.running_hub import RawClient, child, running_hub
from interlock.config.settings import AgentSettings, Config, HubSettings, Rate, ServerSettings, ToolSettings
from interlock.hub.auth.keys import Keys
from interlock.hub.auth.principals import local_person
from interlock.hub.calls.rates import Rates, give_back, limited, take
from interlock.hub.catalog.target import Target
from interlock.hub.rate_meter import GRAINS, Meter, Meters
from memory_kept import kept_by

counts = st.none() | st.integers(1, 3 * GRAINS)
pauses = st.lists(st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 130)), max_size=150)
BOTH = ((60.0, "per_minute"), (3600.0, "per_hour"))


@given(counts, counts, pauses)
def test_no_stretch_of_time_holds_more_calls_than_allowed(
    minute: int | None, hour: int | None, steps: list[float]
) -> None:
    rate, now = Rate(minute, hour), 1000.0
    meter, made = Meter("key", rate), list[float]()
    for pause in steps:
        now += pause
        if take([meter], now) is None:
            made.append(now)
    for seconds, name in BOTH:
        most = getattr(rate, name)
        for begins in made if most is not None else ():
            assert sum(begins <= instant < begins + seconds for instant in made) <= most


@given(counts, counts, pauses)
def test_a_call_is_refused_only_where_the_exact_window_or_one_a_thirtieth_longer_is_full(
    minute: int | None, hour: int | None, steps: list[float]
) -> None:
    rate, now = Rate(minute, hour), 1000.0
    meter, made = Meter("key", rate), list[float]()
    for pause in steps:
        now += pause
        if take([meter], now) is None:
            made.append(now)
            continue
        full = False
        for seconds, name in BOTH:
            most = getattr(rate, name) or 10_000
            within = seconds if most <= GRAINS else seconds * (1 + 1 / GRAINS)
            full |= sum(instant + within > now - 1e-6 for instant in made) >= most
        assert full


@given(counts, counts, pauses, st.randoms(use_true_random=False))
def test_a_call_that_is_given_back_counts_no_more_and_every_other_call_counts_on(
    minute: int | None, hour: int | None, steps: list[float], chance: Any
) -> None:
    rate, now = Rate(minute, hour), 1000.0
    meter, made, unsent = Meter("key", rate), list[float](), list[float]()
    for pause in steps:
        now += pause
        if unsent and chance.random() < 0.5:
            give_back([meter], unsent.pop(chance.randrange(len(unsent))))
        if take([meter], now) is None:
            (made if chance.random() < 0.6 else unsent).append(now)
            continue
        full = False
        for seconds, name in BOTH:
            most = getattr(rate, name) or 10_000
            within = seconds if most <= GRAINS else seconds * (1 + 1 / GRAINS)
            full |= sum(instant + within > now - 1e-6 for instant in made + unsent) >= most
        assert full, "a call that was given back still counts"
    for seconds, name in BOTH:
        most = getattr(rate, name)
        for begins in made if most is not None else ():
            assert sum(begins <= instant < begins + seconds for instant in made) <= most


@each_case("limit", [2, 2 * GRAINS])
def test_a_call_that_comes_back_after_its_minute_frees_no_later_call(limit: int) -> None:
    meter = Meter("key", Rate(per_minute=limit))
    assert take([meter], 0.0) is None
    assert [take([meter], 100.0) is None for _ in range(limit)] == [True] * limit
    give_back([meter], 0.0)
    assert take([meter], 100.0) is not None


def test_a_new_rate_of_senders_holds_from_the_next_message_on() -> None:
    meters = Meters("server")
    assert meters.wait_s("a", Rate(per_minute=1), 0.0) == 0
    assert meters.wait_s("a", Rate(per_minute=1), 1.0) > 0
    assert meters.wait_s("a", Rate(per_minute=2), 1.0) == 0
    assert meters.wait_s("a", Rate(per_minute=1), 50.0) > 0
    assert meters.wait_s("b", Rate(per_minute=1), 1.0) == 0


def test_a_window_that_a_new_limit_adds_does_not_give_back_calls_from_before_it() -> None:
    meter = Meter("key", Rate(per_minute=5))
    assert take([meter], 0.0) is None
    meter.limit(Rate(per_hour=1))
    assert take([meter], 1.0) is None
    give_back([meter], 0.0)
    assert take([meter], 2.0) is not None


@given(st.integers(1, 100), st.integers(1, 100), st.floats(0, 1e6), pauses)
def test_after_the_wait_that_was_told_a_call_is_made(minute: int, hour: int, now: float, steps: list[float]) -> None:
    meter = Meter("key", Rate(minute, hour))
    for pause in steps:
        now += pause
        take([meter], now)
    while (refusal := take([meter], now)) is None:
        pass
    wait_ms = refusal.fault.retry_after_ms
    assert wait_ms is not None
    assert take([meter], now + wait_ms / 1000) is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 10))
def test_all_meters_give_or_none_does(sizes: list[int], calls: int) -> None:
    meters = [Meter("key", Rate(per_hour=size)) for size in sizes]
    taken = sum(take(meters, 0.0) is None for _ in range(calls))
    assert taken == min(calls, *sizes)
    for meter, size in zip(meters, sizes, strict=True):
        left = 0
        while take([meter], 0.0) is None:
            left += 1
        assert left == size - taken


@each_case("rate", [Rate(), Rate(per_minute=1)])
def test_a_look_takes_nothing(rate: Rate) -> None:
    meter = Meter("key", rate)
    for _ in range(10):
        assert limited([meter], 0.0) is None
    assert take([meter], 0.0) is None


def test_what_a_window_remembers_is_bounded_however_many_calls_it_holds() -> None:
    meter = Meter("key", Rate(per_hour=1_000_000))

    def call_often() -> None:
        for call in range(20_000):
            assert take([meter], call * 0.36) is None

    # The times of ten thousand calls are a quarter of a megabyte.
    assert kept_by(call_often) < 10_000


def test_another_limit_does_not_make_made_calls_unmade() -> None:
    meter = Meter("key", Rate(per_minute=5))
    for second in range(5):
        assert take([meter], float(second)) is None
    meter.limit(Rate(per_minute=7))
    assert [take([meter], 10.0) is None for _ in range(3)] == [True, True, False]
    meter.limit(Rate(per_minute=2, per_hour=9))
    assert meter.wait_s(10.0) == 60.0, "seven were made, and two are left when the last but one is a minute old"
    assert take([meter], 69.9) is not None
    assert take([meter], 70.0) is None


def test_a_configuration_with_another_rate_goes_on_counting_from_what_was_used(tmp_path: Path) -> None:
    config = [Config(hub=HubSettings(rate=Rate(per_minute=3)))]
    rates = Rates(lambda: config[0], Keys(tmp_path), lambda: 0.0)
    of = (local_person("somebody"), Target("tool", "s", "t"))
    assert [take(rates.of(*of), 0.0) is None for _ in range(4)] == [True] * 3 + [False]
    config[0] = Config(hub=HubSettings(rate=Rate(per_minute=4)))
    assert [take(rates.of(*of), 1.0) is None for _ in range(2)] == [True, False]


def test_when_there_are_too_many_meters_one_goes_that_nothing_was_used_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.hub.calls.rates.MAX_METERS", 3)
    tools = {name: Rate(per_minute=1) for name in "abcd"}
    config = Config(servers={"s": ServerSettings(command=("x",), tools=ToolSettings(rate=tools))})
    rates = Rates(lambda: config, Keys(tmp_path), lambda: 1.0)

    def of(name: str) -> tuple[Meter, ...]:
        return rates.of(local_person("somebody"), Target("tool", "s", name))

    assert take(of("a"), 0.0) is None
    unused = of("b")
    assert take(of("c"), 0.0) is None
    of("d")
    assert take(of("a"), 1.0) is not None
    assert take(of("c"), 1.0) is not None
    assert of("b") != unused, "it was the one that went"


async def test_t36_over_http_no_minute_holds_more_calls_of_a_key_or_a_tool_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket that refills would let half as many again through after half a minute."""
    loop, ahead = asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])
    busy = child("busy_server.py", tools=ToolSettings(rate={"pid": Rate(per_minute=2)}))
    agents = {"by-name": AgentSettings(rate=Rate(per_hour=3))}
    async with running_hub(tmp_path, {"busy": busy}, agents=agents) as hub:
        key = RawClient(hub.url + "/mcp", await hub.new_key("limited", rate=Rate(per_minute=4)))
        free = RawClient(hub.url + "/mcp", await hub.new_key("free"))
        named = RawClient(hub.url + "/mcp", await hub.new_key("by-name"))
        for client, tool, most in ((key, "busy__echo", 4), (free, "busy__pid", 2), (named, "busy__echo", 3)):
            assert await _passed(client, tool, most + 1) == most
        ahead[0] += 40
        for client, tool in ((key, "busy__echo"), (free, "busy__pid")):
            answer = await _called(client, tool)
            data = answer["error"]["data"]
            assert data["name"] == "RATE_LIMITED"
            assert data["window_secs"] == 60
            assert 15_000 < data["retry_after_ms"] <= 20_000, "when the first of them is a minute old"
        ahead[0] += 20
        assert await _passed(key, "busy__echo", 5) == 4
        assert await _passed(free, "busy__pid", 3) == 2
        data = (await _called(named, "busy__echo"))["error"]["data"]
        assert (data["limit"], data["window_secs"]) == (3, 3600)
        assert 3_500_000 < data["retry_after_ms"] < 3_540_000


async def _passed(client: RawClient, tool: str, calls: int) -> int:
    return sum(["result" in await _called(client, tool) for _ in range(calls)])


async def _called(client: RawClient, tool: str) -> Any:
    arguments = {"text": "x"} if tool == "busy__echo" else {}
    return await client.modern("tools/call", {"name": tool, "arguments": arguments})
