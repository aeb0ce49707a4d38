"""Wakes the tasks that wait for something, as `asyncio.Event` does.

The rule: a signal without waiters holds no container. `asyncio.Event` makes a queue of 760 bytes at once, and a hub
has six of them for each server.
"""

from __future__ import annotations

import asyncio


class WakeSignal:
    """Set or not set. Waiting tasks go on when it is set."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Wake all tasks that wait."""
        self._is_set = True
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """From now on tasks wait again."""
        self._is_set = False

    async def wait(self) -> None:
        """Return at once if it is set, otherwise when it is set next."""
        if self._is_set:
            return
        if self._waiters is None:
            self._waiters = []
        waiters = self._waiters
        waiter = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        finally:
            waiters.remove(waiter)
