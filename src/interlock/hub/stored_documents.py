"""Documents that the layers above the hub keep in its store: conversations and inferences of the host, state of rooms.

The hub opens the store with their collections, records them in its audit log and counts them. Texts are sealed.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Final

import msgspec

from interlock.hub.auth.principals import Kind, Principal
from interlock.store import Collection

DAY_S: Final = 86_400


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


class StoredInference(msgspec.Struct, frozen=True):
    """One inference, or all of one turn."""

    id: str
    at: float
    day: int
    model: str
    """The model's own name for itself."""
    agent: str
    """The agent on whose account it was made; empty where a server asked on account of several."""
    input_tokens_count: int
    output_tokens_count: int
    cost: float
    """By the prices of the configuration at that time."""
    server: str = ""
    """The server that asked; empty for a turn of a conversation."""
    feature_set: str = ""
    conversation: str = ""
    error: str = ""
    """Why it failed. A failed inference may have cost, too."""
    claimed: bool = False
    """Whether the tokens are the word of a client whose model answered, within bounds."""


INFERENCES: Final = Collection("inferences", StoredInference, key="id", columns=("day",))


def inference_id() -> str:
    """A fresh id, as servers are told of it."""
    return f"inf_{secrets.token_hex(12)}"


def day_of(at: float) -> int:
    """The day of an instant, in UTC."""
    return int(at // DAY_S)


class HistoryHead(msgspec.Struct, frozen=True):
    """The state of one topic's history."""

    place: str
    """The hub and the topic."""
    epoch: str
    clean: int | None
    """The last offset, after the hub stopped in order; None while it runs, so that a crash is seen."""


class HistorySegment(msgspec.Struct, frozen=True):
    """Some envelopes of one topic, sealed."""

    id: str
    place: str
    first: int
    sealed: str


HISTORY_HEADS: Final = Collection("room_history_heads", HistoryHead, key="place")
HISTORY_SEGMENTS: Final = Collection("room_history", HistorySegment, key="id", columns=("place",))


def history_key(key: bytes) -> bytes:
    """The key that seals segments, from the one of rooms, which also signs cursors."""
    return hashlib.sha256(key + b"history").digest()


class CapabilityChange(msgspec.Struct, frozen=True):
    """The changed capabilities of one participant in one topic, beside those of its profile."""

    id: str
    topic: str
    participant: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    by: str
    at: datetime

    def apply(self, capabilities: tuple[str, ...]) -> tuple[str, ...]:
        """The capabilities after the change."""
        kept = tuple(text for text in capabilities if text not in self.removed)
        return (*kept, *(text for text in self.added if text not in kept))


ROOM_CAPABILITIES: Final = Collection("room_capabilities", CapabilityChange, key="id", columns=("topic",))


def change_id(topic: str, participant: str) -> str:
    """The key of a change. A topic's name has no slash."""
    return f"{topic}/{participant}"
