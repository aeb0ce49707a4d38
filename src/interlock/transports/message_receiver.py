"""The receiver of a WebSocket's messages.

It is not in `websocket.py`, so that a hub without topics does not load the library for WebSockets.
"""

from __future__ import annotations

import enum
from typing import Protocol


class Taken(enum.Enum):
    """What became of a message."""

    ACCEPTED = enum.auto()
    REFUSED = enum.auto()
    """Answered with a refusal. Its cost counts against the peer's share of the loop."""
    LATER = enum.auto()
    """Not taken. Nothing more is read until `resume`."""


class MessageReceiver(Protocol):
    """The reader of one WebSocket's messages."""

    def on_open(self) -> None:
        """The upgrade is answered."""

    def on_frame(self) -> bool:
        """A frame that completes no message is about to be read. False: it stays unread until `resume`."""

    def on_message(self, data: bytes, binary: bool) -> Taken:
        """A message."""

    def on_unread(self) -> None:
        """The peer left too much unread: the receiver ends the connection."""

    def on_lost(self) -> None:
        """The connection has gone."""
