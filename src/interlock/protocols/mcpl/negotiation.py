"""Negotiation of MCPL (MCPL, Capability Negotiation), by the version that a peer advertises.

Handshakes advertise it in `capabilities`. In the stateless revision, the same object is in each request's `_meta` and
in the result of `server/discover`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcpl.capabilities import INFERENCE, MODEL_INFO, McplDialect, advertised, refused
from interlock.protocols.mcpl.decoding import Object, check_payload, decode, wrong_shape
from interlock.protocols.mcpl.feature_sets import FeatureSet, read_feature_sets
from interlock.protocols.versions import read_version
from interlock.wire.json_values import JSON_ERRORS

EXTENSION_KEY: Final = "dev.interlock/mcpl"
VERSION: Final = McplDialect.V0_5.value
"""The default version of an offer. A peer that answers with 0.4 gets 0.4."""

UNSUPPORTED: Final = ("inferenceLifecycle", "inferenceRequest", "modelInfo", "channels")
"""Capabilities that a hub without a model does not have. A feature set that needs one of them is never on there."""


class McplPlace(enum.Enum):
    """The member of its capabilities in which a peer declares MCPL."""

    EXPERIMENTAL = "experimental"
    EXTENSIONS = "extensions"


class McplOffer(msgspec.Struct, frozen=True):
    """One side's declaration: its manifest, decoded."""

    version: str
    dialect: McplDialect
    paths: frozenset[str] = frozenset()
    """Capability paths that it offers."""
    feature_sets: Mapping[str, FeatureSet] = {}
    revision: str | None = None
    """The peer's digest of its manifest (0.5). It is only compared, never trusted."""
    channel_chunks: bool = False
    """Whether the peer wants outgoing text in chunks."""
    blocking_after_hook: bool = False
    """Whether its hook after an inference is blocking (0.4)."""
    manifest: Mapping[str, object] = {}
    """The manifest as received."""
    warning: str = ""


def read_offer(capabilities: bytes) -> tuple[McplOffer, McplPlace] | None:
    """A peer's offer and its place; None for a peer that speaks plain MCP, or an unsupported version.

    Raises INVALID_PARAMS.
    """
    check_payload(capabilities)
    try:
        declared = msgspec.json.decode(capabilities, type=_Capabilities)
    except JSON_ERRORS as cause:
        raise wrong_shape(str(cause), "capabilities") from None
    for home, manifest in (
        (McplPlace.EXPERIMENTAL, declared.experimental.mcpl),
        (McplPlace.EXTENSIONS, declared.extensions.mcpl),
    ):
        if manifest is not None and (offer := read_manifest(manifest)) is not None:
            return offer, home
    return None


def read_manifest_result(result: bytes) -> McplOffer | None:
    """The offer in the result of `mcpl/manifest`. Raises INVALID_PARAMS."""
    return read_manifest(decode(Object, result, "result"))


def read_manifest(manifest: Mapping[str, object]) -> McplOffer | None:
    """The offer of a manifest; None for an unsupported version. Raises INVALID_PARAMS."""
    version = manifest.get("version")
    if not isinstance(version, str):
        raise wrong_shape("missing required field `version`", "mcpl")
    dialect = dialect_of(version)
    if dialect is None:
        return None
    feature_sets = read_feature_sets(manifest.get("featureSets"), dialect)
    paths = advertised(manifest, dialect)
    if dialect is McplDialect.V0_4:
        # In 0.4, flags and `uses` need not agree. Either of them offers a capability, unless a flag refuses it.
        declared = frozenset[str]().union(*(found.needs | found.may for found in feature_sets.values()))
        # A host that infers has a model to tell of, and 0.4 gives it no flag for that (MCPL, Host Support).
        told = {MODEL_INFO} if INFERENCE in paths else set[str]()
        paths = (paths | declared | told) - refused(manifest, dialect)
    revision = manifest.get("revision")
    return McplOffer(
        version=version,
        dialect=dialect,
        paths=paths,
        feature_sets=feature_sets,
        revision=revision if isinstance(revision, str) else None,
        channel_chunks=manifest.get("channels") is True or _flag(manifest, "channels", "streaming"),
        blocking_after_hook=_flag(manifest, "contextHooks", "afterInference", "blocking"),
        manifest=manifest,
        warning="" if version.startswith(dialect.value) else f"the peer speaks MCPL {version[:40]}",
    )


def dialect_of(version: str) -> McplDialect | None:
    """The dialect for a version. A later minor version of 0.x gets 0.5."""
    numbers = read_version(version)
    if numbers is None or numbers[0] != 0 or numbers[1] < 4:
        return None
    return McplDialect.V0_4 if numbers[1] == 4 else McplDialect.V0_5


def answer(manifest: Mapping[str, object], home: McplPlace) -> dict[str, object]:
    """The part of the hub's capabilities that answers a peer, in the same member as the peer's offer."""
    if home is McplPlace.EXPERIMENTAL:
        return {"experimental": {"mcpl": manifest}}
    return {"extensions": {EXTENSION_KEY: manifest}}


def with_live(capabilities: Mapping[str, object], live: Mapping[str, object]) -> dict[str, object]:
    """Capabilities with the MCPL part added to them."""
    made = dict(capabilities)
    for home, ours in live.items():
        known = made.get(home)
        made[home] = {**known, **ours} if isinstance(known, Mapping) and isinstance(ours, Mapping) else ours
    return made


def question(version: str = VERSION) -> dict[str, dict[str, object]]:
    """The hub's offer to a server, in both members, because servers look in different ones."""
    manifest = host_manifest(version)
    return {"experimental": {"mcpl": manifest}, "extensions": {EXTENSION_KEY: manifest}}


def asked_with(capabilities: bytes, version: str = VERSION) -> bytes:
    """Client capabilities with the hub's offer of MCPL, which replaces the client's own."""
    declared = decode(Object, capabilities, "capabilities")
    for home, ours in question(version).items():
        known = declared.get(home)
        declared[home] = {**known, **ours} if isinstance(known, dict) else ours
    return msgspec.json.encode(declared)


def host_manifest(version: str = VERSION) -> dict[str, object]:
    """The features that the hub supports as a host (MCPL, Host Support)."""
    return {
        "version": version,
        "pushEvents": True,
        "featureSets": True,
        "contextHooks": {"beforeInference": True, "afterInference": {"blocking": True}},
        "inferenceLifecycle": True,
        "inferenceRequest": {"streaming": True},
        "modelInfo": True,
        "channels": {"register": True, "publish": True, "observe": True, "lifecycle": True, "streaming": True},
    }


def _flag(node: object, *path: str) -> bool:
    for name in path:
        if not isinstance(node, Mapping):
            return False
        node = node.get(name)
    return node is True


class _Experimental(msgspec.Struct, frozen=True):
    mcpl: Object | None = None


class _Extensions(msgspec.Struct, frozen=True):
    mcpl: Object | None = msgspec.field(default=None, name=EXTENSION_KEY)


class _Capabilities(msgspec.Struct):
    experimental: _Experimental = _Experimental()
    extensions: _Extensions = _Extensions()
