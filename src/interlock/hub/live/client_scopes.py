"""The gate for scopes of clients that are hosts: a call outside the scopes that its client set itself is refused.

A client's rules come with its `featureSets/update` (MCPL 0.4, Scoped Access) and can only narrow the operator's. The
hub asks nobody on behalf of the client: one that wants more sends another update.
"""

from __future__ import annotations

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.scopes import ScopeGate
from interlock.protocols.mcpl.scopes import Scope, decide
from interlock.wire.errors import Fault


class ClientScopesGate:
    """Holds a client to its own scopes. The scope gate before it made the label."""

    name = "client_scopes"

    def __init__(self, scopes: ScopeGate, hosts: ClientHosts) -> None:
        self._scopes = scopes
        self._hosts = hosts

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Pass: a client may change its scopes while a plan stands."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """Judge calls of tools that belong to a feature set."""
        feature = self._scopes.feature_of(target)
        if feature is None:
            return None

        def judge(call: Call) -> Verdict:
            # A client's first request after a restart of the hub may be this call.
            host = self._hosts.of(call.exchange, call.caller) if call.scope else None
            rules = None if host is None else host.scopes(target.server, [feature]).get(feature)
            if rules is None:
                return PASS
            label = msgspec.json.decode(call.scope, type=Scope).label
            decision = decide(rules, label)
            if decision.outcome == "allow":
                return PASS
            hint = "the client set these scopes, and can send another featureSets/update"
            fault = Fault("ACCESS_DENIED", f"{target.name} may not act on {label[:200]}", hint=hint)
            why = f"blacklist {decision.pattern}" if decision.outcome == "deny" else "not on its whitelist"
            return Refuse(fault, f"scope {feature} of the client: {why}")

        return judge
