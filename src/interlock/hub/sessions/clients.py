"""The one registry of clients: sessions of all transports, listen streams, open calls, and the principals seen lately.

A session opens in `SessionRegistry.open` and ends in `SessionRegistry.end`. A listen stream is here while it is open.
Calls with a session end with it. Calls without one are found at their principal. Other requests without a session,
which the hub answers itself, are found at their background tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from interlock.hub.auth.principals import Principal
from interlock.hub.sessions.open_streams import OpenStreams
from interlock.hub.sessions.principals import SeenPrincipals
from interlock.hub.sessions.resumable import ResumableSessions
from interlock.hub.sessions.session import Exchange, Session, SessionCaller
from interlock.transports.sessions.registry import SessionLimits, SessionRegistry
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault

INVALID: Final = "its credential is no longer valid"


class StatelessCall(Protocol):
    """A call that is under way, parked, or waiting for an approval."""

    @property
    def caller(self) -> SessionCaller: ...

    @property
    def exchange(self) -> Exchange: ...


class StatelessCalls(Protocol):
    """Knows the open calls of every principal."""

    def stateless_calls(self) -> Sequence[StatelessCall]:
        """Open calls without a session."""


class StatelessRequests(Protocol):
    """Knows the requests that the hub itself answers later: lists, tasks, discovery, operations."""

    def stateless_requests(self) -> Sequence[Exchange]:
        """Open requests without a session."""


class Clients:
    """The clients of one hub. `opened` and `ended` are called once for each session."""

    def __init__(
        self,
        limits: SessionLimits,
        clock: Callable[[], float],
        streams: OpenStreams,
        calls: StatelessCalls,
        requests: StatelessRequests,
        opened: Callable[[Session], None],
        ended: Callable[[Session, SessionEvent], None],
    ) -> None:
        self.sessions: SessionRegistry[Session] = SessionRegistry(limits, clock, opened, ended)
        self.streams = streams
        """The open listen streams, of which `handlers/subscriptions.py` keeps track."""
        streams.bound(limits.per_principal)
        self._calls = calls
        self._requests = requests
        self.principals = SeenPrincipals()
        self.resumable = ResumableSessions()

    def bound(self, limits: SessionLimits) -> None:
        """Use other limits from now on. A principal may have as many listen streams as sessions."""
        self.sessions.bound(limits)
        self.streams.bound(limits.per_principal)

    def end_streams(self, principal_name: str, reason: str) -> int:
        """End the streams of a principal. Returns how many there were."""
        streams = self.streams.of(principal_name)
        for stream in streams:
            stream.end(reason)
        return len(streams)

    def calls_of(self, principal_name: str) -> list[StatelessCall]:
        """The open calls of a principal that belong to no session."""
        return [call for call in self._calls.stateless_calls() if call.caller.principal_name == principal_name]

    def end_calls(self, principal_name: str, reason: str) -> int:
        """End the calls and other requests of a principal that belong to no session. Returns the number of calls."""
        calls = self.calls_of(principal_name)
        for call in calls:
            call.exchange.revoke(Fault("CANCELLED", f"the call was ended: {reason}"), reason)
        for request in self._requests.stateless_requests():
            if request.caller.principal_name == principal_name:
                request.revoke(Fault("CANCELLED", f"the request was ended: {reason}"), reason)
        return len(calls)

    def end_revoked(self, is_valid: Callable[[Principal], bool]) -> None:
        """End the sessions, streams, calls and other requests of credentials that are no longer valid."""
        self.sessions.end_revoked(lambda session: is_valid(session.caller.principal))
        for stream in self.streams:
            if not is_valid(stream.principal):
                stream.end(INVALID)
        for call in self._calls.stateless_calls():
            if not is_valid(call.caller.principal):
                call.exchange.revoke(Fault("AUTH_REQUIRED", f"the call was ended: {INVALID}"), INVALID)
        for request in self._requests.stateless_requests():
            if not is_valid(request.caller.principal):
                request.revoke(Fault("AUTH_REQUIRED", f"the request was ended: {INVALID}"), INVALID)
