"""The receivers of an envelope (MCPx, Message Routing): a pure function of the participants and the sender's `to`.

A participant in mode *All* receives everything, one in mode *Directed* broadcasts and what names it. Nobody receives
its own envelope. An envelope that the gateway addresses to somebody reaches nobody else.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

import msgspec

from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.system import GATEWAY, ParticipantInfo


class Mode(enum.Enum):
    """The envelopes that a participant wants."""

    ALL = "all"
    DIRECTED = "directed"


class TopicParticipant(msgspec.Struct, frozen=True):
    """Someone in a topic. The gateway sets all of it from the credential, never from an envelope."""

    id: str
    owner: str
    """Whose principal it is; participants of one owner cannot fulfil each other's proposals."""
    capabilities: CapabilitySet
    mode: Mode = Mode.ALL

    @property
    def info(self) -> ParticipantInfo:
        """As the others see it."""
        return ParticipantInfo(self.id, self.capabilities.texts)


def recipients(
    participants: Iterable[TopicParticipant], sender: str, to: Collection[str], proposer: str | None = None
) -> tuple[str, ...]:
    """The ids of those who receive the envelope, in the order given.

    `proposer` is that of the proposal whose fulfilment this envelope answers: it receives the answer though the
    sender could not name it.
    """
    if sender == GATEWAY and to:
        return tuple(one.id for one in participants if one.id in to)
    return tuple(
        one.id
        for one in participants
        if one.id != sender and (not to or one.mode is Mode.ALL or one.id in to or one.id == proposer)
    )
