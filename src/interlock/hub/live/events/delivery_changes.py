"""Changes of stored events, each inside a transaction that also records it: arrived, waiting again, withdrawn.

An event that was withdrawn meanwhile stays deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from interlock.hub.journal import Journal
from interlock.hub.live.events.documents import LIVE_PENDING, PendingEvent
from interlock.store import Transaction


class DeliveryChanges:
    """Writes changes of events into transactions. A repeated transaction calls these again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def arrive(self, transaction: Transaction, agent: str, events: Iterable[PendingEvent]) -> None:
        """Store that an agent has events that were on their way."""
        arrived: list[tuple[str, str]] = []
        for event in events:
            document = await transaction.get(LIVE_PENDING, event.id)
            if document is not None and document.value.on_way:
                transaction.put(LIVE_PENDING, msgspec.structs.replace(document.value, on_way=False, node=""))
                arrived.append((event.server, event.event))
        if arrived:
            transaction.record(self._journal.live_delivered(agent, arrived))

    async def put_back(self, transaction: Transaction, ids: Iterable[str]) -> list[str]:
        """Store that delivered events wait again. Returns their ids."""
        again: list[str] = []
        for id_ in ids:
            document = await transaction.get(LIVE_PENDING, id_)
            if document is not None and document.value.delivered:
                transaction.put(LIVE_PENDING, waiting_again(document.value))
                again.append(id_)
        return again

    async def discard(self, transaction: Transaction, events: Iterable[PendingEvent]) -> None:
        """Delete events that were on their way, and record that nobody got them."""
        documents = [await transaction.get(LIVE_PENDING, event.id) for event in events]
        found = [document.value for document in documents if document is not None]
        self.withdraw(transaction, [waiting_again(event) for event in found if event.on_way])

    def withdraw(self, transaction: Transaction, gone: Iterable[PendingEvent]) -> None:
        """Delete events, and record those that nobody got."""
        unread: dict[tuple[str, str], list[str]] = {}
        for event in gone:
            transaction.delete(LIVE_PENDING, event.id)
            if not event.delivered:
                unread.setdefault((event.server, event.agent), []).append(event.event)
        for (server, agent), events in sorted(unread.items()):
            transaction.record(self._journal.live_withdrawn(server, agent, events))


def waiting_again(event: PendingEvent) -> PendingEvent:
    """The event as it waits again."""
    return msgspec.structs.replace(event, delivered=0.0, on_way=False, node="")
