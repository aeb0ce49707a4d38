"""What a hub does from time to time while nobody asks for it. One chore of a kind at a time; one that is late is not
run twice, and the end waits for none that does not end by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

LOOK_EVERY_S: Final = 15.0
"""How often it is looked what is due."""


class PeriodicTask:
    """Something to be done, at most so often."""

    __slots__ = ("at", "every_s", "running", "work")

    def __init__(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        self.work = work
        self.every_s = every_s
        self.at = 0.0
        self.running: asyncio.Future[None] | None = None


class Maintenance:
    """Does the chores of one hub."""

    def __init__(self) -> None:
        self._looks: list[Callable[[float], None]] = []
        self._maintenance: list[PeriodicTask] = []
        self._timer: asyncio.TimerHandle | None = None

    def look(self, preview: Callable[[float], None]) -> None:
        """Have something looked at each time: quick, and with the loop's time."""
        self._looks.append(preview)

    def periodic_task(self, work: Callable[[], Awaitable[None]], every_s: float = 0.0) -> None:
        """Have something done each time, or less often; it sees to its own failures."""
        self._maintenance.append(PeriodicTask(work, every_s))

    def begin(self) -> None:
        """Do what is due, and again later."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for preview in self._looks:
            preview(now)
        for periodic_task in self._maintenance:
            if now >= periodic_task.at and (periodic_task.running is None or periodic_task.running.done()):
                periodic_task.at = now + periodic_task.every_s
                periodic_task.running = asyncio.ensure_future(periodic_task.work())
        self._timer = loop.call_later(LOOK_EVERY_S, self.begin)

    def rest(self) -> None:
        """Begin nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self, within_s: float) -> None:
        """Let what is being done come to its end, for so long."""
        self.rest()
        running = [
            periodic_task.running
            for periodic_task in self._maintenance
            if periodic_task.running is not None and not periodic_task.running.done()
        ]
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=within_s)
        for periodic_task in late:
            periodic_task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
