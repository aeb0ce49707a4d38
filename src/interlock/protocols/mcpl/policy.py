"""The host's policy for one server, and the grant and feature sets that result from it.

The policy decides, and the server's declarations only narrow it. A path is granted if the server offers it, the policy
does not deny it, and an enabled feature set or the policy itself asks for it. `EXPLICIT` paths must be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from interlock.protocols.mcpl.capabilities import CHANNELS_STREAMING, EXPLICIT, TOOLS, McplDialect
from interlock.protocols.mcpl.feature_sets import FeatureSet, FeatureSetsUpdate, ScopeRules
from interlock.protocols.mcpl.grants import NO_GRANT, THINKING, CapabilityGrant, ChannelRules, compile_rules
from interlock.protocols.mcpl.negotiation import McplOffer
from interlock.protocols.patterns import (
    FEATURE_SETS,
    PatternError,
    PatternSet,
    compile_capability_path,
    compile_pattern,
)

THINKING_SET: Final = "channels.thinking"

Reason = Literal["", "not_selected", "disabled", "missing_capability", "invalid_uses", "invalid"]


class HostPolicy(msgspec.Struct, frozen=True):
    """The operator's decisions about one server. The empty policy grants nothing."""

    enabled: tuple[str, ...] = ()
    """Patterns of feature sets that are on. Each set brings the capabilities that it needs."""
    disabled: tuple[str, ...] = ()
    """Patterns of feature sets that are off. It overrides `enabled`."""
    granted: tuple[str, ...] = ()
    """Capability paths that are granted without a feature set. Only here can an `EXPLICIT` path be granted, in full."""
    denied: tuple[str, ...] = ()
    """Capability paths that are never granted, including all paths below them."""
    scopes: Mapping[str, ScopeRules] = {}
    """Rules for scope labels and channels, by feature-set pattern."""
    channels: Mapping[str, ScopeRules] = {}
    """Rules for channels, by capability path."""
    scope_labels: Mapping[str, str] = {}
    """Templates of scope labels, by feature set. Each replaces the server's own."""

    def __post_init__(self) -> None:
        """Refuse a policy with a pattern that cannot be used. Raises PatternError."""
        for pattern in (*self.enabled, *self.disabled, *self.denied, *self.scopes):
            compile_pattern(pattern, FEATURE_SETS)
        for path in (*self.granted, *self.channels):
            compile_capability_path(path)
        for rules in (*self.scopes.values(), *self.channels.values()):
            PatternSet(rules.whitelist, rules.blacklist)


class SetState(msgspec.Struct, frozen=True):
    """Whether a declared feature set is on, and why not."""

    enabled: bool
    reason: Reason = ""
    missing: tuple[str, ...] = ()


class EffectivePolicy(msgspec.Struct, frozen=True):
    """The effect of a policy for one server."""

    grant: CapabilityGrant = NO_GRANT
    declared: Mapping[str, FeatureSet] = {}
    states: Mapping[str, SetState] = {}
    scopes: Mapping[str, ScopeRules] = {}
    """Rules by the name of an enabled feature set."""
    scope_labels: Mapping[str, str] = {}
    """Templates of scope labels by the name of an enabled feature set, the operator's before the server's."""

    def enabled(self, name: str) -> bool:
        """Whether a feature set is on."""
        state = self.states.get(name)
        return state is not None and state.enabled

    @property
    def enabled_sets(self) -> tuple[str, ...]:
        """The feature sets that are on, sorted."""
        return tuple(sorted(name for name, state in self.states.items() if state.enabled))

    def can_enable(self, name: str) -> bool:
        """Whether the operator could switch a set on (0.4, `canEnable`): it is valid, and no rule disables it."""
        state = self.states.get(name)
        return state is not None and state.reason in ("", "not_selected")

    def __and__(self, other: EffectivePolicy) -> EffectivePolicy:
        """The intersection of two policies' effects."""
        states = {
            name: SetState(False, "disabled") if state.enabled and not self._stands(name, other) else state
            for name, state in other.states.items()
        }
        return EffectivePolicy(self.grant & other.grant, other.declared, states, other.scopes, other.scope_labels)

    def _stands(self, name: str, other: EffectivePolicy) -> bool:
        return self.enabled(name) and self.declared.get(name) == other.declared.get(name)


NOTHING: Final = EffectivePolicy()


