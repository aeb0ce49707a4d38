"""The history of rooms in the store: the last envelopes of topics that keep them, sealed."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.store import Collection


class HistoryHead(msgspec.Struct, frozen=True):
    """What the store knows of one topic's history."""

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
