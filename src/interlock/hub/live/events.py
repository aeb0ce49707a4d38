"""The stored forms of live events: what was seen, what waits for an agent, and what woke one.

`LIVE_SEEN` knows an event again for some days and holds its answer. `LIVE_PENDING` holds an event for one agent until
it was delivered. `LIVE_WAKES` says when an agent was woken, for budgets and usage, and `UNSENT_WAKES` of which the
operator's webhook is still to be told.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, Final, Literal

import msgspec

from interlock.protocols.mcpl.wake import SEPARATOR
from interlock.store import Collection

Outcome = Literal["wake", "coalesced", "held", "dropped"]
BYTES_PER_TOKEN: Final = 4
DAY_S: Final = 86_400


class Seen(msgspec.Struct, frozen=True):
    """An event that was accepted or dropped, and how it was answered."""

    id: str
    server: str
    event: str
    feature_set: str
    at: float
    day: int
    outcomes: dict[str, Outcome]
    """By agent."""
    cause: str
    """The rule, or what else decided."""
    accepted: bool
    inference: str = ""
    reason: str = ""
    size: int = 0
    """Of the content, in bytes."""
    conversation: str = ""
    """Of a message that a client took: its conversation, as the server knows it."""


class PendingEvent(msgspec.Struct, frozen=True):
    """An event for one agent."""

    id: str
    agent: str
    server: str
    event: str
    feature_set: str
    at: float
    content: list[dict[str, Any]]
    """Its content blocks."""
    outcome: Outcome
    cause: str = ""
    group: str = ""
    """Events of one group share a wake."""
    channel: str | None = None
    origin: dict[str, Any] = {}
    """Where it comes from, as the server claims."""
    tags: tuple[str, ...] = ()
    from_agent: bool = False
    """Whether the hub knows that an agent caused it."""
    wake: str = ""
    """The id of the wake that was committed with it."""
    size: int = 0
    delivered: float = 0.0
    """When the agent got it; 0 while it waits."""
    dated: str = ""
    """When it happened, as the server claims; empty where nobody said."""
    on_way: bool = False
    """Whether it was handed on and nobody has answered for it yet."""
    held_at: float = 0.0
    """When it was left out of a wake of its group, as a budget had no room for it."""
    node: str = ""
    """The hub that handed it on, while it is on its way, where several share a store."""

    @property
    def tokens(self) -> int:
        """An estimate of its tokens."""
        return tokens_of(self.size)


class Wake(msgspec.Struct, frozen=True):
    """An agent was woken for a group of events."""

    id: str
    agent: str
    server: str
    feature_set: str
    group: str
    rule: str
    at: float
    day: int
    events: int = 1
    cost: int = 0
    """In tokens, estimated."""
    chain: tuple[str, ...] = ()
    """The agents whose wakes led to it, itself last."""


class UnsentWake(msgspec.Struct, frozen=True):
    """A wake of which the operator's webhook is still to be told."""

    id: str
    """Sorts by time."""
    node: str
    """The hub that made it, where several share a store."""
    wake: str
    agent: str
    server: str
    events: int
    at: float


LIVE_SEEN: Final = Collection("live_seen", Seen, key="id", columns=("day",))
LIVE_PENDING: Final = Collection("live_pending", PendingEvent, key="id", columns=("agent",))
LIVE_WAKES: Final = Collection("live_wakes", Wake, key="id", columns=("day",))
UNSENT_WAKES: Final = Collection("live_unsent_wakes", UnsentWake, key="id")


def seen_id(server: str, event: str) -> str:
    """The key by which an event is known again: ids are unique within their server alone."""
    key = SEPARATOR.join((server, event))
    # An id of 256 characters and a server's name fit; NUL is no character of a key.
    return key if "\0" not in key and len(key) <= 500 else "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def pending_id(agent: str, at: float) -> str:
    """A key that sorts by time within an agent."""
    return f"{agent}{SEPARATOR}{int(at * 1_000_000):016x}{secrets.token_hex(4)}"


def agent_of(key: str) -> str:
    """The agent in the key of a pending event, or of a group of events."""
    return key.split(SEPARATOR, 1)[0]


def tokens_of(size: int) -> int:
    """An estimate of the tokens of so many bytes."""
    return size // BYTES_PER_TOKEN + 1


def wake_id() -> str:
    """The id of a wake, as a server reads it in `inferenceId`."""
    return f"wake_{secrets.token_urlsafe(12)}"


def day_of(at: float) -> int:
    """The day of an instant, counted from 1970 in UTC."""
    return int(at // DAY_S)


def now() -> float:
    """The wall clock."""
    return time.time()
