"""Sends events to one control connection, as fast as its reader takes them.

A reader that is too slow loses the oldest events and gets a line that says so. The hub keeps nothing more for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.events import Gap
from interlock.events.types import Delivery
from interlock.hub.admin.operations import Following
from interlock.wire.messages import encode_notification

GAP: Final = "hub/gap"


class FollowingTask:
    """Reads for a connection until it ends. The connection reports when its buffer is full."""

    def __init__(self, following: Following, write: Callable[[bytes], None]) -> None:
        self.subscription = following.subscription
        self._notification = following.notification
        self._write = write
        self._writable = asyncio.Event()
        self._writable.set()
        self._task = asyncio.ensure_future(self._run())

    def pause(self) -> None:
        """The connection's buffer is full."""
        self._writable.clear()

    def resume(self) -> None:
        """The connection's buffer has space again."""
        self._writable.set()

    def close(self) -> None:
        self.subscription.close()
        self._task.cancel()

    async def _run(self) -> None:
        async for event in self.subscription:
            await self._writable.wait()
            line = self._line(event)
            if line is not None:
                self._write(line)

    def _line(self, event: Delivery) -> bytes | None:
        if isinstance(event, Gap):
            lost = {"event": event.type.__name__, "source": event.source, "first": event.first, "last": event.last}
            return encode_notification(GAP, msgspec.json.encode(lost))
        notification = self._notification(event)
        return (
            None if notification is None else encode_notification(notification[0], msgspec.json.encode(notification[1]))
        )
