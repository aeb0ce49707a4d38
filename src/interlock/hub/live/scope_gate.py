"""Scopes (MCPL 0.4, Scoped Access): a tool is called only while its feature set is on, and only in allowed scopes.

The hub derives a scope's label from the arguments and decides before it sends the call. A person decides about labels
that neither list names. `scope_elevations.py` answers a server's `scope/elevate` in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from interlock.config.settings import ScopeSettings, ServerSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Ask, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.feature_set_gate import feature_of
from interlock.hub.live.features import Features
from interlock.hub.live.scope_elevations import enriched
from interlock.protocols.mcpl.authorization import judge_scope
from interlock.protocols.mcpl.errors import feature_set_disabled
from interlock.protocols.mcpl.feature_sets import ScopeRules
from interlock.protocols.mcpl.scopes import AmbiguousArgument, Scope, ScopeDecision, decide, derive_label, shown
from interlock.wire.errors import Fault


class ScopeGate:
    """Refuses tools whose feature set is off for the caller, and asks where a scope is not allowed yet."""

    name = "scopes"

    def __init__(
        self, connections: LiveConnections, features: Features, settings: Callable[[], Mapping[str, ServerSettings]]
    ) -> None:
        self._connections = connections
        self._features = features
        self._settings = settings

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Pass. Feature sets may change while a plan is valid, so the check decides."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """Judge calls of a tool with a feature set, by the feature sets that are on now.

        The operator's scopes also hold after the server withdraws the feature set.
        """
        settings = self._settings().get(target.server)
        feature = feature_of(target, settings)
        scopes = {} if settings is None or target.tool is None else settings.scopes
        if feature is None and not scopes:
            return None

        def judge(call: Call) -> Verdict:
            live = self._connections.shared(target.server)
            if feature is None:
                return _undeclared(live, scopes, call)
            if live is None:  # The server speaks plain MCP.
                return PASS if feature not in scopes else _by_rules(feature, scopes[feature], call)
            return self._off(live, feature, call) or _judged(live, feature, scopes.get(feature), call)

        return judge

    def _off(self, live: LiveConnection, feature: str, call: Call) -> Refuse | None:
        """The refusal of a call whose feature set is off for its caller; None for a person, who may always call."""
        principal, state = call.caller.principal, live.state
        mine = principal.decides or self._features.enabled(live.server, principal.id, feature)
        if mine and state.on and state.active.enabled(feature):
            return None
        if principal.decides and feature in state.offer.feature_sets:
            return None
        data = feature_set_disabled(feature, state.dialect, can_enable=True).data
        hint = f"a person enables it with `interlock features enable {live.server} {feature} --agent {principal.id}`"
        message = f"{call.target.name} belongs to the feature set {feature}, which is not enabled for {principal.id}"
        return Refuse(Fault("ACCESS_DENIED", message, hint=hint, data=data), f"feature set {feature}: off")


def _judged(live: LiveConnection, feature: str, rules: ScopeSettings | None, call: Call) -> Verdict:
    """The verdict on the scope of a call. Raises a `Fault` if the arguments give no label."""
    declared = live.state.offer.feature_sets.get(feature)
    if declared is None or not declared.scoped or not live.state.active.enabled(feature):
        return PASS if rules is None else _by_rules(feature, rules, call)
    arguments = _arguments(call)
    label, decision = judge_scope(live.state, feature, arguments, None)
    if decision.outcome != "deny":
        # The server gets the derived scope, never one from the client.
        call.give_scope(msgspec.json.encode(Scope(label, enriched(arguments, label, rules))))
    return _verdict(feature, label, decision, call)


def _by_rules(feature: str, rules: ScopeSettings, call: Call) -> Verdict:
    """The verdict of the operator's own rules alone. Raises a `Fault` if the arguments give no label."""
    if rules.label is None:
        hint = f"set `label` in [servers.{call.target.server}.scopes.{feature!r}]"
        fault = Fault("ACCESS_DENIED", f"the server no longer says what {call.target.name} acts on", hint=hint)
        return Refuse(fault, f"scope {feature}: no label")
    label = derive_label(rules.label, _arguments(call))
    return _verdict(feature, label, decide(ScopeRules(rules.whitelist, rules.blacklist), label), call)


def _undeclared(live: LiveConnection | None, scopes: Mapping[str, ScopeSettings], call: Call) -> Verdict:
    """The verdict on a tool without a feature set, of a server whose feature sets have scopes.

    A server that withdraws a set also withdraws its tools' declarations. So the rules of a withdrawn set apply to every
    tool whose arguments give a label.
    """
    offered = {} if live is None else live.state.offer.feature_sets
    for feature, rules in scopes.items():
        if feature in offered or rules.label is None:
            continue
        try:
            verdict = _by_rules(feature, rules, call)
        except AmbiguousArgument:
            raise
        except Fault:
            continue
        if verdict is not PASS:
            return verdict
    return PASS


def _arguments(call: Call) -> Mapping[str, object]:
    return call.arguments if isinstance(call.arguments, Mapping) else {}


def _verdict(feature: str, label: str, decision: ScopeDecision, call: Call) -> Verdict:
    """The verdict on a call that acts on a label."""
    if decision.outcome == "allow":
        return PASS
    if decision.outcome == "deny":
        fault = Fault("ACCESS_DENIED", f"{call.target.name} may not act on {shown(label)}")
        return Refuse(fault, f"scope {feature}: {decision.why}")
    question = f"{call.target.name} would act on {shown(label)}, which the scopes of {feature} do not name."
    return Ask(question, f"scope {feature}: not on its whitelist")
