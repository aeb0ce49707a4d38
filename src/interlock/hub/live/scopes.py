"""Scopes (MCPL 0.4, Scoped Access): tools of a feature set are called only where it is on, and in allowed scopes.

The hub derives a scope's label from the arguments and decides before the call leaves. A person decides on
labels that neither list names. `scope/elevate` of a server is judged by the same rules and the same people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.config.settings import Scopes, Server
from interlock.hub.approvals.decision import Question
from interlock.hub.approvals.full_view import full_view
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Ask, Refuse, Verdict
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import Target
from interlock.hub.live.features import Features
from interlock.protocols.mcpl.authorization import judge_scope
from interlock.protocols.mcpl.errors import feature_set_disabled
from interlock.protocols.mcpl.feature_sets import TOOL_FEATURE_SET, ScopeRules
from interlock.protocols.mcpl.scopes import Elevate, ElevateResult, Scope, ScopeDecision, decide, derive_label
from interlock.wire.errors import Fault
from interlock.wire.names import may_spell

if TYPE_CHECKING:
    from interlock.hub.live.connection import LiveConnection
    from interlock.hub.live.connections import LiveConnections

MAX_APPROVED: Final = 1_000
"""Approved scopes that a connection remembers."""


class ScopeGate:
    """Refuses tools whose feature set is off for the caller, and asks where a scope is not allowed yet."""

    name = "scopes"

    def __init__(
        self, connections: LiveConnections, features: Features, settings: Callable[[], Mapping[str, Server]]
    ) -> None:
        self._connections = connections
        self._features = features
        self._settings = settings

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Pass: feature sets may change while a plan stands, so the check decides."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """Judge calls of a tool that belongs to a feature set, by what is on at that moment.

        The operator's scopes hold also where the server no longer offers, or declares, the feature set.
        """
        feature = self.feature_of(target)
        settings = self._settings().get(target.server)
        scopes = {} if settings is None or target.tool is None else settings.scopes
        if feature is None and not scopes:
            return None

        def judge(call: Call) -> Verdict:
            live = self._connections.of(target.server)
            if feature is None:
                return _undeclared(live, scopes, call)
            if live is None:  # the server speaks plain MCP
                return PASS if feature not in scopes else _by_rules(feature, scopes[feature], call)
            return self._off(live, feature, call) or _judged(live, feature, scopes.get(feature), call)

        return judge

    def _off(self, live: LiveConnection, feature: str, call: Call) -> Refuse | None:
        """The refusal of a call whose feature set is off for its caller. A person who calls has decided already."""
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

    def feature_of(self, target: Target) -> str | None:
        """The feature set of a tool: as the operator says, or else as the server declares."""
        if target.tool is None:
            return None
        settings = self._settings().get(target.server)
        named = None if settings is None else settings.tools.feature_sets.get(target.name)
        return named or _declared(target.tool)


def _judged(live: LiveConnection, feature: str, rules: Scopes | None, call: Call) -> Verdict:
    """The verdict on the scope of a call. Raises where the arguments give no label."""
    declared = live.state.offer.feature_sets.get(feature)
    if declared is None or not declared.scoped or not live.state.active.enabled(feature):
        return PASS if rules is None else _by_rules(feature, rules, call)
    arguments = _arguments(call)
    label, decision = judge_scope(live.state, feature, arguments, None)
    if decision.outcome == "deny":
        return _denied(feature, label, decision, call)
    # The server is told this scope, never one that a client wrote.
    call.scope = msgspec.json.encode(Scope(label, _enriched(arguments, label, rules)))
    return PASS if decision.outcome == "allow" else _ask(feature, label, call)


def _by_rules(feature: str, rules: Scopes, call: Call) -> Verdict:
    """The verdict of the operator's own rules, whatever the server says. Raises where the arguments give no label."""
    if rules.label is None:
        hint = f"set `label` in [servers.{call.target.server}.scopes.{feature!r}]"
        fault = Fault("ACCESS_DENIED", f"the server no longer says what {call.target.name} acts on", hint=hint)
        return Refuse(fault, f"scope {feature}: no label")
    label = derive_label(rules.label, _arguments(call))
    decision = decide(ScopeRules(rules.whitelist, rules.blacklist), label)
    if decision.outcome == "deny":
        return _denied(feature, label, decision, call)
    return PASS if decision.outcome == "allow" else _ask(feature, label, call)


