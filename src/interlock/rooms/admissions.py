"""Admission to a topic: its limit of participants, and the rates of joining and sending.

A place is reserved while a connection is upgraded. A guest gets a new id each time, so all guests together share one
rate for joining.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final, NamedTuple

from interlock.config.settings import TopicSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.rate_meter import Meter
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.routing import TopicParticipant
from interlock.rooms.member import MemberRoom, RoomMember, rate_limited
from interlock.rooms.policy import GUEST

MAX_METERS: Final = 20_000


class Reservation(NamedTuple):
    """The reserved place of a member that is admitted, but not yet connected."""

    participant: TopicParticipant
    since: str | None
    """The cursor from an earlier connection; None for a new participant."""


class Admissions:
    """The places and rates of one topic."""

    def __init__(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._reserved: dict[RoomMember, Reservation] = {}
        self._meters: dict[str, Meter] = {}

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use these places and rates from now on. Members that are in stay."""
        self._settings = settings
        for meter in self._meters.values():
            meter.limit(settings.rate)

    def reserve(
        self, room: MemberRoom, principal: Principal | None, place: Reservation, connected: Collection[str], now: float
    ) -> RoomMember:
        """Reserve a place for a connection that is being upgraded. Raises EnvelopeRefused."""
        id_ = place.participant.id
        joins = self._meter(GUEST if principal is None else id_)
        if joins.wait_s(now) > 0:
            raise rate_limited(joins, now)
        joins.take(now)
        present = len(connected) + sum(one.id not in connected for one in self._reserved)
        if id_ not in connected and present >= self._settings.participants:
            message = f"The topic has {present} participants."
            raise EnvelopeRefused(
                RefusalReason.TOPIC_FULL, message, "Wait until one leaves, or ask the operator for a larger topic."
            )
        member = RoomMember(room, id_, principal, self._meter(id_), datetime.now(UTC))
        self._reserved[member] = place
        return member

    def take(self, member: RoomMember) -> Reservation:
        """Take the reserved place of a member that has connected."""
        return self._reserved.pop(member)

    def give_up(self, member: RoomMember) -> bool:
        """Free the place of a member that never connected. False if it had connected."""
        return self._reserved.pop(member, None) is not None

    def forget_guest(self, member: RoomMember) -> None:
        """Forget the rate of a guest that left, because its id is never used again."""
        if member.principal is None:
            self._meters.pop(member.id, None)

    def forget_idle(self, connected: Collection[str], now: float) -> None:
        """Forget rates that nobody uses."""
        for id_ in [one for one, meter in self._meters.items() if one not in connected and meter.is_idle(now)]:
            del self._meters[id_]

    def _meter(self, id: str) -> Meter:
        meter = self._meters.get(id)
        if meter is None:
            if len(self._meters) >= MAX_METERS:
                raise EnvelopeRefused(
                    RefusalReason.RATE_LIMITED, "Too many participants came lately.", "Come back in a minute."
                )
            meter = self._meters[id] = Meter("participant", self._settings.rate)
        return meter
