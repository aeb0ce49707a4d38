"""Tasks that run on their own. The event loop holds weak references alone, so a task set keeps them alive."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TaskSet:
    """Keeps tasks until they are done."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in a task of its own."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work that continues if its caller is cancelled. Its error is dropped then."""
        task = self.begin(work)
        task.add_done_callback(_take_error)
        return await asyncio.shield(task)

    def cancel(self) -> None:
        """Cancel the running tasks."""
        for task in list(self._tasks):
            task.cancel()

    async def settled(self) -> None:
        """Wait until the tasks that run now are done, however they end."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Cancel the running tasks, and wait until they are done."""
        self.cancel()
        await self.settled()


def _take_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
