"""The part of a request that comes next on a client connection."""

from __future__ import annotations

import enum


class RequestPhase(enum.Enum):
    """The part of a request that comes next."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    CLOSING = "closing"
    """Nothing any more: the connection closes after the answer under way."""
