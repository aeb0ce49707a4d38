"""Runs one refresh at a time. Callers that arrive during a run share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRuns(Generic[T]):
    """Runs one coroutine function, once at a time. However many callers wait, there is one further run for them."""

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self._run = run
        self._current: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def result(self) -> T:
        """The result of a run that begins from now on. It goes on where a caller is cancelled."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._current))
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._current, self._next = self._next, None
        return await self._run()
