"""The hub's offer to each client that is a host of MCPL, and a server's rights with such a client.

The hub offers a client the feature sets that a person enabled for its agent, under the names of
`protocols.mcpl.merged_features`. A client can only narrow them: a set that it did not select is off for it, and a set
that the operator switches off is off at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.live.client_host import ClientHost, Declared
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.features import Features
from interlock.protocols.mcpl import merged_features, states
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.feature_sets import FeatureSet
from interlock.protocols.mcpl.negotiation import UNSUPPORTED, McplOffer
from interlock.protocols.mcpl.policy import effective
from interlock.wire.errors import Fault


class ClientOffers:
    """The offers to all clients that are hosts."""

    def __init__(self, features: Features, connections: LiveConnections, access: Access) -> None:
        self._features = features
        self._connections = connections
        self._access = access

    def manifest(self, host: ClientHost) -> dict[str, object]:
        """The hub's manifest for a client. It contains only feature sets that a person enabled for its agent."""
        blocking = any(live.state.offer.blocking_after_hook for live in self.connections(host))
        sets = [each for _, each in self.sets(host)]
        return merged_features.client_manifest(
            host.declared or self.declared(host), host.dialect, sets, blocking=blocking
        )

    def declared(self, host: ClientHost) -> Declared:
        """The feature sets of a client now, including enabled ones of disconnected servers."""
        try:
            found: dict[str, Mapping[str, Any]] = dict(
                merged_features.declared(self.sets(host), host.dialect, bare=host.bare)
            )  # fmt: skip
        except Fault:
            return {}
        here = {live.server for live in self._connections.of_agent(host.principal.id)}
        for name, declaration in host.declared.items():
            server, _, feature = (host.server, "", name) if host.server is not None else name.partition(".")
            if server not in here and self._is_on(server, host.principal.id, feature):
                found.setdefault(name, declaration)
        return found

    def sets(self, host: ClientHost) -> list[tuple[str, FeatureSet]]:
        """The feature sets that a person enabled for a client's agent, each with its server."""
        available = self._available(host)
        return [(live.server, live.state.offer.feature_sets[name]) for live, on in available for name in sorted(on)]

    def connections(self, host: ClientHost) -> list[LiveConnection]:
        """The connections to servers that this client may reach now."""
        return [
            live
            for live in self._connections.of_agent(host.principal.id)
            if host.server in (None, live.server) and self._access.reaches(host.principal, live.server)
        ]

    def rights(self, host: ClientHost, live: LiveConnection) -> states.McplConnection:
        """A server's rights with a client: those with its agent, as far as the client selected them."""
        known = host.views.get(live.server)
        basis = (live.state, live.shown_names, host.selection, *self._features.basis(live.server))
        if known is not None and len(known[0]) == len(basis) and all(map(_same, known[0], basis)):
            return known[1]
        offer = live.state.offer
        mine = [name for name in offer.feature_sets if name in live.shown_names and host.selected(live.server, name)]
        policy = self._features.policy(live.server, offer.feature_sets, host.principal.id, only=mine)
        active, scopes = live.state.active, host.scopes(live.server, mine)
        if scopes:
            # A channel must be allowed by the client's own rules and by the operator's. Where the client has none for a
            # feature set, the operator's hold alone.
            scopes = {**active.scopes, **scopes}
            active = active & effective(offer, msgspec.structs.replace(policy, scopes=scopes))
        if host.dialect is McplDialect.V0_5:
            refused = tuple(path for path in offer.paths if not host.selection.grant.allows(path))
            policy = msgspec.structs.replace(policy, denied=(*policy.denied, *refused))
        view = msgspec.structs.replace(live.state, active=active & effective(offer, policy))
        host.views[live.server] = (basis, view)
        return view

    def allows(self, host: ClientHost, live: LiveConnection, path: str, feature: str) -> bool:
        """Whether a server may use a capability with a client by one of its feature sets now."""
        if not self._access.reaches(host.principal, live.server) or not host.can(path):
            return False
        active = self.rights(host, live).active
        return active.enabled(feature) and active.grant.allows(path) and active.declared[feature].covers(path)

    def _is_on(self, server: str, agent: str, feature: str) -> bool:
        try:
            return self._features.enabled(server, agent, feature)
        except Fault:
            return False  # Unreadable entries switch all feature sets of the server off.

    def _available(self, host: ClientHost) -> list[tuple[LiveConnection, frozenset[str]]]:
        """The servers of a client's agent, each with the feature sets that a person enabled for it."""
        found = []
        for live in self.connections(host):
            offer = live.state.offer
            policy = self._features.policy(
                live.server, offer.feature_sets, host.principal.id, supported=supported(host.offer)
            )
            # The server chose the name, and a person may have enabled it only by a pattern.
            found.append((live, live.shown_names.intersection(effective(offer, policy).enabled_sets)))
        return found


def supported(offer: McplOffer) -> frozenset[str]:
    """The capabilities that a client offers and a hub without a model lacks."""
    return frozenset(family for family in UNSUPPORTED if any(_in(path, family) for path in offer.paths))


def _in(path: str, family: str) -> bool:
    return path == family or path.startswith(family + ".")


def _same(one: object, other: object) -> bool:
    return one is other
