"""Notifies clients whose lists changed. Changes within a short time share one notification."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from interlock.events import Bus, EventFilter, SubscriberTask
from interlock.events.types import Delivery, ListChanged
from interlock.hub.composition.tool_search import ToolSearchParts
from interlock.hub.handlers.notifications import ChangeNotifier

NOTIFY_DELAY_S: Final = 0.05
"""Changes of the catalog within this time share one notification."""


class ListNotifications:
    """Follows the `ListChanged` events of one hub."""

    def __init__(self, bus: Bus, change_notifier: ChangeNotifier, tool_search: ToolSearchParts) -> None:
        self._change_notifier = change_notifier
        self._tool_search = tool_search
        self._changes = bus.subscribe(EventFilter.of(ListChanged), limit=1)
        self._notifying: SubscriberTask | None = None

    def start(self) -> None:
        self._change_notifier.start()
        self._notifying = SubscriberTask(self._changes, self._notify_soon)

    async def notify(self) -> None:
        """Notify the clients whose lists changed."""
        await self._change_notifier.catalog_changed()
        self._tool_search.recheck()

    async def close(self) -> None:
        if self._notifying is not None:
            await self._notifying.close()
        await self._change_notifier.close()

    async def _notify_soon(self, batch: Sequence[Delivery]) -> None:
        await asyncio.sleep(NOTIFY_DELAY_S)
        self._changes.take()
        await self.notify()
