"""Deliveries that wait until a change is stored. One task stores the changes, in rounds.

Changes that arrive while a round is being stored join the next one, so the changes of one node never conflict. A
cancelled delivery does not end its round. A round that fails delivers nothing, and answers everyone who waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call
from interlock.hub.sessions.session import Exchange
from interlock.hub.store_faults import fault_of
from interlock.store import StoreError
from interlock.wire.errors import Fault, internal_error

_log = logging.getLogger(__name__)


class RoundStore(Protocol):
    """Stores the changes of a round."""

    async def store_round(self) -> None:
        """Store every change that waits now. Raises where one of them could not be stored."""


class DeliveryRounds:
    """The rounds of one kind of change. Used on the loop's thread."""

    def __init__(self, store: RoundStore) -> None:
        self._store = store
        self._tasks = BackgroundTasks()
        self._running = False
        self._next: asyncio.Future[None] | None = None
        """Done once the round that new changes join is stored; None while no change waits."""

    @property
    def is_running(self) -> bool:
        """Whether the changes that wait now are about to be stored."""
        return self._running

    def join(
        self,
        then: Callable[[], None] | None = None,
        failed: Callable[[Fault], None] | None = None,
        request: Exchange | Call | None = None,
    ) -> None:
        """Store a change with the next round, then call `then`. If that fails, `failed` gets the error, or without it
        `request` is answered with the error."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if then is not None:
            self._tasks.begin(_follow(self._next, then, failed), request)
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
                except Exception as cause:
                    stored.set_exception(_fault(cause))
                    stored.exception()  # retrieved, in case nobody waits
        finally:
            self._running = False


def settle(stored: asyncio.Future[None], fault: Fault | None = None) -> None:
    """Resolve the future of a change: it is stored, or it failed with this fault."""
    if stored.done():
        return
    if fault is None:
        stored.set_result(None)
    else:
        stored.set_exception(fault)


async def _follow(
    stored: asyncio.Future[None], then: Callable[[], None], failed: Callable[[Fault], None] | None
) -> None:
    try:
        await asyncio.shield(stored)
    except Fault as fault:
        if failed is None:
            raise
        failed(fault)
        return
    except asyncio.CancelledError:
        if failed is not None:
            failed(Fault("SERVER_DRAINING", "the hub is closing", retry_after_ms=2000))
        raise
    then()


def _fault(cause: Exception) -> Fault:
    """The answer for those whose change could not be stored."""
    if isinstance(cause, StoreError):
        return fault_of(cause)
    _log.error("changes could not be stored", exc_info=cause)
    return internal_error()
