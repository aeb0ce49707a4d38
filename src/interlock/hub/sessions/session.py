"""A client's session as the hub knows it, and the request types that carry it.

The service makes each session with this type, so every part of the hub reads its fields directly.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from interlock.config.value_types import Share
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.views import View
from interlock.protocols.mcp.dialect import Dialect
from interlock.transports.exchange import SessionExchange, SessionService
from interlock.transports.sessions import session as transport_session
from interlock.transports.sessions.session import SessionChannel


class SessionCaller(Protocol):
    """The caller that opened a session: a principal at one address of the hub."""

    @property
    def owner(self) -> str: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def list_scope(self) -> ListScope: ...

    @property
    def view(self) -> View: ...


class Session(transport_session.Session):
    """One session (handshake era), from its handshake until the registry ends it."""

    __slots__ = ("connection_keys", "log_level", "private_connections", "subscriptions", "tasks")

    caller: SessionCaller

    def __init__(self, id: str, channel: SessionChannel, caller: SessionCaller, dialect: Dialect) -> None:
        super().__init__(id, channel, caller, dialect)
        self.log_level: str | None = None
        """The least severe log level that the client wants; None until it asks for messages."""
        self.subscriptions: dict[tuple[str, str], str] = {}
        """`(server, uri)` to the address that the client knows."""
        self.private_connections: set[tuple[str, str]] = set()
        """`(server, name)` of the private connections of this session."""
        self.tasks: set[str] = set()
        """The tasks that this session is notified of."""
        self.connection_keys: dict[tuple[str, Share, bool, str | None], ConnectionKey | None] = {}
        """The connection that its calls take, by server, sharing, era and log level."""


class ConnectionKey(msgspec.Struct, frozen=True):
    """The name of a private connection, and the properties of the client that its server sees."""

    name: str
    capabilities: bytes = b"{}"
    log_level: str | None = None
    session: Session | None = None
    """The only session that uses it; None where several requests of one principal do."""
    owner: str = ""
    """The kind and the id of its principal."""


Exchange: TypeAlias = SessionExchange[Session]
"""A request to the hub."""
Service: TypeAlias = SessionService[Session]
"""The hub as its transports see it, also with tracing in front of it."""
