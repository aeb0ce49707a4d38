"""The audit records that were committed since a moment, read from the bus as any subscriber would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import overload

import msgspec

from interlock.events import Bus, EventFilter
from interlock.events.bus import MAX_LIMIT
from interlock.events.types import AuditAppended
from interlock.hub.audit.record import Record


class CommittedRecords:
    """A list that grows with every commit."""

    def __init__(self, bus: Bus) -> None:
        self._subscription = bus.subscribe(EventFilter.of(AuditAppended), MAX_LIMIT)
        self._records: list[Record] = []

    def all(self) -> list[Record]:
        """Every record until now."""
        while batch := self._subscription.take():
            for event in batch:
                assert isinstance(event, AuditAppended), "nothing is lost within the limit"
                self._records.append(msgspec.json.decode(event.entry, type=Record))
        return self._records

    def clear(self) -> None:
        self.all().clear()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self.all())

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> list[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | list[Record]:
        return self.all()[at]
