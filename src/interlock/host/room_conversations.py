"""Conversations that take part in rooms: a chat message to their agent begins a turn, whose answer goes to the room.

The agent is a member like any other, with its own capabilities in the topic. Messages to everyone begin no turn, so
that agents do not answer each other for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

import msgspec

from interlock.config.channel_settings import ChannelSettings
from interlock.host.channels import ChannelConversations
from interlock.hub.admin.agents import principal_of
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.judge.text import show_hidden
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.store import StoreError
from interlock.wire.errors import Fault

PAUSE_S: Final = 5.0
"""The pause before a topic is joined again."""
AGAIN_S: Final = 1.0
"""The pause before a message tries the store again."""
MAX_CHARS: Final = 64 * 1024


class TopicMember(Protocol):
    """A member of a topic in this process."""

    ended: str

    def read(self) -> Envelope | None:
        """The next envelope; None where none waits."""

    async def wait(self) -> None:
        """Wait until an envelope can be read, or the participant is no longer in the topic."""

    def chat(self, text: str, to: tuple[str, ...] = (), reply_to: str | None = None) -> str:
        """Say something. Raises EnvelopeRefused."""

    def leave(self) -> None:
        """Leave the topic."""


class Rooms(Protocol):
    """The topics of the hub."""

    def join_locally(self, topic: str, by: Principal, *, separate: bool = True) -> TopicMember:
        """Join a topic in this process. Raises Fault."""


class RoomConversations:
    """The tables of `[channels]` that name a room."""

    def __init__(self, hub_app: HubApp, conversations: ChannelConversations, rooms: Rooms | None) -> None:
        self._hub_app = hub_app
        self._conversations = conversations
        self._rooms = rooms
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Join the topics."""
        if self._rooms is None:
            return
        for name, table in self._hub_app.config.channels.items():
            if table.room is not None:
                self._tasks.append(asyncio.ensure_future(self._take_part(self._rooms, name, table, table.room)))

    async def close(self) -> None:
        """Leave the topics."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take_part(self, rooms: Rooms, name: str, table: ChannelSettings, topic: str) -> None:
        last_problem = ""
        while True:
            try:
                member = rooms.join_locally(topic, principal_of(self._hub_app, table.agent), separate=False)
                try:
                    await self._listen(member, name, table, topic)
                finally:
                    member.leave()
            except (Fault, StoreError) as cause:  # A key that cannot be read may be the agent's.
                if cause.for_operators != last_problem:
                    last_problem = cause.for_operators
                    self._hub_app.logs.add("hub", "hub", f"[channels.{name}] is not in {topic}: {last_problem}"[:500])
            await asyncio.sleep(PAUSE_S)

    async def _listen(self, member: TopicMember, name: str, table: ChannelSettings, topic: str) -> None:
        while not member.ended:
            await member.wait()
            while (envelope := member.read()) is not None:
                text = _chat_text(envelope)
                if text is not None:
                    await self._answer(member, name, table, topic, envelope, text)

    async def _answer(
        self, member: TopicMember, name: str, table: ChannelSettings, topic: str, envelope: Envelope, text: str
    ) -> None:
        await self._note_text(table.agent)
        conversation, outcome, reason = "", "delivered", ""
        try:
            shown = await asyncio.to_thread(show_hidden, text)
            turn = await self._conversations.begin(name, table, None, f"{envelope.sender}: {shown}")
            conversation = turn.conversation.id
            member.chat(await turn.answer(), (envelope.sender,), envelope.id)
        except EnvelopeRefused as refusal:
            outcome, reason = "failed", refusal.message
        except Fault as fault:
            outcome, reason = "failed", fault.summary
        except StoreError as cause:
            outcome, reason = "failed", cause.message
        self._hub_app.journal.live_published(
            f"room:{topic}", envelope.sender, conversation, outcome, reason[:500], agent=table.agent
        )

    async def _note_text(self, agent: str) -> None:
        """Note that an agent is about to be given text. The message waits while the store fails."""
        while True:
            try:
                await self._hub_app.live.touches.added(agent)
            except Fault:
                await asyncio.sleep(AGAIN_S)
            else:
                return


def _chat_text(envelope: Envelope) -> str | None:
    """The text of a chat message that is addressed to somebody; None for all other envelopes."""
    if envelope.kind.type != kinds.CHAT or not envelope.to or len(envelope.payload) > MAX_CHARS:
        return None
    payload = msgspec.json.decode(envelope.payload, type=dict[str, Any])
    text = payload.get("text")
    return text if isinstance(text, str) and text else None
