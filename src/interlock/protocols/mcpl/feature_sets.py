"""Feature sets (MCPL, Feature Sets): a server's declarations, and the messages that switch sets on and off.

An unusable declaration is kept with its problem. It counts as declared, but is never enabled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from interlock.protocols.mcpl.capabilities import McplDialect, meaning
from interlock.protocols.mcpl.decoding import Line, Name, Object, Value, convert
from interlock.wire.errors import Fault

MAX_FEATURE_SETS: Final = 256
"""Feature sets of one server."""
SCOPE_LABEL: Final = "dev.interlock/scopeLabel"
"""Member of a declaration's `_meta`: the template that makes a scope's label from the arguments."""
TOOL_FEATURE_SET: Final = "dev.interlock/featureSet"
"""Member of a tool's `_meta`: the feature set it belongs to."""

_NAME = re.compile(r"[A-Za-z0-9_:-]+(?:\.[A-Za-z0-9_:-]+)*\Z")

Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_FEATURE_SETS)]


class FeatureSet(msgspec.Struct, frozen=True):
    """One declared feature set, with the capability paths of its `uses`."""

    name: str
    description: str = ""
    uses: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    scoped: bool = False
    scope_label: str | None = None
    rollback: bool = False
    problem: str = ""
    """Why it can never be enabled; empty for a sound declaration."""

    def covers(self, path: str) -> bool:
        """Whether the declaration names this capability."""
        return path in self.needs or path in self.may


def read_feature_sets(declared: object, dialect: McplDialect) -> dict[str, FeatureSet]:
    """The feature sets of a manifest; none for `true` or absence. Raises INVALID_PARAMS for a malformed declaration."""
    if declared is None or isinstance(declared, bool):
        return {}
    if not isinstance(declared, Mapping):
        raise Fault("INVALID_PARAMS", "featureSets: expected an object", data={"field": "featureSets"})
    if len(declared) > MAX_FEATURE_SETS:
        raise Fault("TOO_LARGE", f"featureSets: more than {MAX_FEATURE_SETS} feature sets")
    return {name: read_feature_set(name, declaration, dialect) for name, declaration in declared.items()}


def read_feature_set(name: str, declared: object, dialect: McplDialect) -> FeatureSet:
    """One declaration. A problem in it is kept, not raised."""
    if not _NAME.match(name) or len(name) > 200:
        return FeatureSet(name[:200], problem="invalid_name")
    try:
        declaration = convert(_Declaration, declared)
    except Fault:
        return FeatureSet(name, problem="invalid_declaration")
    meanings = [meaning(use, dialect) for use in declaration.uses]
    known = [found for found in meanings if found is not None]
    needs = frozenset[str]().union(*(found.needs for found in known))
    return FeatureSet(
        name=name,
        description=declaration.description,
        uses=declaration.uses,
        needs=needs,
        may=frozenset[str]().union(*(found.may for found in known)) - needs,
        scoped=declaration.scoped,
        scope_label=declaration.meta.scope_label,
        rollback=declaration.rollback,
        problem="" if meanings and len(known) == len(meanings) else "invalid_uses",
    )


class ScopeRules(Value, frozen=True):
    """Patterns for the labels of a scope (MCPL 0.4, Scoped Access). The blacklist wins."""

    whitelist: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()


class FeatureSetsUpdate(Value, frozen=True):
    """The params of `featureSets/update`, in both dialects."""

    effective_capabilities: tuple[str, ...] | None = None
    denied_capabilities: tuple[str, ...] = ()
    enabled: Names | None = None
    disabled: Names = ()
    scopes: dict[str, ScopeRules] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.effective_capabilities or ()) & set(self.denied_capabilities):
            raise ValueError("a path is both in `effectiveCapabilities` and in `deniedCapabilities`")


class UnavailableFeature(Value, frozen=True):
    """A feature that a server does without."""

    feature_set: Name
    effect: str
    missing_capabilities: tuple[str, ...] = ()


class UpdateReceipt(Value, frozen=True):
    """A 0.5 server's answer to `featureSets/update`. It reports what the server will do, and grants nothing."""

    accepted: bool
    mode: str | None = None
    unavailable_features: tuple[UnavailableFeature, ...] = ()
    notes: tuple[Line, ...] = ()
    fallback: Literal["mcp-only", "close"] | None = None
    missing_capabilities: tuple[str, ...] = ()
    reason: Line | None = None

    def __post_init__(self) -> None:
        if not self.accepted and self.fallback is None:
            raise ValueError("a refusal names its `fallback`")


class FeatureSetsChanged(Value, frozen=True):
    """The params of `featureSets/changed` (0.4)."""

    added: dict[str, Object] = msgspec.field(default_factory=dict)
    removed: Names = ()


def apply_change(
    declared: Mapping[str, FeatureSet], change: FeatureSetsChanged, dialect: McplDialect
) -> dict[str, FeatureSet]:
    """The declarations after a change. A set that is both removed and added counts as added. Raises TOO_LARGE."""
    kept = {name: known for name, known in declared.items() if name not in change.removed}
    kept |= {name: read_feature_set(name, declaration, dialect) for name, declaration in change.added.items()}
    if len(kept) > MAX_FEATURE_SETS:
        raise Fault("TOO_LARGE", f"featureSets/changed: more than {MAX_FEATURE_SETS} feature sets")
    return kept


class _DeclarationMeta(msgspec.Struct, frozen=True):
    scope_label: str | None = msgspec.field(default=None, name=SCOPE_LABEL)


class _Declaration(msgspec.Struct, frozen=True):
    description: str
    uses: tuple[str, ...]
    scoped: bool = False
    rollback: bool = False
    meta: _DeclarationMeta = msgspec.field(default=_DeclarationMeta(), name="_meta")
