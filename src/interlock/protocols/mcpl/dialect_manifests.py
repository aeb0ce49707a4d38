"""Makes a server's manifest in the dialect of its host: authors write names of 0.4, hosts of 0.5 get paths.

A set with a path that only 0.5 has is offered only to hosts of 0.5, a set with an after-hook only to hosts of 0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.protocols.mcpl.capabilities import EXPLICIT, INJECT_SYSTEM, MEANING_0_4, McplDialect, meaning
from interlock.protocols.mcpl.feature_sets import FeatureSet, read_feature_set

BEFORE = "contextHooks.beforeInference"
AFTER = "contextHooks.afterInference"


def in_dialect(declaration: Mapping[str, Any], dialect: McplDialect) -> dict[str, Any]:
    """A declaration with the `uses` that a host of this dialect knows."""
    uses = list(declaration["uses"])
    if dialect is McplDialect.V0_5 and AFTER not in uses and all(meaning(use, McplDialect.V0_4) for use in uses):
        uses = sorted({path for use in uses for path in (MEANING_0_4[use].needs | MEANING_0_4[use].may) - EXPLICIT})
    return {**declaration, "uses": uses}


def read_in(name: str, declaration: Mapping[str, Any], dialect: McplDialect) -> FeatureSet:
    """A declaration, read in the dialect of the host."""
    return read_feature_set(name, in_dialect(declaration, dialect), dialect)


def spoken(declared: Mapping[str, Mapping[str, Any]], offered: McplDialect) -> McplDialect:
    """The dialect for a host: the offered one, or 0.4 if the server has an after-hook or scopes."""
    former = any(AFTER in declaration["uses"] or declaration.get("scoped") for declaration in declared.values())
    return McplDialect.V0_4 if former else offered


def manifest(declared: Mapping[str, Mapping[str, Any]], dialect: McplDialect, *, blocking: bool) -> dict[str, Any]:
    """The server's manifest for a host of this dialect: its feature sets, and the capabilities that they use."""
    sound = {
        name: in_dialect(declared_set, dialect)
        for name, declared_set in declared.items()
        if not read_in(name, declared_set, dialect).problem
    }
    before = any(BEFORE in declared[name]["uses"] for name in sound)
    return manifest_of(sound, dialect, optional={INJECT_SYSTEM} if before else (), blocking=blocking)


def manifest_of(
    sets: Mapping[str, Mapping[str, Any]], dialect: McplDialect, *, optional: Iterable[str], blocking: bool
) -> dict[str, Any]:
    """The manifest with these declarations, which use this dialect. A host may also grant `optional` paths (0.5)."""
    uses = {use for declaration in sets.values() for use in declaration["uses"]}
    made: dict[str, Any] = {"version": dialect.value, "featureSets": dict(sets)}
    if dialect is McplDialect.V0_4:
        return made | _flags(uses, blocking=blocking)
    for path in sorted(uses.union(optional)):
        _put(made, path.split("."))
    return made


def _flags(uses: set[str], *, blocking: bool) -> dict[str, Any]:
    """The capabilities in the form of 0.4: flags at the top, rather than paths."""
    flags: dict[str, Any] = {}
    if "pushEvents" in uses:
        flags["pushEvents"] = True
    hooks: dict[str, Any] = {"beforeInference": True} if BEFORE in uses else {}
    if AFTER in uses:
        hooks["afterInference"] = {"blocking": blocking}
    if hooks:
        flags["contextHooks"] = hooks
    if "inferenceRequest" in uses:
        flags |= {"inferenceRequest": {"streaming": True}, "modelInfo": True}
    if channels := _channel_flags(uses):
        flags["channels"] = channels
    return flags


def _channel_flags(uses: Iterable[str]) -> dict[str, bool]:
    wanted = {use.removeprefix("channels.") for use in uses if use.startswith("channels.")}
    if not wanted:
        return {}
    observes = "observe" in wanted
    return {
        "register": True,
        "publish": "publish" in wanted,
        "observe": observes,
        "lifecycle": True,
        "streaming": observes,
    }


def _put(node: dict[str, Any], path: list[str]) -> None:
    """Set a path to true in a manifest, and keep its other members."""
    for name in path[:-1]:
        inner = node.get(name)
        node[name] = inner if isinstance(inner, dict) else {}
        node = node[name]
    node.setdefault(path[-1], True)
