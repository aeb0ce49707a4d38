"""The one registry of clients: sessions of all transports, listen streams, and the principals seen lately.

A session opens in `SessionRegistry.open` and ends in `SessionRegistry.end`. A listen stream is here while it is open.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from interlock.hub.auth.principals import Principal
from interlock.hub.sessions.principals import SeenPrincipals
from interlock.hub.sessions.resumable import ResumableSessions
from interlock.hub.sessions.session import Session
from interlock.transports.sessions.registry import SessionLimits, SessionRegistry
from interlock.transports.sessions.states import SessionEvent


class OpenStream(Protocol):
    """An open `subscriptions/listen` stream (stateless era)."""

    principal: Principal
    owner: str
    since: datetime

    def end(self, reason: str) -> None:
        """End the stream with a result, as the specification requires."""


class Clients:
    """The clients of one hub. `opened` and `ended` are called once for each session."""

    def __init__(
        self,
        limits: SessionLimits,
        clock: Callable[[], float],
        streams: set[OpenStream],
        opened: Callable[[Session], None],
        ended: Callable[[Session, SessionEvent], None],
    ) -> None:
        self.sessions: SessionRegistry[Session] = SessionRegistry(limits, clock, opened, ended)
        self.streams = streams
        """The open listen streams, of which `handlers/subscriptions.py` keeps track."""
        self.principals = SeenPrincipals()
        self.resumable = ResumableSessions()

    def streams_of(self, owner: str) -> list[OpenStream]:
        """The open streams of an owner."""
        return [stream for stream in self.streams if stream.owner == owner]

    def end_streams(self, owner: str, reason: str) -> int:
        """End the streams of an owner. Returns how many there were."""
        streams = self.streams_of(owner)
        for stream in streams:
            stream.end(reason)
        return len(streams)

    def end_revoked(self, is_valid: Callable[[Principal], bool]) -> None:
        """End the sessions and streams of credentials that are no longer valid."""
        self.sessions.end_revoked(lambda session: is_valid(session.caller.principal))
        for stream in list(self.streams):
            if not is_valid(stream.principal):
                stream.end("its credential is no longer valid")
