"""Finds the connections that an envelope goes to, once for each sender.

A sender keeps the same list object while its recipients are the same. `FrameQueue` joins frames with the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.rooms.member import RoomMember

MAX_SENDERS: Final = 16


class EnvelopeRecipients(list[RoomMember]):
    """The connections that the envelopes of one sender go to."""

    noted_until = 0.0
    """Until this time, `given_texts.py` need not note again that these recipients get text."""


class ListenerLists:
    """The lists of one topic."""

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: dict[str, tuple[tuple[str, ...], EnvelopeRecipients]] = {}

    def find(self, members: Mapping[str, RoomMember], recipients: tuple[str, ...], sender: str) -> EnvelopeRecipients:
        """The connections of the recipients."""
        known = self._lists.get(sender)
        if known is not None and known[0] is recipients:
            return known[1]
        found = EnvelopeRecipients(members[id_] for id_ in recipients if id_ in members)
        if len(self._lists) >= MAX_SENDERS:
            self._lists.clear()
        self._lists[sender] = recipients, found
        return found

    def clear(self) -> None:
        """Forget all lists, because a participant joined or left."""
        self._lists.clear()
