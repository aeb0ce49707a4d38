"""Presents the feature sets of many servers as those of one, to a client that is a host itself.

A set's name is `server.set`, or its own name where the client sees only one server. The ids of a client's conversations
and inferences are unique only at that client, so servers get digests that are unique to the client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from interlock.protocols.mcpl.capabilities import AFTER_OBSERVE, MEANING_0_4, VOCABULARY, McplDialect, meaning
from interlock.protocols.mcpl.dialect_manifests import manifest_of
from interlock.protocols.mcpl.feature_sets import SCOPE_LABEL, FeatureSet, read_feature_set
from interlock.protocols.mcpl.hooks import ChannelContext
from interlock.protocols.mcpl.negotiation import McplOffer

FEATURE_SET: Final = "dev.interlock/featureSet"
"""Member of an injection's metadata: its feature set, because an answer can name only one."""


def qualified(server: str, name: str, *, bare: bool) -> str:
    """The name of a server's feature set for a client. Server ids have no dots."""
    return name if bare else f"{server}.{name}"


def declared(sets: Iterable[tuple[str, FeatureSet]], dialect: McplDialect, *, bare: bool) -> dict[str, dict[str, Any]]:
    """The declarations of servers' feature sets for a client, without those that its dialect cannot express."""
    found = {qualified(server, each.name, bare=bare): _declaration(server, each, dialect) for server, each in sets}
    return {
        name: declaration
        for name, declaration in found.items()
        if declaration["uses"] and not read_feature_set(name, declaration, dialect).problem
    }


def client_manifest(
    declarations: Mapping[str, Mapping[str, Any]], dialect: McplDialect, sets: Iterable[FeatureSet], *, blocking: bool
) -> dict[str, object]:
    """The hub's manifest for a client with these declarations of these feature sets."""
    optional = frozenset[str]().union(*(each.may for each in sets)) & VOCABULARY
    return manifest_of(declarations, dialect, optional=optional, blocking=blocking)


def spoken_with(client: McplOffer, sets: Iterable[FeatureSet]) -> McplDialect:
    """The dialect for a client: its own, or 0.4 if the client and a set have the after-hook, which only 0.4 has."""
    after = AFTER_OBSERVE in client.paths or "afterInference" in _hooks(client)
    return McplDialect.V0_4 if after and any(AFTER_OBSERVE in found.needs for found in sets) else client.dialect


def private_id(kind: str, principal_name: str, id: str) -> str:
    """The id of a client's conversation or inference for servers. It is stable, and unique to the client."""
    digest = hashlib.sha256("\x1f".join((kind, principal_name, id)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}_{digest[:32]}"


def channels_for(context: ChannelContext | None, server: str, *, bare: bool) -> ChannelContext | None:
    """The channels around a client's inference for one server: its own by its own names, others by the hub's."""
    if context is None or bare:
        return context
    places = [
        None if place is None else msgspec.structs.replace(place, channel_id=_own(place.channel_id, server))
        for place in (context.incoming, context.default_outgoing)
    ]
    return ChannelContext(places[0], places[1], tuple(_own(name, server) for name in context.candidates))


def _own(channel: str, server: str) -> str:
    return channel.removeprefix(f"{server}/")


def _hooks(client: McplOffer) -> Mapping[str, object]:
    hooks = client.manifest.get("contextHooks")
    return hooks if isinstance(hooks, Mapping) else {}


def _declaration(server: str, found: FeatureSet, dialect: McplDialect) -> dict[str, Any]:
    uses = list(found.uses)
    if dialect is McplDialect.V0_5 and found.may:
        # In 0.4 some uses are optional. In 0.5 a set needs all of its `uses`.
        uses = sorted(found.needs)
    if dialect is McplDialect.V0_4:
        uses = list(dict.fromkeys(name for use in uses if (name := _in_0_4(use)) is not None))
    # The server's description is for the person who enables the set. Clients get a text of the hub.
    declaration: dict[str, Any] = {"description": f"{found.name} of the server {server}", "uses": uses}
    if found.scoped:
        declaration["scoped"] = True
    if found.scope_label is not None:
        declaration["_meta"] = {SCOPE_LABEL: found.scope_label}
    if found.rollback:
        declaration["rollback"] = True
    return declaration


def _in_0_4(use: str) -> str | None:
    """The name of 0.4 for a capability of 0.5; None where 0.4 has none."""
    if meaning(use, McplDialect.V0_4) is not None:
        return use
    for name, stands_for in MEANING_0_4.items():
        if use in stands_for.needs | stands_for.may and meaning(name, McplDialect.V0_4) is not None:
            return name
    return None
