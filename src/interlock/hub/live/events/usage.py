"""Usage of events and inferences: counts, tokens and cost per server, feature set, agent and conversation.

The store is counted. The tokens of events are estimates. Those of inferences come from the endpoint, or are a client's
claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from interlock.hub.conversation_documents import INFERENCES, TURN_LEASES
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.documents import LIVE_SEEN, LIVE_WAKES, PendingEvent, SeenEvent, day_of, now, tokens_of
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.store import Store


class UsageRow(msgspec.Struct):
    """The use of one server's feature set by one agent, or by a conversation of it."""

    server: str
    """Empty for turns of conversations."""
    feature_set: str
    agent: str
    conversation: str = ""
    events: int = 0
    woke: int = 0
    """Events that woke at once, or shared a wake."""
    held: int = 0
    dropped: int = 0
    wakes: int = 0
    tokens: int = 0
    """Estimated tokens of the events that were not dropped."""
    inferences: int = 0
    """Inferences that the server asked for, or turns of the conversation."""
    failed: int = 0
    """Inferences among them that failed, without turns that are under way."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """The cost of the inferences, by the prices of the models at that time."""
    claimed: int = 0
    """Inferences among them whose tokens a client claimed, within bounds."""


By = Literal["server", "feature_set", "agent", "conversation"]


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


class EventUsage:
    """Counts and lists events."""

    def __init__(self, store: Callable[[], Store], deliveries: EventDeliveries, refusals: RecordedRefusals) -> None:
        self._store = store
        self._deliveries = deliveries
        self._refusals = refusals

    async def rows(self, days: int, by: By | None = None) -> list[UsageRow]:
        """The usage of the last days, the present one included; with `by`, one row for each server and so on."""
        found: dict[tuple[str, str, str, str], UsageRow] = {}

        def row(server: str, feature: str, agent: str, conversation: str = "") -> UsageRow:
            server, feature = server if by in (None, "server") else "", feature if by in (None, "feature_set") else ""
            agent = agent if by in (None, "agent") else ""
            conversation = conversation if by in (None, "conversation") else ""
            key = (server, feature, agent, conversation)
            return found.setdefault(key, UsageRow(*key))

        leases = [lease.value for lease in await self._store().find(TURN_LEASES)]
        running = {lease.inference for lease in leases if lease.until > time.time()}
        today = day_of(now())
        for day in range(today - days + 1, today + 1):
            for document in await self._store().find(LIVE_SEEN, day=day):
                _count(row, document.value)
            for woken in await self._store().find(LIVE_WAKES, day=day):
                wake = woken.value
                row(wake.server, wake.feature_set, wake.agent).wakes += 1
            for inferred in await self._store().find(INFERENCES, day=day):
                made = inferred.value
                each = row(made.server, made.feature_set, made.agent, made.conversation)
                each.inferences += 1
                each.failed += bool(made.error) and made.id not in running
                each.claimed += made.claimed
                each.input_tokens += made.input_tokens_count
                each.output_tokens += made.output_tokens_count
                each.cost += made.cost
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


def _count(row: Callable[[str, str, str], UsageRow], seen: SeenEvent) -> None:
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


def _shown(event: PendingEvent) -> EventRow:
    state = "delivered" if event.delivered and not event.on_way else "waiting"
    place = (event.server, event.feature_set, event.event, event.agent, event.at)
    return EventRow(*place, event.outcome, event.cause, state)
