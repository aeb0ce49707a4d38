"""Operations on clients: list sessions, principals seen lately, their open calls and streams, end them, and test their
channel."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import msgspec

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Kind, Principal, shown_principal
from interlock.hub.handlers.claude_channel import TRANSPORT, notice_of_test
from interlock.hub.handlers.listeners import SessionListener
from interlock.hub.sessions.client_claims import claim_of
from interlock.hub.sessions.principals import SeenPrincipal
from interlock.hub.sessions.session import Session
from interlock.transports.sessions.states import SessionEvent, SessionState
from interlock.wire.errors import Fault

BY_OPERATOR = "an operator ended it"


class ListSessions(msgspec.Struct):
    """Which sessions to list."""

    agent: str | None = None
    """Only those of this agent."""


class EndSession(msgspec.Struct):
    """A session by its id, or a principal such as `agent:NAME` with all its sessions, streams and calls."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]


class ChannelTest(msgspec.Struct):
    """A session, and a word that its notification has."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    mark: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class SessionRow(msgspec.Struct):
    """One session (handshake era). Client and version are what the client claims."""

    id: str
    """Names the session to operators. Clients know another id, which is never shown."""
    agent: str
    kind: Kind
    client: str
    version: str
    revision: str
    transport: str
    state: SessionState
    since: datetime
    last_used: datetime
    calls: int
    streams: int
    subscriptions: int
    tasks: int
    private_connections: int
    log_level: str | None
    capabilities: list[str]


class PrincipalRow(msgspec.Struct):
    """A principal that was seen lately, with its open calls and streams that belong to no session (stateless era)."""

    id: str
    agent: str
    kind: Kind
    client: str
    version: str
    revision: str
    first_seen: datetime
    last_seen: datetime
    calls: int
    """Under way, parked until the client answers a question, or waiting for an approval."""
    streams: int


class SessionRows(msgspec.Struct):
    """All sessions, and the principals seen lately, the latest first."""

    sessions: list[SessionRow]
    principals: list[PrincipalRow]


class EndedSessions(msgspec.Struct):
    """The ended sessions, and the streams and calls that were open, in these sessions and without one."""

    id: str
    sessions: int
    streams: int
    calls: int


class ChannelTested(msgspec.Struct):
    """The session that was notified."""

    id: str


class SessionOperations:
    """The operations on the clients of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._clients = hub_app.hub.clients
        self._journal = hub_app.journal

    async def list(self, by: Principal, params: ListSessions, trace: str) -> SessionRows:
        """Every session, and every principal seen lately."""
        agent = params.agent
        self._clients.principals.collect(self._hub_app.authenticator.callers)
        sessions = sorted(self._clients.sessions, key=lambda session: session.since, reverse=True)
        principals = self._clients.principals.latest()
        return SessionRows(
            [self._session(each) for each in sessions if agent in (None, each.caller.principal.id)],
            [
                self._principal(principal_name, each)
                for principal_name, each in principals
                if agent in (None, each.principal.id)
            ],
        )

    async def end(self, by: Principal, params: EndSession, trace: str) -> EndedSessions:
        """End a session, or everything that a principal has open. The calls are cancelled and answered."""
        id_ = params.id
        session = self._clients.sessions.get(id_)
        if session is not None:
            principal_name, found = session.caller.principal_name, [session]
        else:
            principal_name = self._principal_name_of(id_)
            found = [each for each in self._clients.sessions if each.caller.principal_name == principal_name]
        streams = sum(each.channel.open_streams for each in found)
        calls = sum(each.channel.open_calls for each in found)
        if not found and not self._is_known(principal_name):
            raise Fault("NOT_FOUND", f"no session {id_!r}", hint="`interlock sessions` shows all of them")
        for each in found:
            self._clients.sessions.end(each, SessionEvent.TERMINATE, BY_OPERATOR)
        if session is None:
            streams += self._clients.end_streams(principal_name, BY_OPERATOR)
            calls += self._hub_app.hub.end_calls(principal_name, BY_OPERATOR)
        kind: Literal["session", "principal"] = "session" if session is not None else "principal"
        ended = {"sessions": len(found), "streams": streams, "calls": calls}
        self._journal.session_ended(by, kind, id_, shown_principal(principal_name), ended, trace)
        return EndedSessions(id_, len(found), streams, calls)

    async def test_channel(self, by: Principal, params: ChannelTest, trace: str) -> ChannelTested:
        """Send a test notification to the channel of one session, the way of a wake, and to nobody else."""
        session = self._clients.sessions.get(params.id)
        if session is None:
            raise Fault("NOT_FOUND", f"no session {params.id!r}", hint="`interlock sessions` shows all of them")
        listener = SessionListener.of(session)
        if listener.transport != TRANSPORT or listener.list_scope.view.bare:
            raise Fault("INVALID_PARAMS", "this session has no channel", hint="only `interlock stdio` has one")
        if not self._hub_app.change_notifier.give_notice(listener, notice_of_test(params.mark)):
            raise Fault("NOT_FOUND", "this session is not notified of events", hint="restart its client")
        return ChannelTested(params.id)

    def _is_known(self, principal_name: str) -> bool:
        """Whether a principal was seen lately, also since the last tick, or has something open."""
        self._clients.principals.collect(self._hub_app.authenticator.callers)
        if self._clients.principals.get(principal_name) is not None:
            return True
        return bool(self._clients.streams.of(principal_name) or self._clients.calls_of(principal_name))

    def _session(self, session: Session) -> SessionRow:
        claim, principal = claim_of(session.dialect), session.caller.principal
        idle = timedelta(seconds=max(0.0, time.monotonic() - session.channel.last_used))
        return SessionRow(
            session.handle,
            principal.id,
            principal.kind,
            claim.name,
            claim.version,
            session.dialect.revision.name,
            session.channel.transport,
            session.state,
            session.since,
            datetime.now(UTC) - idle,
            session.channel.open_calls,
            session.channel.open_streams,
            len(session.subscriptions),
            len(session.tasks),
            len(session.private_connections),
            session.log_level,
            session.dialect.capabilities.names,
        )

    def _principal_name_of(self, name: str) -> str:
        """The name of the principal that this names, also where its id has its kind in it, such as `person:ada`."""
        if self._is_known(name) or any(each.caller.principal_name == name for each in self._clients.sessions):
            return name
        return f"{name.partition(':')[0]}:{name}"

    def _principal(self, principal_name: str, seen: SeenPrincipal) -> PrincipalRow:
        principal, client = seen.principal, seen.client
        calls, streams = len(self._clients.calls_of(principal_name)), len(self._clients.streams.of(principal_name))
        about = (client.name, client.version, seen.revision, seen.first_seen, seen.last_seen)
        return PrincipalRow(shown_principal(principal_name), principal.id, principal.kind, *about, calls, streams)
