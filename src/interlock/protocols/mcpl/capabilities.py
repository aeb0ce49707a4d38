"""Capability paths (MCPL 0.5, Capability Grants) and the one table that maps dialect 0.4 onto them.

Observation and authority to alter are separate paths. `EXPLICIT` paths are granted only by naming them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec


class McplDialect(enum.Enum):
    """The two dialects of MCPL."""

    V0_4 = "0.4"
    V0_5 = "0.5"


PUSH: Final = "pushEvents"
TOOLS: Final = "tools"
MODEL_INFO: Final = "modelInfo"
INFERENCE: Final = "inferenceRequest"
INFERENCE_STREAMING: Final = "inferenceRequest.streaming"
LIFECYCLE: Final = "inferenceLifecycle"
OBSERVE: Final = "contextHooks.beforeInference.observe"
INJECT_SYSTEM: Final = "contextHooks.beforeInference.inject.system"
INJECT_BEFORE_USER: Final = "contextHooks.beforeInference.inject.beforeUser"
INJECT_AFTER_USER: Final = "contextHooks.beforeInference.inject.afterUser"
CHANNELS_REGISTER: Final = "channels.register"
CHANNELS_LIFECYCLE: Final = "channels.lifecycle"
CHANNELS_PUBLISH: Final = "channels.publish"
CHANNELS_INCOMING: Final = "channels.incoming"
CHANNELS_STREAMING: Final = "channels.streaming"
CHANNELS_ACKNOWLEDGE: Final = "channels.acknowledge"
CHANNELS_TYPING: Final = "channels.typing"
AFTER_OBSERVE: Final = "contextHooks.afterInference.observe"
"""Reading answers in `context/afterInference`. 0.5 has no such hook: only 0.4's table leads here."""
AFTER_REWRITE: Final = "contextHooks.afterInference.rewrite"
"""Replacing an answer by `modifiedResponse`. Only 0.4 has it, too."""

VOCABULARY: Final = frozenset(
    {
        PUSH,
        TOOLS,
        MODEL_INFO,
        INFERENCE,
        INFERENCE_STREAMING,
        LIFECYCLE,
        OBSERVE,
        INJECT_SYSTEM,
        INJECT_BEFORE_USER,
        INJECT_AFTER_USER,
        CHANNELS_REGISTER,
        CHANNELS_LIFECYCLE,
        CHANNELS_PUBLISH,
        CHANNELS_INCOMING,
        CHANNELS_STREAMING,
        CHANNELS_ACKNOWLEDGE,
        CHANNELS_TYPING,
    }
)
"""The values that `uses` may contain in 0.5."""

EXPLICIT: Final = frozenset({INJECT_SYSTEM, AFTER_REWRITE})
"""Paths that are granted only if the operator names them, in both dialects."""

INJECT: Final[Mapping[str, str]] = {
    "system": INJECT_SYSTEM,
    "beforeUser": INJECT_BEFORE_USER,
    "afterUser": INJECT_AFTER_USER,
}
"""The path that an injection needs, by its position."""


class CapabilityMeaning(msgspec.Struct, frozen=True):
    """The meaning of one name of 0.4."""

    needs: frozenset[str]
    """Paths that the feature set needs. Without all of them it is off."""
    may: frozenset[str] = frozenset()
    """Paths that the feature set uses if they are granted."""


_CHANNEL_UPKEEP = frozenset({CHANNELS_REGISTER, CHANNELS_LIFECYCLE})

