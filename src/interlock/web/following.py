"""Sends events to one control connection, as fast as its reader takes them.

A reader that is too slow loses the oldest events and gets a line that says so. The hub keeps nothing more for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.events import Gap, Subscription
from interlock.events.types import Delivery
from interlock.wire.messages import encode_notification

GAP: Final = "hub/gap"

Encode = Callable[[Delivery], bytes | None]
"""Makes the notification for an event; None for nothing."""


class Following:
    """Reads a subscription for a connection until it ends. The connection reports when its buffer is full."""

    def __init__(self, subscription: Subscription, encode: Encode, write: Callable[[bytes], None]) -> None:
        self._subscription = subscription
        self._encode = encode
        self._write = write
        self._writable = asyncio.Event()
        self._writable.set()
        self._task = asyncio.ensure_future(self._run())

    def pause(self) -> None:
        """The connection's buffer is full."""
        self._writable.clear()

    def resume(self) -> None:
        """The connection's reader took some."""
        self._writable.set()

    def close(self) -> None:
        self._subscription.close()
        self._task.cancel()

    async def _run(self) -> None:
        async for event in self._subscription:
            await self._writable.wait()
            line = gap_line(event) if isinstance(event, Gap) else self._encode(event)
            if line is not None:
                self._write(line)


def gap_line(gap: Gap) -> bytes:
    """The notification for events that the reader lost."""
    lost = {"event": gap.type.__name__, "source": gap.source, "first": gap.first, "last": gap.last}
    return encode_notification(GAP, msgspec.json.encode(lost))
