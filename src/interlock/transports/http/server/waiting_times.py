"""Timeouts of a client connection: for a request, for the next one, and for reading an answer."""

from __future__ import annotations

import enum

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.phase import RequestPhase


class OverduePart(enum.Enum):
    """The part of the exchange that a client did not complete in time."""

    NEXT_REQUEST = "next request"
    REQUEST = "request"
    READING = "reading"
    LINGERING = "lingering"
    """The end of what a refused client sends."""


class WaitingTimes:
    """The waiting times of one connection. They begin anew with every change that is seen."""

    __slots__ = ("_bounds", "_seen", "_since")

    def __init__(self, bounds: HttpBounds) -> None:
        self._bounds = bounds
        self._seen: tuple[RequestPhase, int, int] = (RequestPhase.IDLE, -1, 0)
        self._since = 0.0

    def judge(self, phase: RequestPhase, begun: int, unread: int, now: float, *, is_served: bool) -> OverduePart | None:
        """The part that is overdue, if any. Arguments: how many requests have begun, the bytes that the client has not
        read, and whether the client waits for us."""
        seen = (phase, begun, unread)
        if seen != self._seen or (is_served and not unread):
            self._seen = seen
            self._since = now
            return None
        bounds = self._bounds
        if unread:
            late, longest = OverduePart.READING, bounds.stall_s
        elif phase is RequestPhase.IDLE:
            late, longest = OverduePart.NEXT_REQUEST, bounds.idle_s if begun else bounds.head_s
        elif phase is RequestPhase.CLOSING:
            late, longest = OverduePart.LINGERING, bounds.linger_s
        else:
            late, longest = OverduePart.REQUEST, bounds.head_s if phase is RequestPhase.HEAD else bounds.body_s
        return late if now - self._since > longest else None
