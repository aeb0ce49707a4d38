"""The shape of a gate on calls of tools that belong to a feature set of MCPL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Verdict
from interlock.hub.catalog.target import Target
from interlock.hub.live.scopes import ScopeGate


class FeatureSetGate(ABC):
    """Judges each call of such a tool, and passes every other call."""

    def __init__(self, scopes: ScopeGate) -> None:
        self._scopes = scopes

    @abstractmethod
    def judge(self, target: Target, feature: str, call: Call) -> Verdict:
        """The verdict on one call."""

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Pass: each call is judged by itself."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """Judge calls of tools that belong to a feature set."""
        feature = self._scopes.feature_of(target)
        return None if feature is None else partial(self.judge, target, feature)
