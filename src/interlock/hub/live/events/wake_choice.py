"""Chooses the events of a due group that share one wake. Each event is judged by itself, so none is held for another.

For rules, events of one kind differ only in their size, so a group of 256 events takes few decisions.
"""

from __future__ import annotations

import msgspec

from interlock.hub.live.events.documents import PendingEvent
from interlock.hub.live.events.wake_decisions import WakeDecisions
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


def choose(decisions: WakeDecisions, agent: str, events: list[PendingEvent]) -> ChosenEvents:
    """Judge the events. Those of one rule that fit into the budgets share a wake."""
    kinds: dict[tuple[object, ...], list[PendingEvent]] = {}
    for event in events:
        kind = (event.server, event.feature_set, event.channel, event.tags)
        kinds.setdefault(kind, []).append(event)
    chosen = ChosenEvents()
    for alike in kinds.values():
        smallest = decisions.decide(min(alike, key=lambda event: event.tokens), agent, chosen.tokens)
        if not chosen.takes(smallest):
            chosen.hold(smallest, alike)
            continue
        total = sum(event.tokens for event in alike)
        whole = decisions.decide(alike[0], agent, chosen.tokens + total - alike[0].tokens)
        if chosen.takes(whole):
            chosen.add(whole, alike)
        else:
            _choose_some(chosen, decisions, agent, alike)
    return chosen


def _choose_some(chosen: ChosenEvents, decisions: WakeDecisions, agent: str, alike: list[PendingEvent]) -> None:
    """Choose events of one kind, oldest first, within the budgets."""
    full: WakeDecision | None = None
    for event in alike:
        decision = full or decisions.decide(event, agent, chosen.tokens)
        if chosen.takes(decision):
            chosen.add(decision, [event])
        else:
            chosen.hold(decision, [event])
            full = decision if chosen.events else None
