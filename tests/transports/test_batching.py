"""Rounds: everything in its order, nothing lost, and nobody suffers for another."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.transports.batching import (
    BACK_TO_BACK_S,
    BATCH_SIZE,
    START_BATCHING_AFTER,
    STOP_BATCHING_AFTER,
    UNBATCHED_BYTES,
    Batching,
)


class Clock:
    """The clock by which pieces come together. It stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("interlock.transports.batching.perf_counter", made)
    return made


class RecordingTransport(asyncio.Transport):
    """Notes what was written on it, in a log that all wires share."""

    def __init__(self, name: str, log: list[tuple[str, str, bytes]]) -> None:
        super().__init__()
        self.name, self.log = name, log
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.log.append(("wrote", self.name, bytes(data)))

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Echo:
    """Answers what it takes in, on its own wire."""

    def __init__(self, name: str, batching: Batching, log: list[tuple[str, str, bytes]]) -> None:
        self.transport: asyncio.Transport = RecordingTransport(name, log)
        self.name, self.batching, self.log = name, batching, log

    def give_up(self) -> None:
        self.transport.abort()

    def take_in(self, data: bytes) -> None:
        self.log.append(("took", self.name, data))
        if data == b"break":
            raise ValueError("broken")
        self.batching.write(self.transport, data)


@contextmanager
def together(batching: Batching, by: Echo) -> Iterator[None]:
    """Make it see that pieces come together, as they do under load."""
    for _ in range(START_BATCHING_AFTER + 1):
        batching.received(by, b"warm")
    batching.settle()
    by.log.clear()
    yield


def test_a_piece_that_comes_alone_is_taken_and_answered_at_once() -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())
        batching.received(Echo("a", batching, log), b"1")
        assert log == [("took", "a", b"1"), ("wrote", "a", b"1")]

    asyncio.run(scenario())


def test_what_comes_together_is_all_taken_before_any_of_it_is_answered() -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())
        a, b = Echo("a", batching, log), Echo("b", batching, log)
        with together(batching, a):
            batching.received(a, b"1")
            batching.received(b, b"2")
            assert log == []
            await asyncio.sleep(0)
        assert [what for what, _, _ in log] == ["took", "took", "wrote", "wrote"]
        assert [(name, data) for what, name, data in log if what == "wrote"] == [("a", b"1"), ("b", b"2")]

    asyncio.run(scenario())


def test_the_first_of_a_long_batch_does_not_wait_for_the_last() -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())
        a = Echo("a", batching, log)
        with together(batching, a):
            for number in range(3 * BATCH_SIZE):
                batching.received(a, b"%d" % number)
            await asyncio.sleep(0)
        before_last = log.index(("took", "a", b"%d" % (3 * BATCH_SIZE - 1)))
        assert ("wrote", "a", b"0") in log[:before_last]

    asyncio.run(scenario())


def test_a_connection_that_fails_is_ended_and_the_others_are_answered() -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        loop = asyncio.get_running_loop()
        failures: list[dict[str, object]] = []
        loop.set_exception_handler(lambda _, context: failures.append(context))
        batching = Batching.of(loop)
        a, b = Echo("a", batching, log), Echo("b", batching, log)
        with together(batching, b):
            batching.received(a, b"break")
            batching.received(b, b"2")
            await asyncio.sleep(0)
        assert cast(RecordingTransport, a.transport).aborted
        assert ("wrote", "b", b"2") in log
        assert isinstance(failures[0]["exception"], ValueError)

    asyncio.run(scenario())


def test_once_pieces_come_alone_again_they_are_taken_at_once_again(clock: Clock) -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())
        a = Echo("a", batching, log)
        with together(batching, a):
            for _ in range(STOP_BATCHING_AFTER):
                batching.received(a, b"alone")
                await asyncio.sleep(0)
        log.clear()
        clock.now += 2 * BACK_TO_BACK_S
        batching.received(a, b"1")
        assert log == [("took", "a", b"1"), ("wrote", "a", b"1")]

    asyncio.run(scenario())


Piece = tuple[str, bytes]
PIECES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([b"x", b"yy", b"z" * UNBATCHED_BYTES])), max_size=60
)


@settings(max_examples=example_count(40, 80), deadline=None)
@given(st.lists(st.tuples(PIECES, st.booleans()), max_size=8))
def test_every_wire_gets_what_came_on_it_in_its_order(turns: list[tuple[list[Piece], bool]]) -> None:
    async def scenario() -> list[tuple[str, str, bytes]]:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())
        ends = {name: Echo(name, batching, log) for name in "abc"}
        for pieces, settled in turns:
            for name, data in pieces:
                batching.received(ends[name], data)
            if settled:
                batching.settle()
            else:
                await asyncio.sleep(0)
        return log

    log = asyncio.run(scenario())
    for wire in "abc":
        came = [data for pieces, _ in turns for name, data in pieces if name == wire]
        assert [data for what, name, data in log if (what, name) == ("took", wire)] == came
        assert [data for what, name, data in log if (what, name) == ("wrote", wire)] == came


def test_a_later_step_is_taken_by_all_before_the_one_after_it() -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())

        class Relay(Echo):
            def take_in(self, data: bytes) -> None:
                self.log.append(("took", self.name, data))
                self.batching.then(self.pass_on, data, self.transport)

            def pass_on(self, data: bytes, transport: asyncio.Transport) -> None:
                self.log.append(("passed", self.name, data))
                self.batching.write(transport, data)

        a, b = Relay("a", batching, log), Relay("b", batching, log)
        with together(batching, a):
            batching.received(a, b"1")
            batching.received(b, b"2")
            await asyncio.sleep(0)
        assert [what for what, _, _ in log] == ["took", "took", "passed", "passed", "wrote", "wrote"]
        batching.then(a.pass_on, b"3", a.transport)
        assert log[-2:] == [("passed", "a", b"3"), ("wrote", "a", b"3")]

    asyncio.run(scenario())


def test_a_loop_that_is_over_is_not_held_on_to() -> None:
    async def scenario() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        Batching.of(loop)
        return weakref.ref(loop)

    loop = asyncio.run(scenario())
    gc.collect()
    assert loop() is None


def test_what_is_done_together_is_written_at_its_end_also_where_it_fails() -> None:
    async def scenario() -> None:
        log: list[tuple[str, str, bytes]] = []
        batching = Batching.of(asyncio.get_running_loop())
        a = Echo("a", batching, log)

        def work() -> None:
            a.take_in(b"1")
            batching.together(lambda: a.take_in(b"2"))
            batching.then(a.take_in, b"3")
            a.take_in(b"break")

        with pytest.raises(ValueError, match="broken"):
            batching.together(work)
        assert [(what, data) for what, _, data in log] == [
            *[("took", each) for each in (b"1", b"2", b"break", b"3")],
            *[("wrote", each) for each in (b"1", b"2", b"3")],
        ]
        assert not batching.running

    asyncio.run(scenario())
