"""The scope gate for clients that are hosts: it refuses calls outside the scopes that the client set itself.

A client's rules come with its `featureSets/update` (MCPL 0.4, Scoped Access) and can only narrow the operator's. No
person is asked: a client that wants more sends another update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.calls.call import Call
from interlock.hub.calls.verdicts import PASS, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.feature_set_gate import FeatureSetGate
from interlock.protocols.mcpl.scopes import Scope, decide, shown
from interlock.wire.errors import Fault


class ClientScopesGate(FeatureSetGate):
    """Holds a client to its own scopes. The scope gate before it has derived the label."""

    name = "client_scopes"

    def __init__(self, servers: Callable[[], Mapping[str, ServerSettings]], hosts: ClientHosts) -> None:
        super().__init__(servers)
        self._hosts = hosts

    def judge(self, target: Target, feature: str, call: Call) -> Verdict:
        """The verdict by the client's own rules."""
        host = self._hosts.of_request(call.exchange, call.caller) if call.scope else None
        rules = None if host is None else host.scopes(target.server, [feature]).get(feature)
        if rules is None:
            return PASS
        label = msgspec.json.decode(call.scope, type=Scope).label
        decision = decide(rules, label)
        if decision.outcome == "allow":
            return PASS
        hint = "the client set these scopes, and can send another featureSets/update"
        fault = Fault("ACCESS_DENIED", f"{target.name} may not act on {shown(label)}", hint=hint)
        why = decision.why if decision.outcome == "deny" else "not on its whitelist"
        return Refuse(fault, f"scope {feature} of the client: {why}")
