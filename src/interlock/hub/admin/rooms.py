"""Operations on rooms: list topics with their participants, change capabilities, watch a topic and speak there.

The gateway is a layer above the hub, so these operations reach it through `RoomGateway`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

import msgspec

from interlock.hub.approvals.decision import Answer, Decision, Where
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpx.capabilities import MAX_CAPABILITIES
from interlock.wire.errors import Fault

ParticipantId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
TopicName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Recipients = Annotated[tuple[ParticipantId, ...], msgspec.Meta(max_length=64)]
Capabilities = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=2048)], ...], msgspec.Meta(max_length=64)]
assert MAX_CAPABILITIES == 64


class ListRooms(msgspec.Struct):
    """Which topics to list."""

    topic: TopicName | None = None
    """Only this one."""


class ParticipantRow(msgspec.Struct):
    """One participant that is connected."""

    id: str
    capabilities: list[str]
    mode: str
    connected_at: datetime


class RoomRow(msgspec.Struct):
    """One topic."""

    topic: str
    visibility: str
    strict: bool
    proposals: str
    open_proposals: int
    servers: list[str]
    """Tool servers that take part. Everyone in the topic reads their results."""
    participants: list[ParticipantRow]


class RoomRows(msgspec.Struct):
    """All topics of the configuration."""

    rooms: list[RoomRow]


class ChangeCapabilities(msgspec.Struct):
    """A change of what a participant may send (MCPx, Capability Promotion API)."""

    id: ParticipantId
    topic: TopicName | None = None
    """May be left out where the participant is in one topic only."""
    add: Capabilities = ()
    remove: Capabilities = ()


class ChangeMode(msgspec.Struct):
    """Which envelopes a participant receives (MCPx, Message Routing)."""

    id: ParticipantId
    mode: Literal["all", "directed"]
    topic: TopicName | None = None
    """May be left out where the participant is in one topic only."""


class ChangedMode(msgspec.Struct):
    """The mode of the connections that a participant has now. A new connection chooses its own."""

    id: str
    topic: str
    mode: str


class ChangedCapabilities(msgspec.Struct, rename="camel"):
    """The capabilities of a participant before and after the change."""

    participant_id: str
    topic: str
    old_capabilities: list[str]
    new_capabilities: list[str]
    modified_by: str
    modified_at: datetime


class JoinRoom(msgspec.Struct):
    """The topic to join."""

    topic: TopicName
    separate: bool = False
    """Join beside other connections of the user, under an id of its own."""


class RoomTicket(msgspec.Struct):
    """Admits the hub's user to one topic, once, for a minute: the bearer token of `/ws`."""

    ticket: str
    topic: str
    url: str


class ProposalAnswer(msgspec.Struct, frozen=True):
    """A person's answer to a proposal."""

    answer: Answer
    where: Where
    view: str = ""
    reason: str = ""
    to: tuple[str, ...] = ()
    """The receiver of the request, where the proposal names nobody."""


class NamedRoom(msgspec.Struct):
    """One topic."""

    topic: TopicName


