"""Lines to a server: the one that all share, and private ones with the single session behind each of them."""

from __future__ import annotations

from typing import NamedTuple

from interlock.client.connection import Connection
from interlock.hub.questions import relay_question
from interlock.transports.exchange import Exchange, Session
from interlock.wire.errors import Fault, Tongue
from interlock.wire.messages import Request

_SESSION_NOTICES = frozenset({"notifications/message", "notifications/elicitation/complete"})
"""What a server tells the one client of a private connection, rather than everyone who uses the server."""


class LineOwner:
    """Whom a private connection belongs to. What the server says on it is theirs, and nobody else's."""

    def __init__(self, session: Session | None) -> None:
        self._session = session
        self.open: set[Exchange] = set()
        """Calls of the owner that are under way on it."""
        self.connection: Connection | None = None

    def told(self, method: str, params: bytes) -> bool:
        """Pass on a notification that is meant for the owner. False for any other."""
        if method not in _SESSION_NOTICES or self._session is None:
            return False
        call = self._only_call()
        if call is not None:
            call.notify(method, params)
        else:
            self._session.notify(method, params)
        return True

    def asked(self, request: Request) -> None:
        """Carry a question to the owner: on the stream of the only call under way, or beside all of them."""
        connection = self.connection
        if connection is None:
            return
        if self._session is None:
            fault = Fault("METHOD_NOT_FOUND", f"nobody is there to answer {request.method}")
            connection.refuse(request.id, fault.render(Tongue.OLD_MCP))
            return
        call = self._only_call()
        relay_question(connection, request, self._session.ask if call is None else call.ask, Tongue.OLD_MCP)

    def _only_call(self) -> Exchange | None:
        return next(iter(self.open)) if len(self.open) == 1 else None


class Line(NamedTuple):
    """A connection, and whose it is; None for the shared one."""

    connection: Connection
    owner: LineOwner | None = None
