"""The server's side of `featureSets/update`: the rights that its host selected.

In 0.4 an update names only the sets that change. In 0.5 a request has the whole policy, and a notification can only
remove rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.feature_sets import (
    MAX_FEATURE_SETS,
    FeatureSet,
    FeatureSetsUpdate,
    ScopeRules,
    UnavailableFeature,
    UpdateReceipt,
)
from interlock.protocols.mcpl.grants import NO_GRANT, CapabilityGrant, read_grant
from interlock.protocols.mcpl.policy import names
from interlock.wire.errors import Fault


class ServerRights(msgspec.Struct, frozen=True):
    """The rights of a server. Before the first update it has none."""

    enabled: frozenset[str] = frozenset()
    grant: CapabilityGrant = NO_GRANT
    """The capabilities of 0.5. In 0.4 there are only feature sets."""
    scopes: Mapping[str, ScopeRules] = {}
    ready: bool = False


def receive(
    selection: ServerRights,
    declared: Mapping[str, FeatureSet],
    update: FeatureSetsUpdate,
    dialect: McplDialect,
    *,
    request: bool,
) -> ServerRights:
    """The selection after an update. A set that both lists name is disabled. Raises TOO_LARGE."""
    if dialect is McplDialect.V0_4:
        return _changed(selection, declared, update)
    if not request:
        off = {name for name in selection.enabled if names(update.disabled, name, unusable=True)}
        return msgspec.structs.replace(selection, enabled=selection.enabled - off)
    grant = read_grant(update.effective_capabilities or ())
    return ServerRights(frozenset(_derived(declared.values(), update, grant)), grant, {}, ready=True)


def receipt(selection: ServerRights, declared: Mapping[str, FeatureSet]) -> UpdateReceipt:
    """The receipt of a 0.5 server: its unavailable features, each with the missing capability."""
    off = [found for name, found in sorted(declared.items()) if name not in selection.enabled]
    missing = {found.name: tuple(sorted(p for p in found.needs if not selection.grant.allows(p))) for found in off}
    unavailable = tuple(UnavailableFeature(name, "disabled", paths) for name, paths in missing.items() if paths)
    return UpdateReceipt(True, "degraded" if unavailable else None, unavailable)


def _changed(selection: ServerRights, declared: Mapping[str, FeatureSet], update: FeatureSetsUpdate) -> ServerRights:
    on = {name for name in declared if names(update.enabled or (), name) and not declared[name].problem}
    off = {name for name in declared if names(update.disabled, name, unusable=True)}
    enabled = ((selection.enabled & declared.keys()) | on) - off
    scopes = {**selection.scopes, **update.scopes}
    if len(scopes) > MAX_FEATURE_SETS:
        raise Fault("TOO_LARGE", f"scopes: more than {MAX_FEATURE_SETS} feature sets", data={"field": "scopes"})
    return ServerRights(frozenset(enabled), NO_GRANT, scopes, ready=True)


def _derived(declared: Iterable[FeatureSet], update: FeatureSetsUpdate, grant: CapabilityGrant) -> Iterable[str]:
    for found in declared:
        chosen = update.enabled is None or names(update.enabled, found.name)
        sound = chosen and not found.problem and not names(update.disabled, found.name, unusable=True)
        if sound and all(grant.allows(path) for path in found.needs):
            yield found.name
