"""Deliveries that wait until a change is stored. One task stores the changes, in rounds.

Changes that arrive while a round is being stored join the next one, so the changes of one node never collide. A
delivery that gives up ends no round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call

_log = logging.getLogger(__name__)


class RoundStore(Protocol):
    """Stores the changes of a round."""

    async def store_round(self) -> None:
        """Store every change that waits now."""


class DeliveryRounds:
    """The rounds of one kind of change. Used on the loop's thread."""

    def __init__(self, store: RoundStore) -> None:
        self._store = store
        self._tasks = BackgroundTasks()
        self._running = False
        self._next: asyncio.Future[None] | None = None
        """Done once the round that new changes join is stored; None while no change waits."""

    def join(self, then: Callable[[], None] | None = None, call: Call | None = None) -> None:
        """A change joins the next round; `then` follows once it is stored. `call` is answered if that fails."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if then is not None:
            self._tasks.begin(_follow(self._next, then), call)
        if not self._running:
            self._running = True
            self._tasks.begin(self._run(), None)

    async def close(self) -> None:
        """Give up the changes that are not stored yet, and the deliveries that wait for them."""
        await self._tasks.close()

    async def _run(self) -> None:
        try:
            while (stored := self._next) is not None:
                self._next = None
                try:
                    await self._store.store_round()
                    stored.set_result(None)
                except Exception:
                    _log.exception("changes could not be stored")
                    stored.cancel()
        finally:
            self._running = False


async def _follow(stored: asyncio.Future[None], then: Callable[[], None]) -> None:
    await asyncio.shield(stored)
    then()