def effective(offer: McplOffer, policy: HostPolicy) -> EffectivePolicy:
    """The grant and the feature sets for an offer under a policy."""
    offered = offer.paths | {TOOLS}
    named = {path for path in policy.granted if "*" not in path}
    permitted = {path for path in offered if not _denied(path, policy) and (path not in EXPLICIT or path in named)}
    states = {name: _state(declared, policy, permitted) for name, declared in offer.feature_sets.items()}
    on = [offer.feature_sets[name] for name, state in states.items() if state.enabled]
    wildcards = [compile_capability_path(path) for path in policy.granted]
    outright = {path for path in permitted if any(entry.matches(path) for entry in wildcards)}
    used = frozenset[str]().union(*(found.needs | found.may for found in on))
    scopes = {found.name: rules for found in on if (rules := _rules(found.name, policy)) is not None}
    grant = CapabilityGrant(
        frozenset((used & permitted) | outright),
        _channel_rules(on, outright, scopes, policy),
        _sees_thinking(states, policy),
    )
    templates = {found.name: policy.scope_labels.get(found.name, found.scope_label) for found in on}
    labels = {name: template for name, template in templates.items() if template is not None}
    return EffectivePolicy(grant, offer.feature_sets, states, scopes, labels)


def update_message(active: EffectivePolicy, dialect: McplDialect, offered: Iterable[str]) -> FeatureSetsUpdate:
    """The params of `featureSets/update` for a server."""
    disabled = tuple(sorted(name for name, state in active.states.items() if not state.enabled))
    if dialect is McplDialect.V0_4:
        return FeatureSetsUpdate(enabled=active.enabled_sets, disabled=disabled, scopes=dict(active.scopes))
    return FeatureSetsUpdate(
        effective_capabilities=tuple(sorted(active.grant.paths)),
        denied_capabilities=tuple(sorted(set(offered) - active.grant.paths)),
        enabled=active.enabled_sets,
        disabled=disabled,
    )


def names(patterns: Iterable[str], name: str, *, unusable: bool = False) -> bool:
    """Whether one of these patterns names a feature set. `unusable`: the result for an invalid pattern."""
    for pattern in patterns:
        try:
            if compile_pattern(pattern, FEATURE_SETS).matches(name):
                return True
        except PatternError:
            if unusable:
                return True
    return False


def _state(declared: FeatureSet, policy: HostPolicy, permitted: set[str]) -> SetState:
    if declared.problem:
        return SetState(False, "invalid_uses" if declared.problem == "invalid_uses" else "invalid")
    if names(policy.disabled, declared.name, unusable=True):
        return SetState(False, "disabled")
    if not names(policy.enabled, declared.name):
        return SetState(False, "not_selected")
    missing = tuple(sorted(declared.needs - permitted))
    return SetState(False, "missing_capability", missing) if missing else SetState(True)


def _denied(path: str, policy: HostPolicy) -> bool:
    segments = path.split(".")
    at_or_above = [".".join(segments[:count]) for count in range(1, len(segments) + 1)]
    # In feature-set patterns, a trailing `*` matches at any depth, as in deny lists.
    return any(names(policy.denied, node, unusable=True) for node in at_or_above)


def _rules(name: str, policy: HostPolicy) -> ScopeRules | None:
    found = [rules for pattern, rules in policy.scopes.items() if names((pattern,), name)]
    if not found:
        return None
    return ScopeRules(
        tuple(dict.fromkeys(label for rules in found for label in rules.whitelist)),
        tuple(dict.fromkeys(label for rules in found for label in rules.blacklist)),
    )


def _channel_rules(
    on: Iterable[FeatureSet], outright: set[str], scopes: Mapping[str, ScopeRules], policy: HostPolicy
) -> tuple[tuple[str, tuple[ChannelRules, ...]], ...]:
    """Channel rules by path: one from the feature sets that use it, any of which suffices, and one per policy rule."""
    allowed: dict[str, list[str]] = {path: ["**"] for path in outright}
    denied: dict[str, list[str]] = {}
    for found in on:
        rules = scopes.get(found.name)
        for path in found.needs | found.may:
            if path.startswith("channels."):
                unlimited = rules is None and not found.scoped
                allowed.setdefault(path, []).extend(("**",) if unlimited else rules.whitelist if rules else ())
                denied.setdefault(path, []).extend(rules.blacklist if rules else ())
    layers = {
        path: [ChannelRules(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(denied.get(path, ()))))]
        for path, found in allowed.items()
        if path.startswith("channels.") and (denied.get(path) or "**" not in found)
    }
    for pattern, rules in policy.channels.items():
        entry = compile_capability_path(pattern)
        for path in allowed:
            if entry.matches(path):
                layers.setdefault(path, []).append(ChannelRules(rules.whitelist or ("**",), rules.blacklist))
    return compile_rules(layers)


def _sees_thinking(states: Mapping[str, SetState], policy: HostPolicy) -> bool:
    by_set = THINKING_SET in states and states[THINKING_SET].enabled
    rules = policy.channels.get(CHANNELS_STREAMING, ScopeRules())
    return (by_set or THINKING in rules.whitelist) and THINKING not in rules.blacklist
