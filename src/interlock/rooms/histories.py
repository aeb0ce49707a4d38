"""The histories of all topics that keep one: loaded when the hub starts, written once a second and when it stops.

Rule: a topic that was closed, or keeps no history any more, leaves no envelope in the store.
"""

from __future__ import annotations

import asyncio
import logging

from interlock.config.settings import RoomSettings, TopicSettings
from interlock.hub.app import HubApp
from interlock.hub.room_documents import HISTORY_HEADS
from interlock.rooms.history import TopicHistory, delete_history
from interlock.store import StoreDamaged, StoreError

_log = logging.getLogger(__name__)


class Histories:
    """One history for each topic, by name."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._by_topic: dict[str, TopicHistory] = {}
        self._ended: set[str] = set()
        """Topics whose stored envelopes are to be deleted. A new history of such a topic is written after that."""
        self._writing: asyncio.Task[None] | None = None

    async def load(self, rooms: RoomSettings) -> None:
        """Load the stored histories, and delete those of topics that no longer keep one."""
        for name, settings in rooms.topics.items():
            history = self.of(name, settings)
            if history is not None:
                try:
                    await history.load(self._hub_app.store)
                except StoreDamaged as cause:
                    _log.warning("the history of a room begins anew: %s", cause.for_operators)
        heads, _ = await self._hub_app.store.find_readable(HISTORY_HEADS)
        places = (head.key for head in heads)
        own = self._place("")
        self._ended.update(place.removeprefix(own) for place in places if place.startswith(own))
        self._ended -= self._by_topic.keys()

    def of(self, topic: str, settings: TopicSettings) -> TopicHistory | None:
        """The history of a topic; None if it keeps none. A history that a reload switches on begins empty."""
        if not settings.history:
            return None
        history = self._by_topic.get(topic)
        if history is None:
            key = self._hub_app.keys.derived(b"rooms")
            history = self._by_topic[topic] = TopicHistory(self._place(topic), settings.history, key)
        return history

    def apply(self, rooms: RoomSettings) -> None:
        """Delete the histories of topics that were closed, or no longer keep one."""
        for topic in list(self._by_topic):
            settings = rooms.topics.get(topic)
            if settings is None or not settings.history:
                del self._by_topic[topic]
                self._ended.add(topic)

    def tick(self) -> None:
        """Write new envelopes in the background."""
        if (self._by_topic or self._ended) and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self.write(), name="write room histories")

    async def close(self) -> None:
        """Write all envelopes, so that the next run continues from here."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self.write(closing=True)

    async def write(self, *, closing: bool = False) -> None:
        """Write new envelopes, and delete those that are no longer kept."""
        store = self._hub_app.store
        try:
            await self._delete_ended()
        except StoreError as cause:
            _log.warning("the history of a closed room could not be deleted: %s", cause.for_operators)
        for topic, history in list(self._by_topic.items()):
            if topic in self._ended:
                continue
            try:
                await (history.close(store) if closing else history.write(store))
            except StoreError as cause:
                _log.warning("the history of a room could not be stored: %s", cause.for_operators)

    async def _delete_ended(self) -> None:
        for topic in list(self._ended):
            await delete_history(self._hub_app.store, self._place(topic))
            self._ended.discard(topic)

    def _place(self, topic: str) -> str:
        return f"{self._hub_app.node}/{topic}"
