"""Connections to a server, and the owner of a private one: a single session, or requests of one principal."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final, NamedTuple, Protocol

from interlock.client.connection import Connection
from interlock.hub.sessions.session import Session, SessionCaller
from interlock.hub.upstreams.client_requests import ClientChannel, ClientRequest, RequestJudge
from interlock.hub.upstreams.early_requests import RequestListener, refuse
from interlock.hub.upstreams.server_requests import RELAYED, ServerRequests
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mcp.reserved_names import params_of_server
from interlock.protocols.mcp.tasks import related_task, with_related
from interlock.transports.exchange import check_capability
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

_SESSION_NOTICES = frozenset({"notifications/message", "notifications/elicitation/complete"})
"""Notifications for the one client of a private connection, rather than for everyone who uses the server."""
_OF_SESSION: Final = "roots/list"
"""A request about the client as a whole. It belongs to the session, whichever calls are open."""
FIRST_QUESTIONS_S: Final = 3.0
"""How long the first calls wait for a server that asks for the roots of its client."""


class OpenCall(Protocol):
    """A call that the server has not answered yet."""

    @property
    def attended(self) -> bool:
        """Whether the client waits for the call, rather than the call for an answer of the client."""

    def on_notification(self, method: str, params: bytes) -> None:
        """Receive a server notification that belongs to this call."""

    def on_request(self, request: Request) -> None:
        """Receive a server request that belongs to this call."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on the stream of this call. Raises or fails with a `Fault`."""


class ConnectionOwner(RequestListener):
    """The owner of a private connection. Only the owner receives the server's messages on it."""

    def __init__(self, server: str, connection_key: str, session: Session | None, judge: RequestJudge) -> None:
        super().__init__()
        self._server = server
        self._judge = judge
        self.connection_key = connection_key
        """The name of the connection."""
        self._session = session
        self.tasks: dict[str, str] = {}
        """Tasks of the owner that are not fetched yet: the server's id, and the hub's."""
        self.waits: dict[str, OpenCall] = {}
        """Calls that wait for the result of a task, by the server's id of the task."""
        self.questions = ServerRequests(server, judge)
        self.open: set[OpenCall] = set()
        """Calls of the owner that the server has not answered yet."""
        self.used = 0.0
        """When the owner last sent a call, on the clock of the loop."""
        self.first_questions: asyncio.Task[None] | None = None
        """While the server may still ask for roots. Calls are sent after that."""
        self._unsent: list[ClientChannel] = []
        """The exchanges of the calls that wait for it."""

    def attach(self, connection: Connection) -> None:
        """Answer requests on this connection. A server of the handshake era gets its client's roots before a call.

        Servers ask for them after `notifications/initialized`, and refuse calls that come before the answer. Without a
        hub, the answer arrives before the first call. Here the first call opens the connection.
        """
        super().attach(connection)
        if self._session is not None and self._session.dialect.capabilities.roots and not connection.modern:
            self.first_questions = asyncio.create_task(self._await_first_questions(connection))

    async def _await_first_questions(self, connection: Connection) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_QUESTIONS_S):
                # A server answers in order: what it asks because of the handshake, it asks before this answer.
                with contextlib.suppress(Fault):
                    await connection.request("ping")
                await self.questions.settled()
        self.first_questions = None

    async def first_questions_asked(self, exchange: ClientChannel) -> None:
        """Wait until calls may be sent. A client that listens on no stream is asked on the exchange of its call."""
        if self.first_questions is None:
            return
        self._unsent.append(exchange)
        try:
            await asyncio.wait([self.first_questions])
        finally:
            self._unsent.remove(exchange)

    def on_notification(self, method: str, params: bytes) -> bool:
        """Pass a notification for the owner on. Returns False for any other notification."""
        if method not in _SESSION_NOTICES:
            return False
        params = params_of_server(params)
        call = self.only_call()
        if call is not None:
            call.on_notification(method, params)
        elif self._session is not None and self._wants(self._session, method, params):
            self._judge.note_text(self._session.caller, self._server, method)
            self._session.notify(method, params)
        return True

    def answer(self, connection: Connection, request: Request) -> None:
        """Put a server request to the owner: within the only open call, or beside all calls where a session allows it.

        With several open calls the hub never guesses which one a request belongs to. Roots belong to the session.
        """
        task = related_task(request.params) if self.tasks or self.waits else None
        call = self.only_call() if task is None else self.waits.get(task)
        if task in self.tasks and call is None:
            request = Request(request.id, request.method, with_related(request.params, self.tasks[task]))
        session = self._session
        if call is not None and (session is None or task is not None or request.method != _OF_SESSION):
            call.on_request(request)
        elif session is not None:
            shown = None if session.caller.view.bare else self._server
            self.questions.relay(connection, request, session.caller, partial(self._ask_beside, session), shown)
        else:
            refuse(connection, request, f"{request.method} cannot be attributed to one of {len(self.open)} calls")

    def _wants(self, session: Session, method: str, params: bytes) -> bool:
        return method != "notifications/message" or is_severe(params, session.log_level)

    def ask_client(
        self,
        caller: SessionCaller,
        channel: ClientChannel,
        method: str,
        params: bytes,
        client_params: bytes,
        trace: str,
    ) -> asyncio.Future[bytes]:
        """Judge a request within a call of the owner, and send it to the client. Raises or fails with a `Fault`."""
        if method not in RELAYED:
            self._judge.note_text(caller, self._server, method)
            return channel.ask(method, client_params)
        return self._judge.ask_client(
            ClientRequest(self._server, method, params, client_params, caller, channel, trace)
        )

    def _ask_beside(self, session: Session, method: str, params: bytes, client_params: bytes) -> asyncio.Future[bytes]:
        client_params = question_for_old(session.dialect.revision, method, client_params)
        if method not in RELAYED:
            self._judge.note_text(session.caller, self._server, method)
            return session.ask(method, client_params)
        check_capability(session.dialect, method, params)
        channel = _SessionOrCall(session, self)
        request = ClientRequest(self._server, method, params, client_params, session.caller, channel, beside=True)
        return self._judge.ask_client(request)

    def channel(self) -> ClientChannel | None:
        """A request of the client on which it can be asked beside all calls."""
        return self._unsent[0] if self._unsent else self.only_call()

    def only_call(self) -> OpenCall | None:
        """The one call that the client waits for. Calls that wait for the client have sent their request already."""
        if len(self.open) == 1:
            return next(iter(self.open))
        attended = [call for call in self.open if call.attended]
        return attended[0] if len(attended) == 1 else None


class _SessionOrCall(NamedTuple):
    """The way to the client of a session: beside all calls, or on the stream of its only call if it has no other."""

    session: Session
    owner: ConnectionOwner

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        try:
            return self.session.ask(method, params)
        except Fault as fault:
            channel = self.owner.channel()
            if channel is None or fault.name != "UPSTREAM_UNAVAILABLE":
                raise
            return channel.ask(method, params)


class UpstreamConnection(NamedTuple):
    """A connection and its owner; the shared connection has none."""

    connection: Connection
    owner: ConnectionOwner | None = None
