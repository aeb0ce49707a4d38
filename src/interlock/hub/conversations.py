"""Conversations in the store: who owns each, and its turns. What was said in them is sealed."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.auth.principals import Kind, Principal
from interlock.store import Collection


class StoredConversation(msgspec.Struct, frozen=True):
    """One conversation."""

    id: str
    agent: str
    kind: Kind
    """With `agent`, `profile` and `key_hash`: the principal that its tool calls are made as."""
    profile: str | None
    key_hash: str
    model: str
    """Its model, by the name in the configuration."""
    created: float
    updated: float
    turns: int = 0
    first: int = 0
    """The oldest turn that its prompts still have."""
    sealed: str = ""
    """Its instructions and the injections of the system block, which stay the same from turn to turn."""

    @property
    def principal(self) -> Principal:
        """The principal whose rights its turns have."""
        return Principal(self.agent, self.kind, self.profile, self.key_hash)


class StoredTurn(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    id: str
    """The conversation and the index."""
    conversation: str
    index: int
    inference: str
    at: float
    model: str
    """The model's own name for itself, as servers are told."""
    finish: str
    error: str = ""
    """Why it ended without an answer."""
    input_tokens_count: int = 0
    output_tokens_count: int = 0
    sealed: str = ""
    """Its messages."""


CONVERSATIONS: Final = Collection("conversations", StoredConversation, key="id", columns=("agent",))
TURNS: Final = Collection("conversation_turns", StoredTurn, key="id", columns=("conversation",))


def turn_id(conversation: str, index: int) -> str:
    """The key of a turn. Keys of one conversation sort by their index."""
    return f"{conversation}/{index:08d}"
