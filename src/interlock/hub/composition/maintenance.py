"""Runs the periodic tasks of a hub. A task never runs twice at once, and `close` waits only so long for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

TICK_S: Final = 15.0
"""How often the hub looks for due tasks."""


class PeriodicTask:
    """Work that runs at most every `every_s` seconds."""

    __slots__ = ("_due_at", "_every_s", "_work", "running")

    def __init__(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        self._work = work
        self._every_s = every_s
        self._due_at = 0.0
        self.running: asyncio.Future[None] | None = None

    def start_if_due(self, now: float) -> None:
        if now >= self._due_at and (self.running is None or self.running.done()):
            self._due_at = now + self._every_s
            self.running = asyncio.ensure_future(self._work())


class Maintenance:
    """The periodic tasks of one hub."""

    def __init__(self) -> None:
        self._checks: list[Callable[[float], None]] = []
        self._tasks: list[PeriodicTask] = []
        self._timer: asyncio.TimerHandle | None = None

    def add_check(self, check: Callable[[float], None]) -> None:
        """Call `check` with the loop's time at every tick. It must be quick."""
        self._checks.append(check)

    def add_task(self, work: Callable[[], Awaitable[None]], every_s: float = 0.0) -> None:
        """Run `work` at every tick, or less often. It handles its own failures."""
        self._tasks.append(PeriodicTask(work, every_s))

    def start(self) -> None:
        """Run what is due, now and at every tick."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for check in self._checks:
            check(now)
        for task in self._tasks:
            task.start_if_due(now)
        self._timer = loop.call_later(TICK_S, self.start)

    def stop(self) -> None:
        """Start nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self, within_s: float) -> None:
        """Wait for running tasks up to a limit, then cancel them."""
        self.stop()
        running = [task.running for task in self._tasks if task.running is not None and not task.running.done()]
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=within_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
