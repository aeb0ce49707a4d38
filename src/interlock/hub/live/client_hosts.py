"""Clients that are MCPL hosts themselves: they make an offer, select feature sets and open streams for messages.

A request of any era leads to its `ClientHost`. A client without an offer has none, and gets plain MCP.
`client_offers.py` says what a client can select from, `client_registry.py` remembers the clients and their selections,
and `client_notices.py` tells them of changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from interlock.hub.auth.access import Access
from interlock.hub.calls.call import Caller
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.client_notices import ClientNotices
from interlock.hub.live.client_offers import ClientOffers
from interlock.hub.live.client_registry import ClientRegistry, client_key, host_key
from interlock.hub.live.client_streams import ClientStreams, Notify
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.feature_updates import UPDATE
from interlock.hub.live.features import Features
from interlock.hub.sessions.resumable import ResumableSessions
from interlock.hub.sessions.session import Exchange, Session, SessionCaller
from interlock.protocols.mcp import dialect as mcp_dialect
from interlock.protocols.mcpl import merged_features
from interlock.protocols.mcpl.feature_sets import FeatureSetsUpdate, UpdateReceipt, read_feature_set
from interlock.protocols.mcpl.live import LiveFilter
from interlock.protocols.mcpl.methods import METHODS, read_params
from interlock.protocols.mcpl.negotiation import McplOffer, McplPlace, answer, read_offer
from interlock.protocols.mcpl.server_rights import receipt, receive
from interlock.transports.host_requests import HostKey, HostRequests
from interlock.wire.errors import Fault

SETTLE_S: Final = 2.0


class HostListener(Protocol):
    """Is told when a client can take messages of servers."""

    def on_host(self, agent: str) -> None:
        """A client of this agent can take messages of servers now."""


class ClientHosts:
    """All clients that are hosts."""

    def __init__(self, features: Features, connections: LiveConnections, access: Access) -> None:
        self.offers = ClientOffers(features, connections, access)
        self._connections = connections
        self._streams = ClientStreams()
        self.requests = HostRequests(self._streams)
        self._registry = ClientRegistry(features, self._streams)
        self._notices = ClientNotices(self._registry, self.offers, self.requests)
        self._listener: HostListener | None = None

    def keep_with(self, keeper: ResumableSessions) -> None:
        """Keep selections of stateless clients with `keeper` over restarts. Sessions keep their own."""
        self._registry.keep_with(keeper)

    def follow_with(self, listener: HostListener) -> None:
        """Report clients that can take messages to a listener of a higher layer."""
        self._listener = listener

    def on_active(self, host: ClientHost) -> None:
        """A client selected something, or opened a stream, or is about to infer."""
        if self._listener is not None and host.selection.enabled:
            self._listener.on_host(host.principal.id)

    # Negotiation

    def offered(self, dialect: mcp_dialect.Dialect, caller: Caller) -> dict[str, object]:
        """The capabilities that answer a client's offer; none for a client without an offer."""
        found = _offer(dialect, caller)
        if found is None:
            return {}
        known = self._registry.find(host_key(caller, *found)) if dialect.modern else None
        host = known or self._host(caller.path, caller, *found)
        return {} if host is None else answer(self.offers.manifest(host), host.home)

    def join(self, session: Session) -> None:
        """Register the client of a new session, if it is a host."""
        found = _offer(session.dialect, session.caller)
        host = None if found is None else self._host(session, session.caller, *found)
        if host is not None:
            host.show(self.offers.declared(host))
            host.select(session.selection)
            self._registry.add(host)
            if host.selection.enabled:  # The session continues one of an earlier run.
                asyncio.get_running_loop().call_soon(self.on_active, host)

    def leave(self, key: HostKey) -> None:
        """Forget a host: its session is over, or it gave way to another."""
        self._registry.remove(key)

    def of_request(self, exchange: Exchange, caller: Caller) -> ClientHost | None:
        """The host of a request, which this registers; None for a client that is not a host."""
        session = exchange.session
        if session is not None:
            return self._registry.find(session)
        return self._stateless(exchange.dialect, caller)

    def of_notification(self, session: Session | None, caller: Caller) -> ClientHost | None:
        """The host of a notification, if a request has registered it: a notification has no offer."""
        return self._registry.latest(client_key(caller)) if session is None else self._registry.find(session)

    # Enabled feature sets

    def update(self, host: ClientHost, params: bytes, *, request: bool) -> UpdateReceipt:
        """Take a client's `featureSets/update`. It narrows what the operator allowed, and cannot widen it."""
        change = read_params(METHODS[UPDATE], params)
        assert isinstance(change, FeatureSetsUpdate)
        host.show(self.offers.declared(host))
        declared = {name: read_feature_set(name, each, host.dialect) for name, each in host.declared.items()}
        self._registry.select(host, receive(host.selection, declared, change, host.dialect, request=request))
        self.on_active(host)
        return receipt(host.selection, declared)

    @property
    def agents(self) -> list[str]:
        """The agents that have clients that are hosts."""
        return sorted({host.principal.id for host in self._registry.all()})

    def for_agent(self, agent: str) -> Iterator[ClientHost]:
        """The clients of an agent that are hosts, the newest first."""
        for host in reversed(self._registry.all()):
            if host.principal.id == agent and host.selection.ready:
                yield host

    def of_connection(self, live: LiveConnection) -> Iterator[ClientHost]:
        """The clients that a connection to a server may be for, the newest first."""
        for host in reversed(self._registry.all()):
            if host.selection.ready and live.agent in (None, host.principal.id):
                yield host

    def reachable(self, host: ClientHost, method: str, feature: str | None = None) -> bool:
        """Whether a client seems to listen for a message of servers."""
        if isinstance(host.key, str):
            return self._streams.listens(host.key, method, feature)
        return not host.key.over and host.key.channel.open_streams > 0

    async def settled(self, host: ClientHost) -> None:
        """Wait a limited time until all servers of a client were told which feature sets are on."""
        behind = [live.server for live in self.offers.connections(host) if len(live.updates)]
        await asyncio.gather(*(self._connections.settled(server, SETTLE_S) for server in behind))

    def refresh(self) -> None:
        """Tell clients whose feature sets have changed."""
        self._notices.refresh()

    async def close(self) -> None:
        """End everything under way."""
        await self._notices.close()

    # Streams of the stateless era

    def granted(self, caller: Caller, dialect: mcp_dialect.Dialect, wanted: LiveFilter | None) -> LiveFilter | None:
        """The granted filter of a stream for servers' messages; None for a client that is not a host."""
        if wanted is None:
            return None
        if self._stateless(dialect, caller) is None:
            return None
        self._streams.check_quota(client_key(caller))
        return wanted

    def open_stream(
        self, stream: object, caller: Caller, dialect: mcp_dialect.Dialect, wanted: LiveFilter, notify: Notify
    ) -> None:
        """Send servers' messages on a stream that was acknowledged."""
        host = self._stateless(dialect, caller)
        if host is not None:
            self._streams.open(str(host.key), stream, wanted, notify)
            self.on_active(host)

    def close_stream(self, stream: object) -> None:
        """A stream is over."""
        self._streams.close(stream)
        self.requests.on_stream_closed(stream)

    def _host(self, key: Session | str, caller: SessionCaller, offer: McplOffer, home: McplPlace) -> ClientHost | None:
        host = ClientHost(key, caller, offer, home, offer.dialect)
        try:
            host.speak(merged_features.spoken_with(offer, [each for _, each in self.offers.sets(host)]))
        except Fault:
            return None  # The feature sets cannot be read, so the client gets plain MCP.
        return host

    def _stateless(self, dialect: mcp_dialect.Dialect, caller: Caller) -> ClientHost | None:
        """The host of a stateless request, which this registers; None for a request without an offer."""
        found = _offer(dialect, caller)
        if found is None:
            return None
        key = host_key(caller, *found)
        host = self._registry.find(key)
        if host is None:
            host = self._host(key, caller, *found)
            if host is None:
                return None
            host.show(self.offers.declared(host))
        self._registry.use(host, client_key(caller))
        return host


def _offer(dialect: mcp_dialect.Dialect, caller: SessionCaller) -> tuple[McplOffer, McplPlace] | None:
    """A client's offer and its place; None without an offer, or if it cannot be read."""
    if not dialect.capabilities.live or caller.principal.kind not in ("agent", "service"):
        return None
    try:
        return read_offer(dialect.capabilities.raw)
    except Fault:
        return None
