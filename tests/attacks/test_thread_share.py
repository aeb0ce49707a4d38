"""Functions whose callers gave up hold no more than their caller's share of a server's threads."""

from __future__ import annotations

import asyncio
import threading

from interlock.server.requests.threads import Threads


async def test_t127_abandoned_functions_of_one_caller_leave_threads_to_the_others() -> None:
    threads, gate, running = Threads(8), threading.Event(), threading.Semaphore(0)

    def stuck() -> None:
        running.release()
        gate.wait()

    abandoned = [asyncio.ensure_future(threads.run(stuck, "mallory")) for _ in range(50)]
    for _ in range(4):
        await asyncio.to_thread(running.acquire)
    for task in abandoned:
        task.cancel()
    await asyncio.gather(*abandoned, return_exceptions=True)
    try:
        async with asyncio.timeout(60):
            for principal_name in ("ada", "bob", "ada"):
                assert await threads.run(lambda: 1, principal_name) == 1
        assert not running.acquire(blocking=False), "no more than its share runs at once"
    finally:
        gate.set()
    async with asyncio.timeout(60):
        assert await threads.run(lambda: 2, "mallory") == 2, "its own turn comes again"
    async with asyncio.timeout(60):
        while not threads.idle:
            await asyncio.sleep(0)
    threads.close()


async def test_t127_a_caller_without_a_thread_gets_one_when_all_are_taken() -> None:
    threads, gate = Threads(4), threading.Event()
    stuck = [asyncio.ensure_future(threads.run(gate.wait, f"sybil{n % 2}")) for n in range(4)]
    try:
        async with asyncio.timeout(60):
            assert await threads.run(lambda: 3, "ada") == 3
    finally:
        gate.set()
    await asyncio.gather(*stuck)
    threads.close()
