"""The hub's own participants, in its process and without a credential: tool servers, and the inbox.

Their ids are reserved (`server:` or `system:`), so that no credential can have one. Only the operator's configuration
adds them to a topic. Rule: they get every envelope that the room passed on before they left.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.proposals import Proposal
from interlock.rooms.member import RoomMember


class InternalParticipant(Protocol):
    """One of the hub's own participants."""

    @property
    def id(self) -> str:
        """Its reserved id."""

    @property
    def capabilities(self) -> CapabilitySet:
        """The capabilities that the hub gives it, as other participants see them."""

    def wants(self, envelope: Envelope) -> bool:
        """Whether the participant reads this envelope."""

    def receive(self, sender: RoomMember, envelope: Envelope, proposal: Proposal | None) -> None:
        """Handle an envelope, with the proposal that it opened or ended. Called after its delivery to the others."""

    def on_expired(self, proposal: Proposal) -> None:
        """The time of a proposal has passed."""

    def leave(self) -> None:
        """Leave the topic, and cancel all open work."""


class _Delivery(msgspec.Struct, frozen=True, eq=False):
    """An envelope on its way to one of these participants."""

    to: InternalParticipant
    sender: RoomMember
    envelope: Envelope
    proposal: Proposal | None


class InternalParticipants:
    """The hub's own participants of one topic."""

    def __init__(self) -> None:
        self._all: dict[str, InternalParticipant] = {}
        self._deliveries: dict[_Delivery, None] = {}
        """Envelopes on their way, oldest first."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._all)

    def add(self, internal: InternalParticipant) -> None:
        """Deliver envelopes to a participant from now on."""
        self._all[internal.id] = internal

    def pass_on(self, sender: RoomMember, envelope: Envelope, proposal: Proposal | None) -> None:
        """Deliver an envelope in the next turn of the loop, to the participants that want it."""
        for internal in self._all.values():
            # Not now: other members may not have the envelope yet, and an answer must come after it.
            if internal.wants(envelope):
                delivery = _Delivery(internal, sender, envelope, proposal)
                self._deliveries[delivery] = None
                asyncio.get_running_loop().call_soon(self._deliver, delivery)

    def on_expired(self, proposal: Proposal) -> None:
        """The time of a proposal has passed."""
        for internal in self._all.values():
            internal.on_expired(proposal)

    def remove(self, id: str) -> None:
        """Remove a participant. It first answers its open requests, and those on their way to it."""
        internal = self._all.pop(id)
        for delivery in [one for one in self._deliveries if one.to is internal]:
            self._deliver(delivery)
        internal.leave()

    def close(self) -> None:
        """Close all participants, because the topic has ended."""
        self._deliveries.clear()
        for internal in self._all.values():
            internal.leave()
        self._all.clear()

    def _deliver(self, delivery: _Delivery) -> None:
        if delivery in self._deliveries:
            del self._deliveries[delivery]
            delivery.to.receive(delivery.sender, delivery.envelope, delivery.proposal)
