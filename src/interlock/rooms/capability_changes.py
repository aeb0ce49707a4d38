"""Stored changes of participants' capabilities in topics, so that a removed capability stays removed after a restart.

The additions and removals of a change apply to the participant's current profile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from interlock.hub.repeated_commits import commit
from interlock.hub.room_documents import ROOM_CAPABILITIES, CapabilityChange, change_id
from interlock.hub.store_faults import whole
from interlock.store import Mirror, Store, Transaction
from interlock.wire.errors import Fault

MAX_CHANGES: Final = 100_000


class RoomCapabilities:
    """All changes, following the store."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._mirror: Mirror[CapabilityChange] | None = None

    async def start(self, store: Store, on_change: Callable[[str, str], None]) -> None:
        """Load the changes; `on_change` gets the topic and participant of every further one."""
        mirror = await store.mirror(ROOM_CAPABILITIES)

        def changed(key: str, change: CapabilityChange | None) -> None:
            topic, _, participant = key.partition("/")
            on_change(topic, participant)

        mirror.on_change(changed)
        self._store, self._mirror = store, mirror

    def get(self, topic: str, participant: str) -> CapabilityChange | None:
        """The change for a participant. Raises SERVER_NOT_READY where that cannot be known."""
        return self._ready().get(change_id(topic, participant))

    async def change(
        self, topic: str, participant: str, add: Sequence[str], remove: Sequence[str], by: str, record: object
    ) -> CapabilityChange:
        """Store a change on top of earlier ones, with its audit record. It holds from the next envelope on."""
        if len(self._ready()) >= MAX_CHANGES:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_CHANGES} changes of capabilities exist")
        id_ = change_id(topic, participant)

        async def write(transaction: Transaction) -> CapabilityChange:
            found = await transaction.get(ROOM_CAPABILITIES, id_)
            added, removed = ((), ()) if found is None else (found.value.added, found.value.removed)
            change = CapabilityChange(
                id_,
                topic,
                participant,
                tuple(dict.fromkeys(text for text in (*added, *add) if text not in remove)),
                tuple(dict.fromkeys(text for text in (*removed, *remove) if text not in add)),
                by,
                datetime.now(UTC),
            )
            transaction.put(ROOM_CAPABILITIES, change)
            transaction.record(record)
            return change

        assert self._store is not None
        return await commit(self._store, write)

    def _ready(self) -> Mirror[CapabilityChange]:
        # An unreadable change may have removed capabilities.
        return whole(self._mirror, "capabilities")
