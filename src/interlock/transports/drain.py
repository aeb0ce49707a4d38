"""Lets senders wait for a peer that does not read. One future serves everyone who waits at the moment."""

from __future__ import annotations

import asyncio


class Drain:
    """The senders that wait for one peer."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        """A future that completes when the peer reads again, or has gone."""
        waiting = self._waiting
        if waiting is None or waiting.done():
            waiting = self._waiting = asyncio.get_running_loop().create_future()
        return waiting

    def release(self) -> None:
        """The peer reads again, or has gone."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
