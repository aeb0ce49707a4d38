"""Waiters for the commit of everything that was recorded so far."""

from __future__ import annotations

import asyncio

from interlock.store import StoreError


class FlushWaiters:
    """Waiters by the last entry that each waits for, in order."""

    def __init__(self) -> None:
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def add(self, last: int) -> asyncio.Future[None]:
        """Wait for the commit of an entry. No earlier one was waited for after a later one."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((last, waiter))
        return waiter

    def answer(self, last: int, error: StoreError | None) -> None:
        """Answer everyone who waits for an entry up to `last`."""
        while self._waiters and self._waiters[0][0] <= last:
            _, waiter = self._waiters.pop(0)
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
