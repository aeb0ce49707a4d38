"""Runs work in the background, one piece after the other, in the order in which it was added."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from interlock.store import StoreError
from interlock.wire.errors import Fault

MAX_WAITING: Final = 2_048
_log = logging.getLogger(__name__)


class OrderedWork:
    """A bounded queue of work. A piece that fails is logged, and the next one begins."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: asyncio.Queue[Coroutine[None, None, None]] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    def add(self, work: Coroutine[None, None, None]) -> None:
        """Add work to the queue. Beyond the bound it is dropped and logged."""
        try:
            self._queue.put_nowait(work)
        except asyncio.QueueFull:
            work.close()
            _log.warning("%s is behind", self._name)
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=self._name)

    @property
    def running(self) -> asyncio.Task[None] | None:
        """The task that does the work; None while there is none."""
        return None if self._task is None or self._task.done() else self._task

    async def close(self) -> None:
        """Cancel the remaining work."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        while not self._queue.empty():
            self._queue.get_nowait().close()

    async def _run(self) -> None:
        while not self._queue.empty():
            try:
                await self._queue.get_nowait()
            except (Fault, StoreError) as cause:
                _log.warning("%s could not be written: %s", self._name, cause.for_operators)
