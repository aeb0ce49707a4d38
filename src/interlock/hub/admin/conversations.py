"""Operations on conversations with a model: say something, read the answer as it comes, list and show them.

The host is a layer above the hub, so these operations reach it through `ConversationHost`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Protocol

import msgspec

from interlock.hub.admin.agents import principal_of
from interlock.hub.admin.operation import Text
from interlock.hub.admin.rollback import RollbackHost, no_conversations
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault

ConversationId = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
MAX_TEXT = 256 * 1024


class SendMessage(msgspec.Struct):
    """A message to a model, in a new conversation or an earlier one."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    conversation: ConversationId | None = None
    model: Text | None = None
    """A model of the configuration; in an earlier conversation, its model from now on."""
    agent: Text | None = None
    """The agent whose rights a new conversation has; unset: the caller without a key."""


class Sent(msgspec.Struct):
    """The turn that answers a message."""

    conversation: str
    turn: int
    model: str
    agent: str


class ReadTurn(msgspec.Struct):
    """Which pieces of a turn to read."""

    conversation: ConversationId
    turn: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    after: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    """How many pieces were read already."""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=50)] = 20.0
    """How long to wait for the next one."""


class PieceRow(msgspec.Struct):
    """A piece of a turn."""

    kind: str
    """`text`, `thinking`, `tool`, `result`, `approval`, and at the end `done` or `error`."""
    text: str = ""
    name: str = ""
    failed: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    finish: str = ""


class Pieces(msgspec.Struct):
    """Pieces of a turn, in order."""

    pieces: list[PieceRow]
    ended: bool
    """Whether these are the last."""


class OfConversation(msgspec.Struct):
    """A conversation."""

    id: ConversationId


class Stopped(msgspec.Struct):
    """Whether a turn was under way."""

    stopped: bool


class Deleted(msgspec.Struct):
    """Whether there was such a conversation."""

    deleted: bool


class ListConversations(msgspec.Struct):
    """Which conversations to list, newest first."""

    agent: Text | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class ConversationRow(msgspec.Struct):
    """One conversation, without its text."""

    id: str
    agent: str
    model: str
    turns: int
    created: datetime
    updated: datetime


class ConversationRows(msgspec.Struct):
    """Conversations, newest first."""

    conversations: list[ConversationRow]


class MessageRow(msgspec.Struct):
    """One message of a turn."""

    role: str
    """`user`, `assistant`, `injected` by a server, `tool` for a call, `result` for its result."""
    text: str
    name: str = ""


class TurnRow(msgspec.Struct):
    """One turn."""

    index: int
    inference: str
    at: datetime
    model: str
    finish: str
    error: str
    input_tokens: int
    output_tokens: int
    messages: list[MessageRow]


class ShownConversation(msgspec.Struct):
    """A conversation and its turns, oldest first."""

    conversation: ConversationRow
    turns: list[TurnRow]


class ConversationHost(RollbackHost, Protocol):
    """The host of the hub."""

    async def say(self, principal: Principal, params: SendMessage) -> Sent:
        """Begin a turn, in a new conversation as this principal. Raises Fault."""

    async def read(self, conversation: str, turn: int, after: int, wait_s: float) -> Pieces:
        """The next pieces of a turn. Raises NOT_FOUND."""

    async def stop(self, conversation: str) -> bool:
        """Stop the turn that is under way."""

    async def rows(self, agent: str | None, most: int) -> list[ConversationRow]:
        """Conversations, newest first."""

    async def show(self, conversation: str) -> ShownConversation:
        """A whole conversation. Raises NOT_FOUND."""

    async def delete(self, conversation: str) -> bool:
        """Delete a conversation."""


class ConversationOperations:
    """The operations on conversations of one hub."""

    def __init__(self, hub_app: HubApp, host: ConversationHost | None) -> None:
        self._hub_app = hub_app
        self._host = host

    async def send(self, by: Principal, params: SendMessage, trace: str) -> Sent:
        """Say something to a model."""
        principal = principal_of(self._hub_app, params.agent)
        if principal.decides:
            hint = "name an agent; `interlock keys create NAME` makes one"
            raise Fault(
                "ACCESS_DENIED", f"a model does not act as {principal.id}, who is a {principal.kind}", hint=hint
            )
        return await self._ready().say(principal, params)

    async def read(self, by: Principal, params: ReadTurn, trace: str) -> Pieces:
        """Read an answer as it comes."""
        return await self._ready().read(params.conversation, params.turn, params.after, params.wait_s)

    async def stop(self, by: Principal, params: OfConversation, trace: str) -> Stopped:
        """Stop the turn that is under way."""
        return Stopped(await self._ready().stop(params.id))

    async def list(self, by: Principal, params: ListConversations, trace: str) -> ConversationRows:
        """The conversations, without their text."""
        return ConversationRows(await self._ready().rows(params.agent, params.most))

    async def show(self, by: Principal, params: OfConversation, trace: str) -> ShownConversation:
        """A conversation with its turns."""
        return await self._ready().show(params.id)

    async def delete(self, by: Principal, params: OfConversation, trace: str) -> Deleted:
        """Delete a conversation and its turns."""
        return Deleted(await self._ready().delete(params.id))

    def _ready(self) -> ConversationHost:
        if self._host is None:
            raise no_conversations()
        return self._host
