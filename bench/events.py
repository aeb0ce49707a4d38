"""The cost of events: publishing to 0, 1, 100 and 10,000 subscribers, and how long delivery holds the loop.

    python bench/events.py

`asked` is `bus.wants`, all that a publisher pays while nobody listens. `published` makes and publishes an event. For
the longest hold, all subscribers wait, one event is published, and a watcher measures every turn of the loop. All
figures are processor time, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import asyncio
import gc
from time import thread_time

from interlock.events import Bus, EventFilter, Subscription
from interlock.events.types import LogWritten
from interlock.process.garbage_collection import hold_collector_back

ROUNDS = 20_000
COUNTS = (0, 1, 100, 10_000)


def line(number: int) -> LogWritten:
    return LogWritten("files", number, 0, "stderr", "text")


def asked_ns() -> float:
    bus = Bus()
    began = thread_time()
    for _ in range(ROUNDS):
        bus.wants(LogWritten)
    return (thread_time() - began) / ROUNDS * 1e9


def published_us(count: int) -> float:
    bus = Bus()
    kept = [bus.subscribe(EventFilter.of(LogWritten)) for _ in range(count)]
    began = thread_time()
    for number in range(ROUNDS):
        bus.publish(line(number))
    took = thread_time() - began
    for subscription in kept:
        subscription.close()
    return took / ROUNDS * 1e6


async def delivery(count: int) -> tuple[float, float]:
    """The longest turn of the loop in milliseconds, and the time until everyone has read, of one event."""
    bus, left = Bus(), count

    async def read(subscription: Subscription) -> None:
        nonlocal left
        async for _ in subscription:
            left -= 1

    kept = [bus.subscribe(EventFilter.of(LogWritten)) for _ in range(count)]
    tasks = [asyncio.ensure_future(read(subscription)) for subscription in kept]
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    hold_collector_back()  # as in a hub
    longest, began = 0.0, thread_time()
    before = began
    bus.publish(line(1))
    while left:
        await asyncio.sleep(0)
        now = thread_time()
        longest, before = max(longest, now - before), now
    took = thread_time() - began
    for subscription in kept:
        subscription.close()
    await asyncio.gather(*tasks)
    gc.unfreeze()
    return longest * 1000, took * 1000


def main() -> None:
    print(f"asked: {min(asked_ns() for _ in range(5)):.0f} ns")
    for count in COUNTS:
        print(f"{count:6} subscribers  published: {min(published_us(count) for _ in range(3)):.2f} us", end="")
        if count:
            runs = [asyncio.run(delivery(count)) for _ in range(5)]
            holds, took = sorted(run[0] for run in runs), min(run[1] for run in runs)
            print(f"  longest hold: {holds[0]:.2f} to {holds[-1]:.2f} ms  all read: {took:.1f} ms")
        else:
            print()


if __name__ == "__main__":
    main()
