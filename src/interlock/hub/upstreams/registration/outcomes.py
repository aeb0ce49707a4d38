"""The outcomes of registrations: denials that are still shown, and the event for each answer of a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from interlock.events import Bus
from interlock.events.types import RegistrationDecided, now_us
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.states import DecisionState

SHOWN_DENIALS: Final = 1000
"""Denied registrations that are shown; the newest of each server and creator."""


class RegistrationOutcomes:
    """Follows the decisions on registrations. Reading costs nothing for other decisions."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._denied: dict[tuple[str, str, str], Decision] = {}
        """By the server and its creator, the oldest first."""

    def start(self, decisions: Iterable[Decision]) -> None:
        """Take the decisions that the inbox has kept, the oldest first."""
        for decision in decisions:
            if decision.request.kind == "registration":
                self.follow(decision)

    def follow(self, decision: Decision) -> None:
        """Take a decision on a registration that has changed."""
        request = decision.request
        if decision.state is DecisionState.DENIED:
            key = (request.server, request.asker, request.asker_kind)
            self._denied.pop(key, None)
            self._denied[key] = decision
            if len(self._denied) > SHOWN_DENIALS:
                del self._denied[next(iter(self._denied))]

    def denied(self, registered: Iterable[str]) -> list[Decision]:
        """The denials of servers that were not registered since, the oldest first."""
        known = set(registered)
        return [decision for decision in self._denied.values() if decision.request.server not in known]

    def publish(self, decision: Decision) -> None:
        """Tell of the answer of a person, if it is one."""
        status = {DecisionState.APPROVED: "approved", DecisionState.DENIED: "denied"}.get(decision.state)
        if status is None or not self._bus.wants(RegistrationDecided):
            return
        request, answered = decision.request, (decision.answered_by, decision.reason)
        about = (
            request.server,
            request.registers or request.server,
            status,
            request.asker,
            request.asker_kind,
            *answered,
        )
        self._bus.publish(RegistrationDecided("registrations", self._bus.next(), now_us(), *about))
