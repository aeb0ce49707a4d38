"""The clients that are MCPL hosts themselves, their selected feature sets, and the streams that they opened.

A client with a session is known while the session lasts. A client of the stateless era sends its offer with every
request. Each offer is a host of its own, so that programs with the same key do not speak for each other. The first
request with an offer registers the host, and restores its selection from an earlier run of the hub.
`client_offers.py` says what a client can select from.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Caller
from interlock.hub.live.client_host import ClientHost, Declared
from interlock.hub.live.client_offers import ClientOffers, supported
from interlock.hub.live.client_streams import SEPARATOR, ClientStreams, Notify
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.feature_updates import UPDATE
from interlock.hub.live.features import Features
from interlock.hub.sessions.resumable import ResumableSessions
from interlock.hub.sessions.session import Exchange, Session, SessionCaller
from interlock.protocols.mcp import dialect as mcp_dialect
from interlock.protocols.mcpl import between
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.feature_sets import FeatureSetsUpdate, UpdateReceipt, read_feature_set
from interlock.protocols.mcpl.live import LiveFilter
from interlock.protocols.mcpl.manifests import ManifestChanged, revision_of
from interlock.protocols.mcpl.methods import METHODS, read_params
from interlock.protocols.mcpl.negotiation import McplOffer, McplPlace, answer, read_offer
from interlock.protocols.mcpl.received import receipt, receive
from interlock.transports.live_requests import HostKey, HostRequests
from interlock.wire.errors import Fault

MAX_HOSTS: Final = 1_024
"""Clients of the stateless era that are remembered. Those without a stream are forgotten first."""
MAX_OFFERS: Final = 4
"""Offers of one client of the stateless era that are remembered."""
SETTLE_S: Final = 2.0


class HostListener(Protocol):
    """Is told when a client can take messages of servers."""

    def on_host(self, agent: str) -> None:
        """A client of this agent can take messages of servers now."""


class ClientHosts:
    """All clients that are hosts, and the streams that those of the stateless era opened."""

    def __init__(self, features: Features, connections: LiveConnections, access: Access) -> None:
        self.offers = ClientOffers(features, connections, access)
        self._features = features
        self._connections = connections
        self._hosts: OrderedDict[HostKey, ClientHost] = OrderedDict()
        self._latest: dict[str, str] = {}
        """Of clients of the stateless era: the host that asked last."""
        self._streams = ClientStreams()
        self.requests = HostRequests(self._streams)
        self._tasks = BackgroundTasks()
        self._refreshing = False
        self._listener: HostListener | None = None
        self._keeper: ResumableSessions | None = None

    def keep_with(self, keeper: ResumableSessions) -> None:
        """Keep selections of stateless clients with `keeper` over restarts. Sessions keep their own."""
        self._keeper = keeper

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
        known = self._hosts.get(_key(caller, *found)) if dialect.modern else None
        host = known or self._host(caller.path, caller, *found)
        return {} if host is None else answer(self.offers.manifest(host), host.home)

    def join(self, session: Session) -> None:
        """Register the client of a new session, if it is a host."""
        found = _offer(session.dialect, session.caller)
        host = None if found is None else self._host(session, session.caller, *found)
        if host is not None:
            host.show(self.offers.declared(host))
            host.select(session.selection)
            self._hosts[session] = host
            if host.selection.enabled:  # The session continues one of an earlier run.
                self._count(host.principal.id)
                asyncio.get_running_loop().call_soon(self.on_active, host)

    def leave(self, key: HostKey) -> None:
        """Forget a host: its session is over, or it gave way to another."""
        host = self._hosts.pop(key, None)
        if isinstance(key, str) and self._latest.get(client := _client_of(key)) == key:
            del self._latest[client]
        if host is not None:
            self._count(host.principal.id)

    def of_request(self, exchange: Exchange, caller: Caller) -> ClientHost | None:
        """The host of a request, which this registers; None for a client that is not a host."""
        session = exchange.session
        if session is not None:
            return self._hosts.get(session)
        return self._stateless(exchange.dialect, caller)

    def of_notification(self, session: Session | None, caller: Caller) -> ClientHost | None:
        """The host of a notification, if a request has registered it: a notification has no offer."""
        key = self._latest.get(_client(caller)) if session is None else session
        return None if key is None else self._hosts.get(key)

    # Enabled feature sets

    def update(self, host: ClientHost, params: bytes, *, request: bool) -> UpdateReceipt:
        """Take a client's `featureSets/update`. It narrows what the operator allowed, and cannot widen it."""
        change = read_params(METHODS[UPDATE], params)
        assert isinstance(change, FeatureSetsUpdate)
        host.show(self.offers.declared(host))
        declared = {name: read_feature_set(name, each, host.dialect) for name, each in host.declared.items()}
        host.select(receive(host.selection, declared, change, host.dialect, request=request))
        if not isinstance(host.key, str):
            host.key.selects(host.selection)
        elif self._keeper is not None:
            self._keeper.keep_selection(host.key, host.selection)
        self._count(host.principal.id)
        self.on_active(host)
        return receipt(host.selection, declared)

    @property
    def agents(self) -> list[str]:
        """The agents that have clients that are hosts."""
        return sorted({host.principal.id for host in self._hosts.values()})

    def for_agent(self, agent: str) -> Iterator[ClientHost]:
        """The clients of an agent that are hosts, the newest first."""
        for host in reversed(list(self._hosts.values())):
            if host.principal.id == agent and host.selection.ready:
                yield host

    def of_connection(self, live: LiveConnection) -> Iterator[ClientHost]:
        """The clients that a connection to a server may be for, the newest first."""
        for host in reversed(list(self._hosts.values())):
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
        if self._hosts and not self._refreshing:
            self._refreshing = True
            self._tasks.begin(self._refresh(), None)

    async def close(self) -> None:
        """End everything under way."""
        await self._tasks.close()

    # Streams of the stateless era

    def granted(self, caller: Caller, dialect: mcp_dialect.Dialect, wanted: LiveFilter | None) -> LiveFilter | None:
        """The granted filter of a stream for servers' messages; None for a client that is not a host."""
        if wanted is None:
            return None
        if self._stateless(dialect, caller) is None:
            return None
        self._streams.check_quota(_client(caller))
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
            host.speak(between.spoken_with(offer, [each for _, each in self.offers.sets(host)]))
        except Fault:
            return None  # The feature sets cannot be read, so the client gets plain MCP.
        return host

    def _stateless(self, dialect: mcp_dialect.Dialect, caller: Caller) -> ClientHost | None:
        """The host of a stateless request, which this registers; None for a request without an offer."""
        found = _offer(dialect, caller)
        if found is None:
            return None
        key = _key(caller, *found)
        host = self._hosts.get(key) or self._host(key, caller, *found)
        if host is not None:
            if key not in self._hosts:
                host.show(self.offers.declared(host))
                self._remember(host, _client(caller))
            self._latest[_client(caller)] = key
        return host

    def _remember(self, host: ClientHost, client: str) -> None:
        known = [key for key in self._hosts if isinstance(key, str)]
        mine = [key for key in known if _client_of(key) == client]
        if len(mine) >= MAX_OFFERS:
            self._forget_one(mine, f"this client made {MAX_OFFERS} offers of MCPL")
        elif len(known) >= MAX_HOSTS:
            self._forget_one(known, f"{MAX_HOSTS} clients are hosts")
        if self._keeper is not None:
            host.select(self._keeper.take_selection(str(host.key)))
            if host.selection.enabled:
                self._keeper.keep_selection(str(host.key), host.selection)
        self._hosts[host.key] = host
        if host.selection.enabled:
            self._count(host.principal.id)

    def _forget_one(self, keys: list[str], problem: str) -> None:
        """Forget the oldest of these hosts without an open stream. Raises RESOURCE_EXHAUSTED if all have one."""
        gone = next((key for key in keys if key not in self._streams), None)
        if gone is None:
            raise Fault("RESOURCE_EXHAUSTED", problem, retry_after_ms=5000)
        self.leave(gone)
        if self._keeper is not None:
            self._keeper.forget_selection(gone)

    async def _refresh(self) -> None:
        # Changes that come together are told together.
        await asyncio.sleep(0)
        self._refreshing = False
        for host in list(self._hosts.values()):
            before = host.show(self.offers.declared(host))
            if before != host.declared:
                self._tell(host, before)
            await asyncio.sleep(0)

    def _tell(self, host: ClientHost, before: Declared) -> None:
        if host.dialect is McplDialect.V0_5:
            notice = ManifestChanged(revision_of(self.offers.manifest(host)), ("capabilities", "featureSets"))
            self.requests.tell(host.key, "mcpl/manifestChanged", msgspec.json.encode(notice))
            return
        added = {name: value for name, value in host.declared.items() if before.get(name) != value}
        removed = [name for name in before if name not in host.declared]
        change = msgspec.json.encode({"added": added, "removed": removed})
        self.requests.tell(host.key, "featureSets/changed", change)

    def _count(self, agent: str) -> None:
        """Recompute the capabilities that the clients of an agent offer together."""
        hosts = [host for host in self._hosts.values() if host.principal.id == agent and host.selection.enabled]
        self._features.host(agent, frozenset[str]().union(*(supported(host.offer) for host in hosts)))


def _offer(dialect: mcp_dialect.Dialect, caller: SessionCaller) -> tuple[McplOffer, McplPlace] | None:
    """A client's offer and its place; None without an offer, or if it cannot be read."""
    if not dialect.capabilities.live or caller.principal.kind not in ("agent", "service"):
        return None
    try:
        return read_offer(dialect.capabilities.raw)
    except Fault:
        return None


def _client(caller: Caller) -> str:
    """The key of a stateless client, without its offer."""
    return f"{caller.owner}{SEPARATOR}{caller.path}"


def _key(caller: Caller, offer: McplOffer, home: McplPlace) -> str:
    """The key of a host: its client, and the offer that it made."""
    identity = msgspec.json.encode((home.value, offer.manifest), order="sorted")
    return f"{_client(caller)}{SEPARATOR}{hashlib.sha256(identity).hexdigest()[:32]}"


def _client_of(key: str) -> str:
    return key.rpartition(SEPARATOR)[0]
