"""Tool security (MGP, Tool Security Metadata): a server's declaration about a tool, and the risk that follows."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from interlock.protocols.mgp.permissions import MAX_NAME_CHARS, Risk, expand, expand_all, read_risk, risk_of
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json_or

VALIDATORS: Final = ("sandbox", "readonly", "network_restricted", "code_safety", "none")
"""The standard validators. Any other name denies every call: the hub cannot check it."""


class Trust(enum.IntEnum):
    """How far the hub trusts a server's declarations. Comparable: a greater value means more trust."""

    SANDBOXED = 0
    STANDARD = 1
    TRUSTED = 2


def lower_trust(given: Trust, claimed: str | None) -> Trust:
    """The operator's trust level, lowered by the server's claim, but never raised."""
    word = (claimed or "").upper()
    return min(given, Trust[word]) if word in Trust.__members__ else given


class CodeSafety(msgspec.Struct, frozen=True):
    """The code safety rules a tool declares (MGP, Validation Declaration)."""

    level: str = "standard"
    language: str = "python"
    max_code_size_bytes: int | None = None
    blocked_imports: tuple[str, ...] = ()
    blocked_patterns: tuple[str, ...] = ()
    allowed_imports: tuple[str, ...] = ()


class Security(msgspec.Struct, frozen=True):
    """A tool's `security` object."""

    risk_level: str = ""
    permissions_required: tuple[str, ...] = ()
    side_effects: tuple[str, ...] = ()
    validator: str = ""
    reversible: bool | None = None
    confirmation_required: bool = False
    code_safety: CodeSafety | None = None


def problem_in(security: Mapping[str, object]) -> str:
    """Why a declaration is invalid; empty for a valid one."""
    try:
        declared = msgspec.convert(security, Security)
        expand(declared.permissions_required)
    except (msgspec.ValidationError, Fault) as cause:
        return str(cause)
    if read_risk(declared.risk_level) is None:
        return "risk_level is one of safe, moderate, dangerous"
    if declared.validator and declared.validator not in VALIDATORS:
        return f"validator is one of {', '.join(VALIDATORS)}"
    return ""


class Hints(msgspec.Struct, frozen=True, rename="camel"):
    """MCP's annotations of a tool that concern its risk."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    open_world_hint: bool | None = None


class _Definition(msgspec.Struct):
    security: Security | None = None
    annotations: Hints | None = None


class _Naming(msgspec.Struct):
    permissions_required: tuple[str, ...] | None = None


def named_permissions(security: bytes) -> tuple[str, ...] | None:
    """The permissions that a tool's `security` names, with expanded families; None if it names none.

    None also for an unreadable declaration, which may have named more.
    """
    named = decode_json_or(security, _Naming, _Naming()).permissions_required
    return None if named is None else expand_all(name[:MAX_NAME_CHARS] for name in named)


def read_security(definition: bytes) -> tuple[Security | None, Hints]:
    """The declaration in a definition. An unreadable declaration counts as the strictest one."""
    strictest = _Definition(Security(risk_level="dangerous", confirmation_required=True))
    read = decode_json_or(definition, _Definition, strictest)
    return read.security, read.annotations or Hints()


def effective_risk(
    declared: Security | None, hints: Hints, trust: Trust, permissions: Iterable[str] | None = None
) -> Risk:
    """The effective risk of a tool. It is never lower than any of its declarations suggests.

    `permissions` are those that it needs, if they are more than it declares.

    A tool without declarations counts as moderate. A trusted server's declaration is its own affair; a standard one may
    call a tool safe, but not one that needs a permission which is not; a sandboxed one cannot lower anything.
    """
    own = None if declared is None else read_risk(declared.risk_level)
    if declared is not None and own is None:
        own = Risk.DANGEROUS
    pointers = [Risk.DANGEROUS] if hints.destructive_hint else []
    if permissions is None:
        permissions = () if declared is None else declared.permissions_required
    pointers += [risk_of(permission) for permission in permissions]
    if declared is not None and declared.reversible is False and declared.side_effects:
        pointers.append(Risk.DANGEROUS)
    if trust is Trust.TRUSTED:
        return own if own is not None else max([_by_hint(hints), *pointers])
    if trust is Trust.STANDARD:
        return max([own if own is not None else _by_hint(hints), *pointers])
    return max([own or Risk.MODERATE, Risk.MODERATE, *pointers])


def _by_hint(hints: Hints) -> Risk:
    return Risk.SAFE if hints.read_only_hint else Risk.MODERATE
