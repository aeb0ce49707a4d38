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
"""A start that takes longer no longer counts: servers that hang must not block the starts of others."""

MAX_STALE: Final = 100
"""A queue keeps at most this many stale entries, or as many as turns that wait."""


class Urgency(enum.Enum):
    """Which queue a start waits in."""

    CALLED = "called"
    """A call or a person waits for the server, and the server did not fail lately."""
    UNASKED = "unasked"
    """The server starts with the hub, and nobody waits for it yet."""
    FAILED = "failed"
    """The server failed when it last ran. Those that a call waits for come first, then those that failed least."""


class QueueLimits(msgspec.Struct, frozen=True):
    """How many starts of one urgency run at once, and how fast they follow each other."""

    at_once: int
    per_second: float
    burst: int = 1
    """This many may follow each other without a pause, after a quiet time."""


PROCESSES: Final[Mapping[Urgency, QueueLimits]] = {
    Urgency.CALLED: QueueLimits(16, 50, burst=16),
    Urgency.UNASKED: QueueLimits(8, 40, burst=8),
    Urgency.FAILED: QueueLimits(4, 5),
}
"""Limits for processes: each start takes tens of milliseconds of a core."""

ADDRESSES: Final[Mapping[Urgency, QueueLimits]] = {
    Urgency.CALLED: QueueLimits(64, 400, burst=64),
    Urgency.UNASKED: QueueLimits(32, 200, burst=32),
    Urgency.FAILED: QueueLimits(8, 20),
}
"""Limits for servers at a URL: a start is a few requests."""


class StartTurn:
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
        """Move ahead, as a call waits for the server."""
        if not self.called:
            self.called = True
            if self.queue is not None and not self.granted.done():
                self._starts.join(self)

    def end(self) -> None:
        """End the turn: the server is ready, failed, or is not to start any more. A second call does nothing."""
        queue, self.queue = self.queue, None
        self.granted.cancel()
        if queue is None:
            return
        if self.hold is None:
            queue.on_left()
        else:
            self.hold.cancel()
            self.hold = None
            queue.on_freed()


class Starts:
    """All starts of one kind of server."""

    def __init__(self, limits: Mapping[Urgency, QueueLimits]) -> None:
        self._queues = {urgency: _Queue(limit) for urgency, limit in limits.items()}

    def ask(self, failures: int, *, called: bool) -> StartTurn:
        """Request a start of a server with this many recent failures. Await `granted`, and always `end` the turn."""
        turn = StartTurn(self, failures, called=called)
        self.join(turn)
        return turn

    def join(self, turn: StartTurn) -> None:
        """Put a turn in the queue of its urgency, and take it out of any other."""
        if turn.queue is not None:
            turn.queue.on_left()
        turn.queue = self._queues[turn.urgency]
        turn.queue.add(turn)

    def running(self, urgency: Urgency) -> int:
        """How many starts of a queue run now."""
        return self._queues[urgency].running


class _Queue:
    """The turns of one urgency. A turn that left the queue leaves a stale entry behind, which is skipped."""

    def __init__(self, limit: QueueLimits) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[tuple[bool, int, int], StartTurn]] = []
        self._number = 0
        self._stale = 0
        """Upper bound for the number of stale entries."""
        self.running = 0
        self._allowance = float(limit.burst)
        self._counted = self._loop.time()
        self._later: asyncio.TimerHandle | None = None

    def add(self, turn: StartTurn) -> None:
        self._number += 1
        heapq.heappush(self._waiting, ((not turn.called, turn.failures, self._number), turn))
        self._let_through()

    def on_left(self) -> None:
        self._stale += 1
        if self._stale > MAX_STALE and 2 * self._stale > len(self._waiting):
            self._waiting = [entry for entry in self._waiting if self._waits(entry[1])]
            heapq.heapify(self._waiting)
            self._stale = 0

    def on_freed(self) -> None:
        self.running -= 1
        self._let_through()

    def _waits(self, turn: StartTurn) -> bool:
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
        """Take one start off the allowance, or set a timer for the next."""
        limit, now = self._limit, self._loop.time()
        self._allowance = min(limit.burst, self._allowance + (now - self._counted) * limit.per_second)
        self._counted = now
        if self._allowance >= 1:
            self._allowance -= 1
            return True
        if self._later is None:
            # Chance spreads out the starts of servers that failed together.
            pause = (1 - self._allowance) / limit.per_second * random.uniform(1, 1.5)
            self._later = self._loop.call_later(pause, self._on_timer)
        return False

    def _on_timer(self) -> None:
        self._later = None
        self._let_through()
