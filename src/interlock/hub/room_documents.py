"""Histories and capabilities of rooms as the hub's store has them. Texts are sealed.

`rooms` writes them. The hub opens the store with their collections, and seals them anew when its key changes.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final

import msgspec

from interlock.store import Collection


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
