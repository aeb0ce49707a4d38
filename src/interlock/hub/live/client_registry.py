"""The clients that are MCPL hosts themselves: which are known, and what they selected.

A client with a session is known while the session lasts. A client of the stateless era sends its offer with every
request. Each offer is a host of its own, so that programs with the same key do not speak for each other. The first
request with an offer registers the host, and restores its selection from an earlier run of the hub.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from interlock.hub.calls.call import Caller
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.client_offers import supported
from interlock.hub.live.client_streams import SEPARATOR, ClientStreams
from interlock.hub.live.features import Features
from interlock.hub.sessions.resumable import ResumableSessions
from interlock.protocols.mcpl.negotiation import McplOffer, McplPlace
from interlock.protocols.mcpl.server_rights import ServerRights
from interlock.transports.host_requests import HostKey
from interlock.wire.errors import Fault

MAX_HOSTS: Final = 1_024
"""Clients of the stateless era that are remembered. Those without a stream are forgotten first."""
MAX_OFFERS: Final = 4
"""Offers of one client of the stateless era that are remembered."""


class ClientRegistry:
    """All clients that are hosts. Each change also tells `Features` what the clients of an agent offer together."""

    def __init__(self, features: Features, streams: ClientStreams) -> None:
        self._features = features
        self._streams = streams
        self._hosts: OrderedDict[HostKey, ClientHost] = OrderedDict()
        self._latest: dict[str, str] = {}
        """Of clients of the stateless era: the host that asked last."""
        self._keeper: ResumableSessions | None = None

    def keep_with(self, keeper: ResumableSessions) -> None:
        """Keep selections of stateless clients with `keeper` over restarts. Sessions keep their own."""
        self._keeper = keeper

    def find(self, key: HostKey) -> ClientHost | None:
        """The host with a session or a key."""
        return self._hosts.get(key)

    def latest(self, client: str) -> ClientHost | None:
        """The host of a stateless client that asked last."""
        key = self._latest.get(client)
        return None if key is None else self._hosts.get(key)

    def all(self) -> list[ClientHost]:
        """Every host, the oldest first."""
        return list(self._hosts.values())

    def add(self, host: ClientHost) -> None:
        """Register a host."""
        self._hosts[host.key] = host
        if host.selection.enabled:
            self._count(host.principal.id)

    def use(self, host: ClientHost, client: str) -> None:
        """Note a request of a stateless host, which this registers. Raises RESOURCE_EXHAUSTED."""
        key = str(host.key)
        if key not in self._hosts:
            self._make_room(client)
            if self._keeper is not None:
                host.select(self._keeper.take_selection(key))
                if host.selection.enabled:
                    self._keeper.keep_selection(key, host.selection)
            self.add(host)
        self._latest[client] = key

    def select(self, host: ClientHost, selection: ServerRights) -> None:
        """A host selects feature sets. The selection outlives a restart of the hub."""
        host.select(selection)
        if not isinstance(host.key, str):
            host.key.selects(selection)
        elif self._keeper is not None:
            self._keeper.keep_selection(host.key, selection)
        self._count(host.principal.id)

    def remove(self, key: HostKey) -> None:
        """Forget a host: its session is over, or it gave way to another."""
        host = self._hosts.pop(key, None)
        if isinstance(key, str) and self._latest.get(client := _client_of(key)) == key:
            del self._latest[client]
        if host is not None:
            self._count(host.principal.id)

    def _make_room(self, client: str) -> None:
        known = [key for key in self._hosts if isinstance(key, str)]
        mine = [key for key in known if _client_of(key) == client]
        if len(mine) >= MAX_OFFERS:
            self._forget_one(mine, f"this client made {MAX_OFFERS} offers of MCPL")
        elif len(known) >= MAX_HOSTS:
            self._forget_one(known, f"{MAX_HOSTS} clients are hosts")

    def _forget_one(self, keys: list[str], problem: str) -> None:
        """Forget the oldest of these hosts without an open stream. Raises RESOURCE_EXHAUSTED if all have one."""
        gone = next((key for key in keys if key not in self._streams), None)
        if gone is None:
            raise Fault("RESOURCE_EXHAUSTED", problem, retry_after_ms=5000)
        self.remove(gone)
        if self._keeper is not None:
            self._keeper.forget_selection(gone)

    def _count(self, agent: str) -> None:
        """Recompute the capabilities that the clients of an agent offer together."""
        hosts = [host for host in self._hosts.values() if host.principal.id == agent and host.selection.enabled]
        self._features.host(agent, frozenset[str]().union(*(supported(host.offer) for host in hosts)))


def client_key(caller: Caller) -> str:
    """The key of a stateless client, without its offer."""
    return f"{caller.principal_name}{SEPARATOR}{caller.path}"


def host_key(caller: Caller, offer: McplOffer, home: McplPlace) -> str:
    """The key of a stateless host: its client, and the offer that it made."""
    identity = msgspec.json.encode((home.value, offer.manifest), order="sorted")
    return f"{client_key(caller)}{SEPARATOR}{hashlib.sha256(identity).hexdigest()[:32]}"


def _client_of(key: str) -> str:
    return key.rpartition(SEPARATOR)[0]