MEANING_0_4: Final[Mapping[str, CapabilityMeaning]] = {
    "pushEvents": CapabilityMeaning(frozenset({PUSH})),
    "contextHooks.beforeInference": CapabilityMeaning(
        frozenset({OBSERVE, INJECT_BEFORE_USER, INJECT_AFTER_USER}), frozenset({INJECT_SYSTEM})
    ),
    "contextHooks.afterInference": CapabilityMeaning(frozenset({AFTER_OBSERVE}), frozenset({AFTER_REWRITE})),
    "inferenceRequest": CapabilityMeaning(frozenset({INFERENCE}), frozenset({INFERENCE_STREAMING, MODEL_INFO})),
    "tools": CapabilityMeaning(frozenset({TOOLS})),
    "channels.publish": CapabilityMeaning(frozenset({CHANNELS_PUBLISH}), _CHANNEL_UPKEEP),
    "channels.observe": CapabilityMeaning(frozenset({CHANNELS_INCOMING, CHANNELS_STREAMING}), _CHANNEL_UPKEEP),
    "channels.register": CapabilityMeaning(frozenset({CHANNELS_REGISTER})),
    "channels.lifecycle": CapabilityMeaning(frozenset({CHANNELS_LIFECYCLE})),
    "channels.streaming": CapabilityMeaning(frozenset({CHANNELS_STREAMING})),
}
"""The only mapping from 0.4's `uses` and capability flags to paths. The last three names are flags only."""

_FLAGS_ONLY = frozenset({"channels.register", "channels.lifecycle", "channels.streaming"})
_PATHS = VOCABULARY | {AFTER_OBSERVE, AFTER_REWRITE}


def meaning(use: str, dialect: McplDialect) -> CapabilityMeaning | None:
    """The paths that an entry of `uses` stands for; None for a name that the dialect does not have."""
    if dialect is McplDialect.V0_5:
        return CapabilityMeaning(frozenset({use})) if use in VOCABULARY else None
    return None if use in _FLAGS_ONLY else MEANING_0_4.get(use)


def advertised(manifest: Mapping[str, object], dialect: McplDialect) -> frozenset[str]:
    """The paths that a manifest offers: `true` means every leaf below, `false` or absence means none."""
    offered: set[str] = set()
    for node, stated in _walk(manifest, ()):
        if stated is ManifestValue.YES:
            offered |= _beneath(node, dialect)
        elif stated is ManifestValue.OBJECT:
            offered |= _itself(node, dialect)
    return frozenset(offered) - refused(manifest, dialect)


def refused(manifest: Mapping[str, object], dialect: McplDialect) -> frozenset[str]:
    """The paths that a manifest explicitly refuses."""
    found: set[str] = set()
    for node, stated in _walk(manifest, ()):
        # In 0.4 this flag only says whether text comes in chunks. An observer still gets the whole text.
        if stated is ManifestValue.NO and (dialect is McplDialect.V0_5 or node != CHANNELS_STREAMING):
            found |= _beneath(node, dialect)
            if node == "contextHooks.afterInference.blocking":
                # A hook that is not blocking cannot replace an answer.
                found.add(AFTER_REWRITE)
    return frozenset(found)


class ManifestValue(enum.Enum):
    """The value of one member of a manifest."""

    YES = True
    NO = False
    OBJECT = "object"
    """The capability itself is offered, and its members say more."""


def _walk(node: Mapping[str, object], path: tuple[str, ...]) -> Iterator[tuple[str, ManifestValue]]:
    """Every boolean or object of a manifest, by its path. Other values are ignored."""
    for name, value in node.items():
        here = (*path, name)
        if len(here) == 1 and name in ("version", "revision", "featureSets"):
            continue
        if isinstance(value, bool):
            yield ".".join(here), ManifestValue(value)
        elif isinstance(value, Mapping):
            yield ".".join(here), ManifestValue.OBJECT
            yield from _walk(value, here)


def _beneath(node: str, dialect: McplDialect) -> set[str]:
    """The paths at and below a node."""
    if dialect is McplDialect.V0_5:
        return _below(node, VOCABULARY)
    offered = _below(node, _PATHS)
    for name in _below(node, MEANING_0_4):
        offered |= MEANING_0_4[name].needs | (MEANING_0_4[name].may & EXPLICIT)
    return offered


def _itself(node: str, dialect: McplDialect) -> set[str]:
    """The paths that an object offers by its presence (`inferenceRequest: {}`)."""
    if dialect is McplDialect.V0_5 or node not in MEANING_0_4:
        return {node} & _PATHS
    return set(MEANING_0_4[node].needs | (MEANING_0_4[node].may & EXPLICIT))


def _below(node: str, paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path == node or path.startswith(node + ".")}
