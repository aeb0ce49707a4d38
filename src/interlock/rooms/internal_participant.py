"""An internal participant: one of the hub's own, in the hub's process and without a credential.

Its id is reserved (`server:` or `system:`), so that no credential can be mapped to it. Only the operator's
configuration puts it into a topic.
"""

from __future__ import annotations

from typing import Protocol

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.proposals import Proposal
from interlock.rooms.member import Member


class InternalParticipant(Protocol):
    """One participant of the hub's own."""

    @property
    def id(self) -> str:
        """Its reserved id."""

    @property
    def capabilities(self) -> CapabilitySet:
        """Its capabilities."""

    def wants(self, envelope: Envelope) -> bool:
        """Whether it reads this envelope."""

    def receive(self, sender: Member, envelope: Envelope, proposal: Proposal | None) -> None:
        """An envelope that was passed on, with the proposal that it opened or ended. Called after the delivery."""

    def on_expired(self, proposal: Proposal) -> None:
        """The time of a proposal has passed."""

    def leave(self) -> None:
        """It leaves the topic: give up all open work."""
