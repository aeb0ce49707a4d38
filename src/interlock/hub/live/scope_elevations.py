"""Elevations (MCPL 0.4, Scoped Access): a server requests a scope, and the operator's rules or a person decide."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from interlock.config.settings import ScopeSettings, ServerSettings
from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.approvals.full_view import full_view
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.journal import Journal
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.features import Features
from interlock.protocols.mcpl.authorization import AuthorizedMessage, admit, judge_scope
from interlock.protocols.mcpl.scopes import ElevateParams, ElevateResult
from interlock.wire.messages import Request

MAX_APPROVED: Final = 1_000
"""Approved scopes that a connection remembers."""


class ScopeElevations:
    """Answers servers that ask for a scope. It is the handler of `scope/elevate`."""

    def __init__(
        self,
        inbox: Inbox,
        features: Features,
        hold_s: Callable[[str], float],
        settings: Callable[[], Mapping[str, ServerSettings]],
        journal: Journal,
    ) -> None:
        self._inbox = inbox
        self._features = features
        self._hold_s = hold_s
        self._settings = settings
        self._journal = journal

    async def serve(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage) -> ElevateResult:
        """Answer a request for a scope, and record the answer."""
        elevation = arrival.params
        assert isinstance(elevation, ElevateParams)
        result = await self.elevate(live, elevation)
        admit(live.state, request.method, request.params)  # The grant may have been revoked meanwhile.
        self._journal.live_scope(live.server, elevation.feature_set, elevation.scope.label, approved=result.approved)
        return result

    async def elevate(self, live: LiveConnection, elevation: ElevateParams) -> ElevateResult:
        """Approve or refuse a scope: by the rules, by an earlier approval on this connection, or by a person."""
        feature, scope = elevation.feature_set, elevation.scope
        label, decision = judge_scope(live.state, feature, scope.payload, scope.label)
        if decision.outcome == "deny":
            return ElevateResult(False, reason=decision.why)
        settings = self._settings().get(live.server)
        given = enriched(scope.payload, label, None if settings is None else settings.scopes.get(feature))
        payload = msgspec.json.encode(given)
        # An approval ends with the grant under which it was given. After the set is enabled again, a person is asked.
        grant = self._features.enabled_by(live.server, feature)
        key = (f"{feature}\x1f{grant}", label, hashlib.sha256(payload).hexdigest())
        if decision.outcome == "allow" or key in live.approved:
            return ElevateResult(True, given)
        answer = await self._ask(live, feature, label, payload, grant)
        if not answer.approved:
            return answer
        if len(live.approved) >= MAX_APPROVED:
            live.approved.clear()
        live.approved.add(key)
        return ElevateResult(True, given)

    async def _ask(self, live: LiveConnection, feature: str, label: str, payload: bytes, grant: str) -> ElevateResult:
        request = ApprovalRequest(
            kind="scope",
            asker=live.server,
            asker_kind="server",
            server=live.server,
            name="",
            shown=f"{live.server} {feature}",
            text=f"{live.server} asks to act on {label[:300]} (feature set {feature}).",
            rule=f"scope {feature}: not on its whitelist",
            fingerprint=hashlib.sha256(f"{feature}\x1f{label}\x1f{grant}".encode()).hexdigest(),
            arguments_hash=hashlib.sha256(payload).hexdigest(),
            summary=payload[:2000].decode("utf-8", "replace"),
        )
        # A person approves the whole payload, so it must be shown in full.
        view = await full_view({"featureSet": feature, "label": label, "payload": msgspec.json.decode(payload)})
        if not view:
            return ElevateResult(False, reason="the payload is too large to be shown to a person")
        hold_s = self._hold_s(live.server)
        decision = await self._inbox.ask(request, hold_s + 1.0, view)
        if decision.state is DecisionState.OPEN:
            decision = await self._inbox.settled(decision.id, hold_s)
        if decision.state in (DecisionState.APPROVED, DecisionState.USED):
            return ElevateResult(True)
        if decision.state is DecisionState.OPEN:
            return ElevateResult(False, reason=f"a person was asked (approval {decision.id}); ask again later")
        return ElevateResult(False, reason=decision.reason or "a person said no")


def enriched(payload: Mapping[str, object], label: str, rules: ScopeSettings | None) -> dict[str, object]:
    """A payload with the operator's members for its label (MCPL 0.4, Response: payloads may be enriched)."""
    return {**payload, **({} if rules is None else rules.payload.get(label, {}))}
