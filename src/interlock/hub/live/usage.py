"""Usage: events, wakes and tokens per server, feature set and agent. Counted from the store."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from interlock.hub.live.deliveries import Deliveries
from interlock.hub.live.events import LIVE_SEEN, LIVE_WAKES, Pending, Seen, day_of, now, tokens_of
from interlock.hub.live.refusals import RecordedRefusals
from interlock.hub.live.wakes import Wakes
from interlock.store import Store


class UsageRow(msgspec.Struct):
    """Events, wakes and tokens of one feature set for one agent."""

    server: str
    feature_set: str
    agent: str
    events: int = 0
    woke: int = 0
    """Events that woke at once, or shared a wake."""
    held: int = 0
    dropped: int = 0
    wakes: int = 0
    tokens: int = 0
    """An estimate, of the events that were not dropped."""


class EventRow(msgspec.Struct):
    """One event for one agent, and what became of it."""

    server: str
    feature_set: str
    event: str
    agent: str
    at: float
    outcome: str
    cause: str
    state: str
    """`waiting`, `delivered` or `dropped`."""


class Usage:
    """Counts and lists events."""

    def __init__(
        self, store: Callable[[], Store], deliveries: Deliveries, refusals: RecordedRefusals, wakes: Wakes
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._refusals = refusals
        self._wakes = wakes

    async def rows(self, days: int) -> list[UsageRow]:
        """The usage of the last days, the present one included."""
        found: dict[tuple[str, str, str], UsageRow] = {}

        def row(server: str, feature: str, agent: str) -> UsageRow:
            return found.setdefault((server, feature, agent), UsageRow(server, feature, agent))

        today = day_of(now())
        for day in range(today - days + 1, today + 1):
            for document in await self._store().find(LIVE_SEEN, day=day):
                _count(row, document.value)
            for woken in await self._store().find(LIVE_WAKES, day=day):
                wake = woken.value
                row(wake.server, wake.feature_set, wake.agent).wakes += 1
        return [found[key] for key in sorted(found)]

    async def events(self, agent: str | None, server: str | None, most: int) -> list[EventRow]:
        """The newest events, newest first: those that wait, were delivered lately, or were dropped today."""
        rows = [_shown(event) for event in self._deliveries.all()]
        today = day_of(now())
        for day in (today - 1, today):
            for document in await self._store().find(LIVE_SEEN, day=day):
                seen = document.value
                for name, outcome in seen.outcomes.items():
                    if outcome == "dropped":
                        place = (seen.server, seen.feature_set, seen.event, name, seen.at)
                        rows.append(EventRow(*place, outcome, seen.cause, "dropped"))
        wanted = [row for row in rows if agent in (None, row.agent) and server in (None, row.server)]
        return sorted(wanted, key=lambda row: -row.at)[:most]

    def refused(self) -> dict[str, int]:
        """Refused messages by server, since the hub started."""
        return dict(self._refusals.counts)


def _count(row: Callable[[str, str, str], UsageRow], seen: Seen) -> None:
    for agent, outcome in seen.outcomes.items():
        found = row(seen.server, seen.feature_set, agent)
        found.events += 1
        if outcome == "dropped":
            found.dropped += 1
            continue
        found.tokens += tokens_of(seen.size)
        if outcome == "held":
            found.held += 1
        else:
            found.woke += 1


def _shown(event: Pending) -> EventRow:
    state = "delivered" if event.delivered else "waiting"
    place = (event.server, event.feature_set, event.event, event.agent, event.at)
    return EventRow(*place, event.outcome, event.cause, state)