class SayInRoom(NamedRoom):
    """Words for a topic."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)]
    to: Recipients = ()
    """Empty: everyone."""


class ProposeInRoom(NamedRoom):
    """A request that another participant may make, or a person approve."""

    method: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    params: dict[str, Any] = {}
    to: Recipients = ()
    """The participant that the request is meant for, such as `server:NAME`."""


class SentEnvelope(msgspec.Struct):
    """The id of the envelope that was sent."""

    id: str


class LeftRoom(msgspec.Struct):
    """Whether the principal was there."""

    left: bool


class RoomMessage(msgspec.Struct):
    """One envelope, as a person reads it."""

    id: str
    sender: str
    kind: str
    to: list[str]
    about: str
    """The envelope that it is about."""
    text: str
    """The words of a chat, otherwise the payload."""
    is_cut: bool
    at: datetime
    """When it arrived."""


class RoomView(msgspec.Struct):
    """A topic as one of its participants sees it."""

    room: RoomRow
    you: str
    your_capabilities: list[str]
    messages: list[RoomMessage]
    """The last ones since the principal joined, the oldest first."""
    lost: int
    """Messages that could not be shown."""


class RoomVisitors(Protocol):
    """Principals that watch topics and speak there through operations."""

    def watch(self, by: Principal, topic: str) -> RoomView:
        """The topic with its last messages."""

    def say(self, by: Principal, topic: str, text: str, to: tuple[str, ...]) -> SentEnvelope:
        """Say something."""

    def propose(
        self, by: Principal, topic: str, method: str, params: dict[str, Any], to: tuple[str, ...]
    ) -> SentEnvelope:
        """Propose a request."""

    def leave(self, by: Principal, topic: str) -> LeftRoom:
        """Leave a topic."""


class RoomGateway(Protocol):
    """The rooms of a running hub."""

    def rows(self, topic: str | None) -> list[RoomRow]:
        """The topics with their participants."""

    async def change_capabilities(self, by: Principal, params: ChangeCapabilities, trace: str) -> ChangedCapabilities:
        """Change what a participant may send."""

    async def answer_proposal(self, by: Principal, decision: Decision, answer: ProposalAnswer) -> msgspec.Raw | None:
        """Fulfil or reject a proposal in a person's name. Returns the response to the request, if one came."""

    async def proposals_stored(self) -> None:
        """Wait, at most a second, until every proposal so far has its approval request."""

    def change_mode(self, params: ChangeMode) -> ChangedMode:
        """Choose which envelopes a connected participant receives."""

    def ticket(self, by: Principal, topic: str, separate: bool) -> RoomTicket:
        """Admit the hub's user to a topic."""

    def visitors(self) -> RoomVisitors:
        """Principals that watch topics and speak there through operations."""


class RoomOperations:
    """The operations on the rooms of one hub."""

    def __init__(self, gateway: RoomGateway | None) -> None:
        self._gateway = gateway

    async def list(self, by: Principal, params: ListRooms, trace: str) -> RoomRows:
        """Every topic, with its participants."""
        return RoomRows([] if self._gateway is None else self._gateway.rows(params.topic))

    async def change(self, by: Principal, params: ChangeCapabilities, trace: str) -> ChangedCapabilities:
        """Change what a participant may send. It holds from its next envelope on, and all participants learn of it."""
        return await self._known().change_capabilities(by, params, trace)

    async def mode(self, by: Principal, params: ChangeMode, trace: str) -> ChangedMode:
        """Choose which envelopes a connected participant receives."""
        return self._known().change_mode(params)

    async def join(self, by: Principal, params: JoinRoom, trace: str) -> RoomTicket:
        """A ticket for the hub's own user."""
        return self._known().ticket(by, params.topic, params.separate)

    async def watch(self, by: Principal, params: NamedRoom, trace: str) -> RoomView:
        """A topic with its last messages. The principal is in it until a minute after its last look."""
        return self._known().visitors().watch(by, params.topic)

    async def say(self, by: Principal, params: SayInRoom, trace: str) -> SentEnvelope:
        """Say something as the principal itself."""
        return self._known().visitors().say(by, params.topic, params.text, params.to)

    async def propose(self, by: Principal, params: ProposeInRoom, trace: str) -> SentEnvelope:
        """Propose a request as the principal itself."""
        return self._known().visitors().propose(by, params.topic, params.method, params.params, params.to)

    async def leave(self, by: Principal, params: NamedRoom, trace: str) -> LeftRoom:
        """Leave a topic that the principal watched."""
        return self._known().visitors().leave(by, params.topic)

    def _known(self) -> RoomGateway:
        if self._gateway is None:
            raise Fault("NOT_FOUND", "this hub has no rooms", hint="add [rooms.topics.NAME] to interlock.toml")
        return self._gateway
