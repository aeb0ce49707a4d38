"""The host, as conversations that begin turns by themselves use it."""

from __future__ import annotations

from typing import Protocol

from interlock.host.conversations import Conversation, Conversations
from interlock.host.turn import Turn
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpl.injections import SourcedInjection


class TurnStarter(Protocol):
    """The host, which begins turns."""

    conversations: Conversations

    async def create(self, principal: Principal, model: str | None = None) -> Conversation:
        """Begin a conversation."""

    async def send(
        self,
        conversation: str,
        text: str | None,
        context: tuple[SourcedInjection, ...] = (),
        *,
        calls_wait: bool = False,
    ) -> Turn:
        """Begin a turn."""

    async def idle(self, conversation: str, within_s: float) -> None:
        """Wait until no turn of a conversation is under way."""
