"""Connections to a server, and the owner of a private one: a single session, or requests of one principal."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final, NamedTuple, Protocol

from interlock.client.connection import Connection
from interlock.hub.sessions.session import ConnectionKey, Session, SessionCaller
from interlock.hub.upstreams.client_requests import ClientChannel, ClientRequest, RequestJudge
from interlock.hub.upstreams.early_requests import RequestListener, refuse
from interlock.hub.upstreams.roots_use import RootsUse
from interlock.hub.upstreams.server_requests import RELAYED, Ask, OpenServerRequests
from interlock.hub.upstreams.sharing import audience_of, rooted_name
from interlock.process.wake_signal import WakeSignal
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mcp.reserved_names import params_of_server
from interlock.protocols.mcp.tasks import related_task, with_related
from interlock.transports.exchange import check_capability
from interlock.wire.errors import Fault
from interlock.wire.messages import Request, one_line

_SESSION_NOTICES = frozenset({"notifications/message", "notifications/elicitation/complete"})
"""Notifications for the one client of a private connection, rather than for everyone who uses the server."""
ROOTS: Final = "roots/list"
"""A request about the client as a whole. It belongs to the session, whichever calls are open."""
FIRST_QUESTIONS_S: Final = 3.0
"""How long the first calls wait for a server that asks for the roots of its client."""
LOOKED_AT_S: Final = 0.3
"""Pause after `roots/list` was answered: servers open the folders then, and do not report when they finish."""


class UnansweredCall(Protocol):
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

    def __init__(self, server: str, key: ConnectionKey, judge: RequestJudge, roots_use: RootsUse) -> None:
        super().__init__()
        self._server = server
        self._judge = judge
        self.connection_key = key.name
        """The name of the connection."""
        self.audience = audience_of(key.name)
        """The clients that use it, or one like it for other roots."""
        self._session = key.session
        self._asks_roots = key.asks_roots
        self.roots = key.roots
        """The roots that its server knows, where several clients use it."""
        self.name_by_roots = key.name
        """The name that clients with these roots find it by."""
        self._roots_use = roots_use
        self._asked = WakeSignal()
        """Set when the server has asked for roots."""
        self.tasks: dict[str, str] = {}
        """Tasks of the owner that are not fetched yet: the server's id, and the hub's."""
        self.waits: dict[str, UnansweredCall] = {}
        """Calls that wait for the result of a task, by the server's id of the task."""
        self.questions = OpenServerRequests(server, judge)
        self.open: set[UnansweredCall] = set()
        """Calls of the owner that the server has not answered yet."""
        self.used = 0.0
        """When the owner last sent a call, on the clock of the loop."""
        self.takes_calls = True
        """False while the server may still ask for roots. Calls are sent after that."""
        self._first_questions: asyncio.Task[None] | None = None
        self._unsent: list[ClientChannel] = []
        """The exchanges of the calls that wait for it."""

    def attach(self, connection: Connection) -> None:
        """Answer requests on this connection. A server of the handshake era gets its client's roots before a call.

        Servers ask for them after `notifications/initialized`, and refuse calls that come before the answer. Without a
        hub, the answer arrives before the first call. Here the first call opens the connection.
        """
        super().attach(connection)
        if self._asks_roots and not connection.modern:
            self.takes_calls = False
            self._first_questions = asyncio.create_task(self._await_first_questions(connection))

    async def _await_first_questions(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(FIRST_QUESTIONS_S):
                # A server answers in order, so its questions after the handshake come before this answer.
                await _ping(connection)
                if self._roots_use.at_start:
                    await self._asked.wait()
                await self.questions.settled()
                if self._asked.is_set() and (self._session is not None or self.roots is not None):
                    await asyncio.sleep(LOOKED_AT_S)
                    await _ping(connection)
        except TimeoutError:
            if not self._asked.is_set():
                self._roots_use.on_silent()
        self.takes_calls, self._first_questions = True, None

    async def first_questions_asked(self, exchange: ClientChannel) -> None:
        """Wait until calls may be sent. A client that listens on no stream is asked on the exchange of its call."""
        if self._first_questions is None:
            return
        self._unsent.append(exchange)
        try:
            await asyncio.wait([self._first_questions])
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
        if request.method == ROOTS and self._answer_roots(connection, request):
            return
        task = related_task(request.params) if self.tasks or self.waits else None
        call = self.only_call() if task is None else self.waits.get(task)
        if task in self.tasks and call is None:
            request = Request(request.id, request.method, with_related(request.params, self.tasks[task]))
        session = self._session
        if call is not None and (session is None or task is not None or request.method != ROOTS):
            call.on_request(request)
        elif session is not None:
            shown = None if session.caller.view.bare else self._server
            self.questions.relay(connection, request, session.caller, partial(self._ask_beside, session), shown)
        else:
            refuse(connection, request, f"{request.method} cannot be attributed to one of {len(self.open)} calls")

    def relay(
        self, connection: Connection, request: Request, client: SessionCaller, ask: Ask, shown: str | None
    ) -> None:
        """Put a request that belongs to a call to the client of that call."""
        if request.method != ROOTS:
            self.questions.relay(connection, request, client, ask, shown)
        elif not self._answer_roots(connection, request):
            self.questions.relay(connection, request, client, partial(self._ask_roots, ask), shown)

    def _answer_roots(self, connection: Connection, request: Request) -> bool:
        """Answer with the roots that every client of this connection has. False where a client is to be asked."""
        self._roots_use.on_asked(beside_calls=not self.open)
        self._asked.set()
        if self.roots is None:
            return False
        connection.answer(request.id, self.roots)
        return True

    def _ask_roots(self, ask: Ask, method: str, params: bytes, client_params: bytes) -> asyncio.Future[bytes]:
        waiting = ask(method, params, client_params)
        # A server that asks only within calls asks each client itself.
        if self._session is None and self._asks_roots and self._roots_use.asked:
            waiting.add_done_callback(self._on_roots)
        return waiting

    def _on_roots(self, waiting: asyncio.Future[bytes]) -> None:
        """From now on the server knows the roots of one client. The connection is for clients with the same roots."""
        if waiting.cancelled() or waiting.exception() is not None:
            return
        # The server is refused an answer that is not text, and knows no roots then.
        with contextlib.suppress(ValueError):
            self.roots = one_line(waiting.result())
            self.name_by_roots = rooted_name(self.audience, self.roots)

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

    def only_call(self) -> UnansweredCall | None:
        """The one call that the client waits for. Calls that wait for the client have sent their request already."""
        if len(self.open) == 1:
            return next(iter(self.open))
        attended = [call for call in self.open if call.attended]
        return attended[0] if len(attended) == 1 else None


async def _ping(connection: Connection) -> None:
    with contextlib.suppress(Fault):
        await connection.request("ping")


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
