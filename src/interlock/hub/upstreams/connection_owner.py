"""Lines to a server: the one that all share, and private ones with the single session behind each of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple, Protocol, cast

from interlock.client.connection import Connection
from interlock.hub.catalog.views import Viewer
from interlock.hub.upstreams.server_requests import ServerRequests
from interlock.hub.upstreams.sharing import SessionState
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mcp.tasks import related_task, with_related
from interlock.transports.exchange import Session
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request

_SESSION_NOTICES = frozenset({"notifications/message", "notifications/elicitation/complete"})
"""What a server tells the one client of a private connection, rather than everyone who uses the server."""


class OpenCall(Protocol):
    """A call under way."""

    @property
    def attended(self) -> bool:
        """Whether its client has a request open for it, and does not owe it answers first."""

    def on_notification(self, method: str, params: bytes) -> None:
        """Take what the server tells in this call."""

    def on_request(self, request: Request) -> None:
        """Take what the server asks in this call."""


class ConnectionOwner:
    """Whom a private connection belongs to. What the server says on it is theirs, and nobody else's."""

    def __init__(self, server: str, connection_key: str, session: Session | None) -> None:
        self._server = server
        self.connection_key = connection_key
        """What the connection is called."""
        self._session = session
        self.tasks: dict[str, str] = {}
        """Tasks that were begun on it and whose outcome their owner does not have yet: the server's id, and ours."""
        self.waits: dict[str, OpenCall] = {}
        """Who waits for the result of a task, by the server's id of it."""
        self.questions = ServerRequests()
        self.open: set[OpenCall] = set()
        """Calls of the owner that are under way on it."""
        self.connection: Connection | None = None

    def on_notification(self, method: str, params: bytes) -> bool:
        """Pass on a notification that is meant for the owner. False for any other."""
        if method not in _SESSION_NOTICES:
            return False
        call = self._only_call()
        if call is not None:
            call.on_notification(method, params)
        elif self._session is not None and self._wants(self._session, method, params):
            self._session.notify(method, params)
        return True

    def on_request(self, request: Request) -> None:
        """Carry a question to the owner: in the only call that it can be asked in, or beside all of them where a
        session allows it.

        Which of several calls it belongs to cannot be known, and is never guessed.
        """
        connection = self.connection
        if connection is None:
            return
        task = related_task(request.params) if self.tasks or self.waits else None
        call = self._only_call() if task is None else self.waits.get(task)
        if task in self.tasks and call is None:
            request = Request(request.id, request.method, with_related(request.params, self.tasks[task]))
        if call is not None:
            call.on_request(request)
        elif self._session is not None:
            shown = None if cast(Viewer, self._session.caller).view.bare else self._server
            self.questions.relay(connection, request, partial(self._ask_beside, self._session), shown)
        else:
            fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be attributed to one of {len(self.open)} calls")
            connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))

    def _wants(self, session: Session, method: str, params: bytes) -> bool:
        state = session.state
        least = state.log_level if isinstance(state, SessionState) else None
        return method != "notifications/message" or is_severe(params, least)

    def _ask_beside(self, session: Session, method: str, params: bytes) -> asyncio.Future[bytes]:
        return session.ask(method, question_for_old(session.dialect.revision, method, params))

    def _only_call(self) -> OpenCall | None:
        """The one call that the client waits for now; those that wait for the client have asked what they wanted."""
        if len(self.open) == 1:
            return next(iter(self.open))
        attended = [call for call in self.open if call.attended]
        return attended[0] if len(attended) == 1 else None


class UpstreamConnection(NamedTuple):
    """A connection, and whose it is; None for the shared one."""

    connection: Connection
    owner: ConnectionOwner | None = None