def _undeclared(live: LiveConnection | None, scopes: Mapping[str, Scopes], call: Call) -> Verdict:
    """The verdict on a tool without a feature set, of a server whose feature sets have scopes.

    A server that withdraws a set withdraws its tools' declarations too. So the rules of a set that is not offered hold
    for every tool whose arguments give a label.
    """
    offered = {} if live is None else live.state.offer.feature_sets
    for feature, rules in scopes.items():
        if feature in offered or rules.label is None:
            continue
        try:
            label = derive_label(rules.label, _arguments(call))
        except Fault:
            continue
        decision = decide(ScopeRules(rules.whitelist, rules.blacklist), label)
        if decision.outcome == "deny":
            return _denied(feature, label, decision, call)
        if decision.outcome == "ask":
            return _ask(feature, label, call)
    return PASS


def _enriched(payload: Mapping[str, object], label: str, rules: Scopes | None) -> dict[str, object]:
    """A payload with the operator's members for its label (MCPL 0.4, Response: payloads may be enriched)."""
    return {**payload, **({} if rules is None else rules.payload.get(label, {}))}


def _arguments(call: Call) -> Mapping[str, object]:
    return call.arguments if isinstance(call.arguments, Mapping) else {}


def _denied(feature: str, label: str, decision: ScopeDecision, call: Call) -> Refuse:
    fault = Fault("ACCESS_DENIED", f"{call.target.name} may not act on {label[:200]}")
    return Refuse(fault, f"scope {feature}: blacklist {decision.pattern}")


def _ask(feature: str, label: str, call: Call) -> Ask:
    question = f"{call.target.name} would act on {label[:200]}, which the scopes of {feature} do not name."
    return Ask(question, f"scope {feature}: not on its whitelist")


class Elevations:
    """Answers servers that ask for a scope."""

    def __init__(self, inbox: Inbox, hold_s: Callable[[], float], settings: Callable[[], Mapping[str, Server]]) -> None:
        self._inbox = inbox
        self._hold_s = hold_s
        self._settings = settings

    async def elevate(self, live: LiveConnection, asked: Elevate) -> ElevateResult:
        """Approve or refuse a scope: by the rules, by what was approved on this connection, or by a person."""
        feature, scope = asked.feature_set, asked.scope
        label, decision = judge_scope(live.state, feature, scope.payload, scope.label)
        if decision.outcome == "deny":
            return ElevateResult(False, reason=f"the blacklist has {decision.pattern}")
        settings = self._settings().get(live.server)
        given = _enriched(scope.payload, label, None if settings is None else settings.scopes.get(feature))
        payload = msgspec.json.encode(given)
        key = (feature, label, hashlib.sha256(payload).hexdigest())
        if decision.outcome == "allow" or key in live.approved:
            return ElevateResult(True, given)
        answer = await self._ask(live, feature, label, payload)
        if not answer.approved:
            return answer
        if len(live.approved) >= MAX_APPROVED:
            live.approved.clear()
        live.approved.add(key)
        return ElevateResult(True, given)

    async def _ask(self, live: LiveConnection, feature: str, label: str, payload: bytes) -> ElevateResult:
        question = Question(
            kind="scope",
            asker=live.server,
            asker_kind="server",
            server=live.server,
            name="",
            shown=f"{live.server} {feature}",
            text=f"{live.server} asks to act on {label[:300]} (feature set {feature}).",
            rule=f"scope {feature}: not on its whitelist",
            fingerprint=hashlib.sha256(f"{feature}\x1f{label}".encode()).hexdigest(),
            arguments_hash=hashlib.sha256(payload).hexdigest(),
            summary=payload[:2000].decode("utf-8", "replace"),
        )
        # The whole payload is what a person approves.
        view = await full_view({"featureSet": feature, "label": label, "payload": msgspec.json.decode(payload)})
        if not view:
            return ElevateResult(False, reason="the payload is too large to be shown to a person")
        decision = await self._inbox.ask(question, self._hold_s() + 1.0, view)
        if decision.state is DecisionState.OPEN:
            decision = await self._inbox.settled(decision.id, self._hold_s())
        if decision.state in (DecisionState.APPROVED, DecisionState.USED):
            return ElevateResult(True)
        if decision.state is DecisionState.OPEN:
            return ElevateResult(False, reason=f"a person was asked (approval {decision.id}); ask again later")
        return ElevateResult(False, reason=decision.reason or "a person said no")


def _declared(tool: Tool) -> str | None:
    if not may_spell(tool.definition, TOOL_FEATURE_SET.encode()):
        return None
    try:
        return msgspec.json.decode(tool.definition, type=_Definition).meta.feature_set
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class _Meta(msgspec.Struct):
    feature_set: str | None = msgspec.field(default=None, name=TOOL_FEATURE_SET)


class _Definition(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
