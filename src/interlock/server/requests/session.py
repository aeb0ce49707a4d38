"""A client's session as a server knows it, and the request types that carry it."""

from __future__ import annotations

from typing import TypeAlias

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.transports.exchange import AdmittedCaller, SessionExchange, SessionService
from interlock.transports.sessions import session as transport_session
from interlock.transports.sessions.session import SessionChannel


class ServerSession(transport_session.TransportSession):
    """One session of the handshake era."""

    __slots__ = ("level", "subscriptions")

    def __init__(self, id: str, channel: SessionChannel, caller: AdmittedCaller, dialect: Dialect) -> None:
        super().__init__(id, channel, caller, dialect)
        self.level = LOG_LEVELS.index("info")
        """The rank of the least severe log level that the client wants."""
        self.subscriptions: set[str] = set()
        """The addresses of the resources that the client watches."""


Exchange: TypeAlias = SessionExchange[ServerSession, AdmittedCaller]
"""A request to a server."""
Service: TypeAlias = SessionService[ServerSession, AdmittedCaller]
"""A server as its transports see it."""
