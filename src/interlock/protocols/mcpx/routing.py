"""The receivers of an envelope (MCPx, Message Routing): a pure function of the participants and the sender's `to`.

In mode *All*, a participant receives every envelope. In mode *Directed*, it receives broadcasts and envelopes that name
it. Nobody receives its own envelope. An envelope that the gateway addresses to somebody reaches nobody else.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

import msgspec

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.system import GATEWAY, ParticipantInfo


class ReceiveMode(enum.Enum):
    """The envelopes that a participant wants."""

    ALL = "all"
    DIRECTED = "directed"


class TopicParticipant(msgspec.Struct, frozen=True):
    """A participant of a topic. The gateway derives all members from the credential, never from an envelope."""

    id: str
    principal_id: str
    """The id of its principal. Participants of one principal cannot fulfil each other's proposals."""
    capabilities: CapabilitySet
    mode: ReceiveMode = ReceiveMode.ALL

    @property
    def info(self) -> ParticipantInfo:
        """The participant as others see it."""
        return ParticipantInfo(self.id, self.capabilities.texts)


def recipients(
    participants: Iterable[TopicParticipant], sender: str, to: Collection[str], proposer: str | None = None
) -> tuple[str, ...]:
    """The ids of the participants that receive an envelope, in their order.

    `proposer` belongs to the proposal whose fulfilment this envelope answers. It also receives the answer.
    """
    if sender == GATEWAY and to:
        return tuple(one.id for one in participants if one.id in to)
    return tuple(
        one.id
        for one in participants
        if one.id != sender and (not to or one.mode is ReceiveMode.ALL or one.id in to or one.id == proposer)
    )
