"""A client's session as the hub knows it, and the request types that carry it.

The service makes each session with this type, so every part of the hub reads its fields directly.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from interlock.config.value_types import Share
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.views import View
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcpl.server_rights import ServerRights
from interlock.transports.exchange import SessionExchange, SessionService
from interlock.transports.sessions import session as transport_session
from interlock.transports.sessions.session import SessionChannel


class SessionCaller(Protocol):
    """The caller that opened a session: a principal at one address of the hub."""

    @property
    def principal_name(self) -> str: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def list_scope(self) -> ListScope: ...

    @property
    def view(self) -> View: ...


NO_SELECTION: Final = ServerRights()


class SavedSettings(msgspec.Struct, frozen=True):
    """The settings of a session that outlive a run of the hub."""

    log_level: str | None = None
    subscriptions: tuple[tuple[tuple[str, str], str], ...] = ()
    selection: ServerRights = NO_SELECTION


DEFAULT_SETTINGS: Final = SavedSettings()


class SessionKeeper(Protocol):
    """Saves the state of a session that the next run of the hub needs to resume it."""

    def keep(self, session: Session) -> None: ...


class Session(transport_session.TransportSession):
    """One session (handshake era), from its handshake until the registry ends it."""

    __slots__ = (
        "_keeper",
        "connection_keys",
        "log_level",
        "private_connections",
        "selection",
        "subscriptions",
        "tasks",
    )  # fmt: skip

    caller: SessionCaller

    def __init__(
        self,
        id: str,
        channel: SessionChannel,
        caller: SessionCaller,
        dialect: Dialect,
        keeper: SessionKeeper,
        saved: SavedSettings = DEFAULT_SETTINGS,
    ) -> None:
        super().__init__(id, channel, caller, dialect)
        self._keeper = keeper
        self.log_level = saved.log_level
        """The least severe log level that the client wants; None until it asks for messages."""
        self.subscriptions = dict(saved.subscriptions)
        """`(server, uri)` to the address that the client knows. Changed by `subscribed` and `unsubscribed`."""
        self.selection = saved.selection
        """The feature sets that a client selected which is a host of MCPL. Changed by `selects`."""
        self.private_connections: set[tuple[str, str]] = set()
        """`(server, name)` of the private connections of this session."""
        self.tasks: set[str] = set()
        """The tasks that this session is notified of."""
        self.connection_keys: dict[tuple[str, Share, bool, bool | None, str | None], ConnectionKey | None] = {}
        """The connection that its calls take, by server, sharing, eras of the server and log level."""

    def wants_logs(self, level: str) -> None:
        """The client sent `logging/setLevel`."""
        self.log_level = level
        self._keeper.keep(self)

    def selects(self, selection: ServerRights) -> None:
        """The client sent `featureSets/update`."""
        self.selection = selection
        self._keeper.keep(self)

    def subscribed(self, server: str, uri: str, address: str) -> None:
        """The client watches a resource, which it knows by `address`."""
        self.subscriptions[server, uri] = address
        self._keeper.keep(self)

    def unsubscribed(self, server: str, uri: str) -> bool:
        """The client watches a resource no longer. False if it did not."""
        if self.subscriptions.pop((server, uri), None) is None:
            return False
        self._keeper.keep(self)
        return True

    @property
    def origin(self) -> SessionOrigin:
        """The session as the origin of work that no request of its client began."""
        return SessionOrigin(self, self.dialect, self.caller)


class ConnectionUser(Protocol):
    """The party that needs a connection to a server: a request, or a session without one."""

    @property
    def session(self) -> Session | None: ...

    @property
    def dialect(self) -> Dialect: ...

    @property
    def caller(self) -> transport_session.AdmittedCaller: ...


class SessionOrigin(msgspec.Struct, frozen=True):
    """A session in the place of a request."""

    session: Session
    dialect: Dialect
    caller: SessionCaller


class ConnectionKey(msgspec.Struct, frozen=True):
    """The name of a private connection, and the properties of the client that its server sees."""

    name: str
    capabilities: bytes = b"{}"
    log_level: str | None = None
    session: Session | None = None
    """The only session that uses it; None where several requests of one principal do."""
    principal: str = ""
    """The kind and the id of its principal."""
    handshake: bool = False
    """Whether the hub uses the handshake era with a server of the stateless era."""
    asks_roots: bool = False
    """Whether its server may ask for the roots of the client at any time."""
    roots: bytes | None = None
    """The roots of all clients that use it; None where a session has it, or the server does not know any."""


Exchange: TypeAlias = SessionExchange[Session, SessionCaller]
"""A request to the hub."""
HC = TypeVar("HC", bound=SessionCaller)
HC_co = TypeVar("HC_co", bound=SessionCaller, covariant=True)
Service: TypeAlias = SessionService[Session, HC]
"""The hub as its transports see it, also with tracing in front of it."""
