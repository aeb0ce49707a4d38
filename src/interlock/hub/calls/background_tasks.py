"""Work that a request began and that outlasts the moment: held on to until it is done, and ended with the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from interlock.hub.calls.call import Caller
from interlock.hub.sessions.session import Exchange

Later = Callable[[Coroutine[None, None, None]], None]
Serve = Callable[[Exchange, Caller], None]
"""Answers a request, or sees to it that it will be answered. Raises a `Fault` that is the answer."""


class BackgroundTasks:
    """Everything that is under way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Do it beside everything else."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End what is not done."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
