"""How much work the loop's thread does at once, in its own processor time: a machine under load changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from asyncio.events import Handle
from collections.abc import Iterator

COPIES = 40
"""A callback may cost as much as copying the message so many times: several passes of a decoder cost more."""


class Watchdog:
    """The dearest callback so far."""

    def __init__(self) -> None:
        self.dearest_s = 0.0
        self.what = ""

    def forget(self) -> None:
        """Begin anew."""
        self.dearest_s, self.what = 0.0, ""

    async def check(self, size: int) -> None:
        """Fail where a callback cost more than handing on a message of this size may."""
        dearest_s, what = self.dearest_s, self.what
        # Measured in a thread, it is no callback's cost.
        most_s = COPIES * await asyncio.to_thread(cost_of_a_copy, size)
        assert dearest_s <= most_s, f"{dearest_s * 1000:.1f} of {most_s * 1000:.1f} ms in {what}"


@contextlib.contextmanager
def watching() -> Iterator[Watchdog]:
    """Measure every callback of asyncio's loop."""
    dog = Watchdog()
    run = Handle._run

    def watched(self: Handle) -> None:
        began = time.thread_time()
        try:
            run(self)
        finally:
            took = time.thread_time() - began
            if took > dog.dearest_s:
                dog.dearest_s, dog.what = took, repr(self)[:200]

    Handle._run = watched  # type: ignore[attr-defined]
    # The collector's turns depend on how much the tests before this one left behind.
    gc.disable()
    try:
        yield dog
    finally:
        gc.enable()
        Handle._run = run  # type: ignore[attr-defined]


def cost_of_a_copy(size: int) -> float:
    """The time that this thread needs now to copy so many bytes, with fresh memory."""
    source = b"x" * size
    costs = []
    for _ in range(9):
        began = time.thread_time()
        bytearray(source)
        costs.append(time.thread_time() - began)
    return sorted(costs)[4]
