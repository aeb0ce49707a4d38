"""The histories of all topics that keep one: loaded when the hub starts, written once a second and when it stops."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interlock.config.settings import Rooms as RoomSettings
from interlock.config.settings import Topic as TopicSettings
from interlock.hub.app import HubApp
from interlock.store import StoreError

if TYPE_CHECKING:
    from interlock.rooms.history import History

_log = logging.getLogger(__name__)


class Histories:
    """One history for each topic, by name."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._kept: dict[str, History] = {}
        self._writing: asyncio.Task[None] | None = None

    async def load(self, rooms: RoomSettings) -> None:
        """Go on with the histories of the last run."""
        for name, settings in rooms.topics.items():
            history = self.of(name, settings)
            if history is not None:
                await history.load(self._hub_app.store)

    def of(self, topic: str, settings: TopicSettings) -> History | None:
        """The history of a topic; None where it keeps none. One that a reload switched on begins anew."""
        if not settings.history:
            return None
        history = self._kept.get(topic)
        if history is None:
            from interlock.rooms.history import History

            place, key = f"{self._hub_app.node}/{topic}", self._hub_app.keys.derived(b"rooms")
            history = self._kept[topic] = History(place, settings.history, key)
        return history

    def forget(self, topic: str) -> None:
        """The topic was closed. Its envelopes go when its name is used again."""
        self._kept.pop(topic, None)

    def tick(self) -> None:
        """Write what is new."""
        if self._kept and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(), name="write room histories")

    async def close(self) -> None:
        """Write everything, so that the next run goes on from here."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        for history in self._kept.values():
            try:
                await history.close(self._hub_app.store)
            except StoreError as cause:
                _log.warning("the history of a room could not be stored: %s", cause)

    async def _write(self) -> None:
        for history in list(self._kept.values()):
            try:
                await history.write(self._hub_app.store)
            except StoreError as cause:
                _log.warning("the history of a room could not be stored: %s", cause)
