"""Callers that come while work is done share the next run of it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from interlock.process.shared_runs import SharedRuns


class Work:
    """Counts its runs. Each takes until it is let go, and gives its number."""

    def __init__(self) -> None:
        self.runs = 0
        self.go = asyncio.Event()
        self.began = asyncio.Event()

    async def run(self) -> int:
        self.runs += 1
        number = self.runs
        self.began.set()
        await self.go.wait()
        if number == 3:
            raise ValueError("the third fails")
        return number


async def test_whoever_asks_while_a_run_is_under_way_gets_the_next_one() -> None:
    work = Work()
    shared = SharedRuns(work.run)
    first = asyncio.create_task(shared.result())
    await work.began.wait()
    others = [asyncio.create_task(shared.result()) for _ in range(100)]
    await asyncio.sleep(0)
    work.go.set()
    assert await first == 1
    assert await asyncio.gather(*others) == [2] * 100
    failed = await asyncio.gather(shared.result(), shared.result(), return_exceptions=True)
    assert [str(each) for each in failed] == ["the third fails"] * 2
    assert await shared.result() == 4, "a failure is that of one run"


async def test_a_caller_that_gives_up_takes_the_run_from_nobody() -> None:
    work = Work()
    shared = SharedRuns(work.run)
    one, other = asyncio.create_task(shared.result()), asyncio.create_task(shared.result())
    await work.began.wait()
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    work.go.set()
    with contextlib.suppress(asyncio.CancelledError):
        assert await other == 1
    assert not other.cancelled()
