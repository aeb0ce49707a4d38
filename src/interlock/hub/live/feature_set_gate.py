"""A base class for gates on tools that belong to a feature set of MCPL, and the function that finds the set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Verdict
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import Target
from interlock.protocols.mcpl.feature_sets import TOOL_FEATURE_SET
from interlock.wire.names import may_spell


class FeatureSetGate(ABC):
    """Judges each call of a tool with a feature set, and passes all other calls."""

    def __init__(self, servers: Callable[[], Mapping[str, ServerSettings]]) -> None:
        self._servers = servers

    @abstractmethod
    def judge(self, target: Target, feature: str, call: Call) -> Verdict:
        """The verdict on one call."""

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Pass. `judge` decides about each call."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """Judge calls of tools that belong to a feature set."""
        feature = feature_of(target, self._servers().get(target.server))
        return None if feature is None else partial(self.judge, target, feature)


def feature_of(target: Target, settings: ServerSettings | None) -> str | None:
    """The feature set of a tool: the operator's setting, or else the server's declaration."""
    if target.tool is None:
        return None
    named = None if settings is None else settings.tools.feature_sets.get(target.name)
    return named or _declared(target.tool)


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
