"""Threads that many peers share: nobody waits behind all the work of another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from interlock.process.fair_threads import FairThreads, Unwanted

from .running_hub import until


class Work:
    """Notes which work has begun. Work that hangs ends when it may."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def hanging(self, name: str) -> Callable[[], str]:
        def work() -> str:
            self.begun.append(name)
            self.may_end.wait()
            return name

        return work

    def quick(self, name: str) -> Callable[[], str]:
        def work() -> str:
            self.begun.append(name)
            return name

        return work


@contextmanager
def made(count: int) -> Iterator[tuple[FairThreads, Work]]:
    threads, work = FairThreads(count, "test"), Work()
    try:
        yield threads, work
    finally:
        work.may_end.set()
        threads.close()


async def test_peers_take_turns() -> None:
    with made(1) as (threads, work):
        first = asyncio.ensure_future(threads.run("a", work.hanging("a1")))
        await until(lambda: work.begun == ["a1"])
        names = ("a2", "a3", "b1", "b2", "c1")
        rest = [asyncio.ensure_future(threads.run(name[0], work.quick(name))) for name in names]
        await asyncio.sleep(0)
        work.may_end.set()
        assert await asyncio.gather(first, *rest) == ["a1", *names]
        assert work.begun == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_a_peer_holds_one_thread() -> None:
    with made(2) as (threads, work):
        own = [asyncio.ensure_future(threads.run("a", work.hanging(name))) for name in ("a1", "a2")]
        await until(lambda: work.begun == ["a1"])
        assert await threads.run("b", work.quick("b1")) == "b1"
        assert work.begun == ["a1", "b1"]
        work.may_end.set()
        assert await asyncio.gather(*own) == ["a1", "a2"]


async def test_work_that_nobody_wants_when_its_turn_comes_is_not_done() -> None:
    with made(2) as (threads, work):
        first = asyncio.ensure_future(threads.run("a", work.hanging("a1")))
        await until(lambda: work.begun == ["a1"])
        wanted = True
        unwanted = asyncio.ensure_future(threads.run("a", work.quick("a2"), lambda: wanted))
        last = asyncio.ensure_future(threads.run("a", work.quick("a3"), lambda: True))
        await asyncio.sleep(0)
        wanted = False
        work.may_end.set()
        with pytest.raises(Unwanted):
            await unwanted
        assert await asyncio.gather(first, last) == ["a1", "a3"]
        assert work.begun == ["a1", "a3"]


async def test_a_caller_that_stops_waiting_frees_no_thread_that_still_works() -> None:
    with made(1) as (threads, work):
        first = asyncio.ensure_future(threads.run("a", work.hanging("a1")))
        await until(lambda: work.begun == ["a1"])
        gone = asyncio.ensure_future(threads.run("b", work.quick("b1")))
        last = asyncio.ensure_future(threads.run("c", work.quick("c1")))
        await asyncio.sleep(0)
        first.cancel()
        gone.cancel()
        await asyncio.wait([first, gone])
        assert (threads.running, threads.waiting) == (1, 1)
        work.may_end.set()
        assert await last == "c1"
        assert work.begun == ["a1", "c1"]
        await until(lambda: threads.running == 0)
        assert threads.waiting == 0


async def test_a_turn_that_comes_in_the_moment_of_its_cancellation_is_given_back() -> None:
    with made(1) as (threads, work):
        first = asyncio.ensure_future(threads.run("a", work.hanging("a1")))
        await until(lambda: work.begun == ["a1"])

        async def cancel_the_next() -> None:
            # This work is not wanted, so its turn goes to the next one at once.
            with pytest.raises(Unwanted):
                await threads.run("b", work.quick("b1"), lambda: False)
            following.cancel()

        leaving = asyncio.ensure_future(cancel_the_next())
        await asyncio.sleep(0)
        following = asyncio.ensure_future(threads.run("c", work.quick("c1")))
        await asyncio.sleep(0)
        work.may_end.set()
        await asyncio.wait([first, leaving, following])
        assert following.cancelled()
        last = asyncio.ensure_future(threads.run("d", work.quick("d1")))
        await until(last.done)
        assert work.begun == ["a1", "d1"]


async def test_work_that_fails_gives_its_turn_back() -> None:
    with made(1) as (threads, _):
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run("a", lambda: 1 // 0)


async def test_work_that_waits_when_the_threads_end_is_cancelled() -> None:
    with made(1) as (threads, work):
        first = asyncio.ensure_future(threads.run("a", work.hanging("a1")))
        await until(lambda: work.begun == ["a1"])
        waiting = [asyncio.ensure_future(threads.run(peer, work.quick(peer))) for peer in ("a", "b")]
        await asyncio.sleep(0)
        threads.close()
        work.may_end.set()
        assert await first == "a1"
        await asyncio.wait(waiting)
        assert [each.cancelled() for each in waiting] == [True, True]
        assert work.begun == ["a1"]
