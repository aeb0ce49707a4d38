"""The events of a group that share one wake, and those that do not fit into it."""

from __future__ import annotations

import msgspec

from interlock.hub.live.events.documents import PendingEvent
from interlock.protocols.mcpl.wake import WakeDecision, WakeVerdict


class ChosenEvents(msgspec.Struct):
    """The events of a group for which its agent is woken now, and the rest."""

    events: list[PendingEvent] = []
    rule: int | None = None
    tokens: int = 0
    held: list[tuple[PendingEvent, WakeDecision]] = []

    def takes(self, decision: WakeDecision) -> bool:
        """Whether an event with this decision belongs to the wake."""
        return decision.verdict is WakeVerdict.WAKE and (not self.events or decision.rule == self.rule)

    def hold(self, decision: WakeDecision, events: list[PendingEvent]) -> None:
        """Leave events for a later wake."""
        self.held += ((event, decision) for event in events)

    def add(self, decision: WakeDecision, events: list[PendingEvent]) -> None:
        """Add events to the wake."""
        self.events += events
        self.rule, self.tokens = decision.rule, self.tokens + sum(event.tokens for event in events)
