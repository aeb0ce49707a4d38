"""Background tasks that requests begin. The hub keeps them until they are done, and cancels them when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from interlock.hub.calls.call import Caller
from interlock.hub.sessions.session import Exchange

Serve = Callable[[Exchange, Caller], None]
"""Answers a request, now or later. A `Fault` that it raises is the answer."""


class BackgroundTasks:
    """The tasks that are running."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine in the background."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the running tasks, and wait until they are done."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
