"""Negotiation of MGP (MGP, Capability Negotiation): both sides use the intersection of their offers.

Peers offer MGP in one of three members. The answer goes into the same member.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from interlock.protocols.versions import read_version
from interlock.wire.json_values import decode_json

VERSION: Final = "0.2.0"
EXTENSION_KEY: Final = "dev.cloto/mgp"

EXTENSIONS: Final = (
    "security",
    "access_control",
    "audit",
    "code_safety",
    "lifecycle",
    "streaming",
    "bidirectional",
    "discovery",
    "tool_discovery",
)
"""The standard extensions, in the protocol's order."""


class MgpPlace(enum.Enum):
    """The member of its capabilities in which a peer declares MGP."""

    PLAIN = "mgp"
    EXPERIMENTAL = "experimental"
    EXTENSIONS = "extensions"


class MgpOffer(msgspec.Struct, frozen=True):
    """One side's declaration."""

    version: str
    extensions: tuple[str, ...]
    permissions_required: tuple[str, ...] = ()
    server_id: str | None = None
    """A server's claim of its own name. Only for display."""
    trust_level: str | None = None
    """A server's claim of its trust level. It can lower the operator's setting, never raise it."""


class MgpAgreement(msgspec.Struct, frozen=True):
    """The agreement of both sides."""

    extensions: frozenset[str]
    home: MgpPlace
    warning: str = ""


def read_offer(capabilities: bytes) -> tuple[MgpOffer, MgpPlace] | None:
    """A peer's offer and its place; None for a peer that speaks plain MCP. Raises INVALID_PARAMS."""
    declared = decode_json(capabilities, _Capabilities, "INVALID_PARAMS", "capabilities.mgp")
    for home, offer in (
        (MgpPlace.PLAIN, declared.mgp),
        (MgpPlace.EXPERIMENTAL, declared.experimental.mgp),
        (MgpPlace.EXTENSIONS, declared.extensions.mgp),
    ):
        if offer is not None:
            return offer, home
    return None


def agree(ours: Iterable[str], theirs: MgpOffer, home: MgpPlace) -> MgpAgreement | None:
    """The agreement; None if the versions are incompatible, so that both sides speak plain MCP.

    The major version must match. Within 0.x a differing minor is accepted with a warning.
    """
    version = read_version(theirs.version)
    own = read_version(VERSION)
    if version is None or own is None or version[0] != own[0]:
        return None
    warning = ""
    if version[0] == 0 and version[1] != own[1]:
        warning = f"the peer speaks MGP {theirs.version}, this hub {VERSION}"
    return MgpAgreement(frozenset(ours) & frozenset(theirs.extensions), home, warning)


def answer(agreed: MgpAgreement, *, server_id: str | None = None, permissions: Sequence[str] = ()) -> dict[str, object]:
    """The part of the hub's capabilities that answers a peer, in the same member as the peer's offer."""
    agreement: dict[str, object] = {"version": VERSION, "extensions": [e for e in EXTENSIONS if e in agreed.extensions]}
    if permissions and "security" in agreed.extensions:
        agreement["permissions_required"] = list(permissions)
    if server_id is not None:
        agreement["server_id"] = server_id
    match agreed.home:
        case MgpPlace.PLAIN:
            return {"mgp": agreement}
        case MgpPlace.EXPERIMENTAL:
            return {"experimental": {"mgp": agreement}}
        case MgpPlace.EXTENSIONS:
            return {"extensions": {EXTENSION_KEY: agreement}}


def question(extensions: Iterable[str] = EXTENSIONS) -> dict[str, dict[str, object]]:
    """The hub's offer to a server, in all three members, because servers look in different ones."""
    offer: dict[str, object] = {"version": VERSION, "extensions": list(extensions)}
    return {"mgp": offer, "experimental": {"mgp": offer}, "extensions": {EXTENSION_KEY: offer}}


def asked_with(capabilities: bytes, extensions: Iterable[str]) -> bytes:
    """Client capabilities with the hub's offer, which replaces an MGP declaration of the client."""
    declared = decode_json(capabilities, dict[str, object], "INVALID_PARAMS", "client capabilities")
    for home, ours in question(extensions).items():
        known = declared.get(home)
        declared[home] = {**known, **ours} if home != "mgp" and isinstance(known, dict) else ours
    return msgspec.json.encode(declared)


class _Experimental(msgspec.Struct, frozen=True):
    mgp: MgpOffer | None = None


class _Extensions(msgspec.Struct, frozen=True):
    mgp: MgpOffer | None = msgspec.field(default=None, name=EXTENSION_KEY)


class _Capabilities(msgspec.Struct):
    mgp: MgpOffer | None = None
    experimental: _Experimental = _Experimental()
    extensions: _Extensions = _Extensions()
