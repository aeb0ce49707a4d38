"""Starts of servers: bounded at once, and whoever failed lately holds up nobody who did not."""

from __future__ import annotations

import asyncio

import pytest

from interlock.hub.upstreams import starts as module
from interlock.hub.upstreams.starts import QueueLimits, Starts, StartTurn, Urgency
from memory_kept import kept_by

EACH = QueueLimits(at_once=2, per_second=1e6, burst=1000)
LIMITS = dict.fromkeys(Urgency, EACH)


def granted(turns: list[StartTurn]) -> list[int]:
    return [number for number, turn in enumerate(turns) if turn.granted.done() and not turn.granted.cancelled()]


async def test_no_more_than_the_limit_run_and_the_next_follow_in_order() -> None:
    starts = Starts(LIMITS)
    turns = [starts.ask(0, called=False) for _ in range(5)]
    assert granted(turns) == [0, 1]
    turns[0].end()
    turns[0].end()
    assert granted(turns) == [0, 1, 2]
    turns[3].end()
    turns[1].end()
    assert granted(turns) == [0, 1, 2, 4]
    assert starts.running(Urgency.UNASKED) == 2


async def test_servers_that_failed_wait_behind_nobody_elses_limit() -> None:
    starts = Starts(LIMITS)
    failing = [starts.ask(3, called=True) for _ in range(50)]
    assert granted(failing) == [0, 1]
    assert granted([starts.ask(0, called=True), starts.ask(0, called=False)]) == [0, 1]


async def test_among_those_that_failed_called_ones_come_first_and_then_those_that_failed_least() -> None:
    starts = Starts(LIMITS)
    running = [starts.ask(1, called=False) for _ in range(2)]
    often, once, called = starts.ask(9, called=False), starts.ask(1, called=False), starts.ask(9, called=False)
    called.hurry()
    running[0].end()
    assert granted([often, once, called]) == [2]
    running[1].end()
    assert granted([often, once, called]) == [1, 2]


async def test_a_call_moves_a_waiting_start_ahead_of_those_nobody_asked_for() -> None:
    starts = Starts(LIMITS)
    turns = [starts.ask(0, called=False) for _ in range(5)]
    turns[4].hurry()
    assert granted(turns) == [0, 1, 4]
    assert starts.running(Urgency.CALLED) == 1


async def test_a_start_that_hangs_stops_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_S", 0.01)
    starts = Starts(LIMITS)
    turns = [starts.ask(0, called=False) for _ in range(3)]
    await asyncio.wait_for(turns[2].granted, 120)


async def test_starts_are_spread_over_time() -> None:
    starts = Starts(dict.fromkeys(Urgency, QueueLimits(at_once=100, per_second=100)))
    loop = asyncio.get_running_loop()
    began = loop.time()
    turns = [starts.ask(1, called=False) for _ in range(6)]
    assert granted(turns) == [0]
    await asyncio.wait_for(turns[5].granted, 120)
    assert loop.time() - began >= 5 / 100


async def test_starts_that_were_given_up_are_not_kept() -> None:
    starts = Starts(dict.fromkeys(Urgency, QueueLimits(at_once=1, per_second=1e6, burst=1000)))
    first = starts.ask(0, called=False)

    def give_up() -> None:
        for _ in range(50 * module.MAX_STALE):
            starts.ask(0, called=False).end()

    # Each start takes half a kilobyte.
    assert kept_by(give_up) < 2 * module.MAX_STALE * 1_000
    last = starts.ask(0, called=False)
    first.end()
    assert granted([last]) == [0]
