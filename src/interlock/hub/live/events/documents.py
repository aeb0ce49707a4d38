"""The stored forms of live events.

`LIVE_SEEN` remembers each event for some days, with its answer, to recognize repeated ones. `LIVE_PENDING` holds an
event for one agent until it is delivered. `LIVE_WAKES` records when an agent was woken, for budgets and usage.
`UNSENT_WAKES` holds the wakes that the operator's webhook must still be told of.
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


class SeenEvent(msgspec.Struct, frozen=True):
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
    """The rule that decided, or another reason."""
    accepted: bool
    inference: str = ""
    reason: str = ""
    size: int = 0
    """The bytes of the content."""
    conversation: str = ""
    """For a message that a client took: the conversation, by the id that the server knows."""


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
    """The origin of the event, as the server claims."""
    tags: tuple[str, ...] = ()
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
    """When it was left out of a wake of its group because a budget was used up."""
    node: str = ""
    """The node of the hub that is handing it on; empty while it waits."""

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
    """The agents whose wakes led to this one, in order. The last is the woken agent."""


class UnsentWake(msgspec.Struct, frozen=True):
    """A wake that the operator's webhook must still be told of."""

    id: str
    """Sorts by time."""
    node: str
    """The hub that made it, where several share a store."""
    wake: str
    agent: str
    server: str
    events: int
    at: float


LIVE_SEEN: Final = Collection("live_seen", SeenEvent, key="id", columns=("day",))
LIVE_PENDING: Final = Collection("live_pending", PendingEvent, key="id", columns=("agent",))
LIVE_WAKES: Final = Collection("live_wakes", Wake, key="id", columns=("day",))
UNSENT_WAKES: Final = Collection("live_unsent_wakes", UnsentWake, key="id")


def seen_id(server: str, event: str) -> str:
    """The key that identifies a repeated event. Event ids are unique only within their server."""
    key = SEPARATOR.join((server, event))
    # An id of 256 characters and a server's name fit into a key. A key cannot contain NUL.
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
