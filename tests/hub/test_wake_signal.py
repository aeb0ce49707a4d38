"""A signal that wakes the tasks that wait for it."""

from __future__ import annotations

import asyncio

from interlock.process.wake_signal import WakeSignal


async def test_a_signal_wakes_all_that_wait_and_lets_later_ones_pass_until_it_is_cleared() -> None:
    signal = WakeSignal()
    waiting = [asyncio.ensure_future(signal.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.gather(waiting[1], return_exceptions=True)
    signal.set()
    signal.clear()
    await asyncio.gather(waiting[0], waiting[2])
    later = asyncio.ensure_future(signal.wait())
    await asyncio.sleep(0)
    assert not later.done()
    assert not signal.is_set()
    signal.set()
    await later
    await signal.wait()
    assert signal.is_set()
