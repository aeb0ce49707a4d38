"""Limits how many servers start at once and per second, so that servers which keep failing do not slow down the others.

A start waits in one of three queues, each with limits of its own. So a server that a call needs never waits behind
servers that nobody asked for, and no server waits behind servers that failed lately.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import random
from collections.abc import Mapping
from typing import Final

import msgspec

HOLD_S: Final = 2.0
"""A start that takes longer no longer counts as one: servers that hang must not keep others from starting."""


MOST_LEFT: Final = 100
"""So many entries of turns that left may stay in a queue, or as many as turns that wait."""


class Urgency(enum.Enum):
    """Which queue a start waits in."""

    CALLED = "called"
    """A call or a person waits for the server, and it did not fail lately."""
    UNASKED = "unasked"
    """The server starts with the hub, and nobody waits for it yet."""
    FAILED = "failed"
    """The server failed when it last ran. Those that a call waits for come first, then those that failed least."""


class Limit(msgspec.Struct, frozen=True):
    """What one queue lets through."""

    at_once: int
    per_second: float
    burst: int = 1
    """So many may follow each other without a pause, after a time without any."""


PROCESSES: Final[Mapping[Urgency, Limit]] = {
    Urgency.CALLED: Limit(16, 50, burst=16),
    Urgency.UNASKED: Limit(8, 40, burst=8),
    Urgency.FAILED: Limit(4, 5),
}
"""For servers that are processes: each start takes tens of milliseconds of a core."""

ADDRESSES: Final[Mapping[Urgency, Limit]] = {
    Urgency.CALLED: Limit(64, 400, burst=64),
    Urgency.UNASKED: Limit(32, 200, burst=32),
    Urgency.FAILED: Limit(8, 20),
}
"""For servers at a URL: a start is a few requests."""


class Turn:
    """One start: waits until it is granted, and ends when the server is ready or has failed."""

    def __init__(self, starts: Starts, failures: int, *, called: bool) -> None:
        self._starts = starts
        self.failures = failures
        self.called = called
        self.queue: _Queue | None = None
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.hold: asyncio.TimerHandle | None = None

    @property
    def urgency(self) -> Urgency:
        if self.failures:
            return Urgency.FAILED
        return Urgency.CALLED if self.called else Urgency.UNASKED

    def hurry(self) -> None:
        """A call waits for the server now."""
        if not self.called:
            self.called = True
            if self.queue is not None and not self.granted.done():
                self._starts.join(self)

    def end(self) -> None:
        """The server is ready, has failed, or shall not start any more. May be called again."""
        queue, self.queue = self.queue, None
        self.granted.cancel()
        if queue is None:
            return
        if self.hold is None:
            queue.left()
        else:
            self.hold.cancel()
            self.hold = None
            queue.freed()


class Starts:
    """All starts of one kind of server."""

    def __init__(self, limits: Mapping[Urgency, Limit]) -> None:
        self._queues = {urgency: _Queue(limit) for urgency, limit in limits.items()}

    def ask(self, failures: int, *, called: bool) -> Turn:
        """Ask to start a server that failed so often lately. Await `granted`, and `end` the turn in any case."""
        turn = Turn(self, failures, called=called)
        self.join(turn)
        return turn

    def join(self, turn: Turn) -> None:
        """Wait in the queue for the turn's urgency; the place in another queue is given up."""
        if turn.queue is not None:
            turn.queue.left()
        turn.queue = self._queues[turn.urgency]
        turn.queue.add(turn)

    def running(self, urgency: Urgency) -> int:
        """How many starts of a queue are under way."""
        return self._queues[urgency].running


class _Queue:
    """Turns of one urgency. A turn that left, or moved ahead, leaves an entry behind that is skipped."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[tuple[bool, int, int], Turn]] = []
        self._number = 0
        self._left = 0
        """At most so many entries are of turns that left."""
        self.running = 0
        self._allowance = float(limit.burst)
        self._counted = self._loop.time()
        self._later: asyncio.TimerHandle | None = None

    def add(self, turn: Turn) -> None:
        self._number += 1
        heapq.heappush(self._waiting, ((not turn.called, turn.failures, self._number), turn))
        self._let_through()

    def left(self) -> None:
        self._left += 1
        if self._left > MOST_LEFT and 2 * self._left > len(self._waiting):
            self._waiting = [entry for entry in self._waiting if self._waits(entry[1])]
            heapq.heapify(self._waiting)
            self._left = 0

    def freed(self) -> None:
        self.running -= 1
        self._let_through()

    def _waits(self, turn: Turn) -> bool:
        return turn.queue is self and not turn.granted.done()

    def _let_through(self) -> None:
        while self._waiting and self.running < self._limit.at_once:
            turn = self._waiting[0][1]
            if not self._waits(turn):
                heapq.heappop(self._waiting)
                continue
            if not self._allowed():
                return
            heapq.heappop(self._waiting)
            self.running += 1
            turn.hold = self._loop.call_later(HOLD_S, turn.end)
            turn.granted.set_result(None)

    def _allowed(self) -> bool:
        """Take one start off the allowance, or come back when there is one."""
        limit, now = self._limit, self._loop.time()
        self._allowance = min(limit.burst, self._allowance + (now - self._counted) * limit.per_second)
        self._counted = now
        if self._allowance >= 1:
            self._allowance -= 1
            return True
        if self._later is None:
            # Later than the rate alone would have it, by chance: whatever fell together comes back spread out.
            pause = (1 - self._allowance) / limit.per_second * random.uniform(1, 1.5)
            self._later = self._loop.call_later(pause, self._look_again)
        return False

    def _look_again(self) -> None:
        self._later = None
        self._let_through()
