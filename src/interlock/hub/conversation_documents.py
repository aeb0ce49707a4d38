"""Conversations, their turns and inferences as the hub's store has them. Texts are sealed.

`host` writes them. The hub opens the store with their collections, records them in its audit log and counts them.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from interlock.hub.auth.principals import Kind, Principal
from interlock.store import Collection

DAY_S: Final = 86_400
UNFINISHED: Final = "CANCELLED: the turn was interrupted before its end"
"""The error of a turn that has not ended: the one to read if the hub dies meanwhile."""


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


class TurnLease(msgspec.Struct, frozen=True):
    """The hub that runs a turn of a conversation now."""

    conversation: str
    node: str
    inference: str
    until: float
    """After this time it is void."""


TURN_LEASES: Final = Collection("turn_leases", TurnLease, key="conversation", columns=())


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
