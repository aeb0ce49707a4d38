"""Permissions (MGP, Permission Declarations): the standard types with their risk, custom ones, the four policies."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

from interlock.wire.errors import Fault


class Risk(enum.IntEnum):
    """The risk of a tool or permission. Comparable: a greater risk is worse."""

    SAFE = 0
    MODERATE = 1
    DANGEROUS = 2

    @property
    def word(self) -> str:
        """The word of the protocol."""
        return self.name.lower()


def read_risk(word: str) -> Risk | None:
    """The risk for a word of the protocol; None for any other word."""
    return _RISKS.get(word)


_RISKS: Final = {risk.word: risk for risk in Risk}

STANDARD: Final[Mapping[str, Risk]] = {
    "filesystem.read": Risk.MODERATE,
    "filesystem.write": Risk.DANGEROUS,
    "network.outbound": Risk.MODERATE,
    "network.listen": Risk.DANGEROUS,
    "shell.execute": Risk.DANGEROUS,
    "code_execution": Risk.DANGEROUS,
    "memory.read": Risk.SAFE,
    "memory.write": Risk.MODERATE,
    "system.info": Risk.SAFE,
    "camera": Risk.DANGEROUS,
    "notification": Risk.SAFE,
}

_CUSTOM = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9_-]*){2,}\Z", re.IGNORECASE)

MAX_NAME_CHARS: Final = 200

Policy = Literal["interactive", "auto_approve", "deny_all", "config_only"]
Grant = Literal["approved", "denied", "deferred"]

REQUEST: Final = ("mgp/permission/request", "mgp/permission/await")
"""The methods that ask a server to wait for a decision. Later drafts use the second name."""
RESPONSE: Final = ("mgp/permission/response", "mgp/permission/grant")
"""The methods that tell a server the decision. Later drafts use the second name."""


def request_id_of(server: str) -> str:
    """The id of a server's permission request. It is the same after restarts and on every node."""
    return f"perm-{hashlib.sha256(server.encode()).hexdigest()[:12]}"


class PermissionRequestParams(msgspec.Struct, frozen=True):
    """The params of `mgp/permission/request` (MGP, Permission Request Method)."""

    request_id: str
    permissions: tuple[str, ...]
    policy: Policy
    message: str = "Waiting for operator approval"


class PermissionOutcome(msgspec.Struct, frozen=True):
    """The params of `mgp/permission/response` (MGP, Permission Response Method)."""

    request_id: str
    grants: dict[str, Grant]
    approved_by: str | None = None
    expires_at: datetime | None = None


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """Expand names to single permissions. Raises INVALID_TOOL_ARGS for an unknown name.

    A bare family (`shell`, `network`) stands for its members; reverse-domain names are custom.
    """
    found: dict[str, None] = {}
    for name in names:
        if name in STANDARD or _CUSTOM.match(name):
            found[name] = None
            continue
        members = [permission for permission in STANDARD if permission.startswith(name + ".")]
        if not members:
            raise no_such_permission(name)
        found |= dict.fromkeys(members)
    return tuple(found)


def expand_all(names: Iterable[str]) -> tuple[str, ...]:
    """Expand the names that a server declares. An unknown name stays, and can never be granted."""
    found: dict[str, None] = {}
    for name in names:
        try:
            found |= dict.fromkeys(expand([name]))
        except Fault:
            found[name] = None
    return tuple(found)


def no_such_permission(name: str) -> Fault:
    """The refusal for a name without a dot that is not a family."""
    return Fault(
        "INVALID_TOOL_ARGS",
        f"no such permission: {name[:100]!r}",
        hint=f"one of {', '.join(STANDARD)}, or a reverse-domain name of your own",
    )


def is_permission(name: str) -> bool:
    """Whether a name is a standard permission, or a custom one in reverse-domain notation."""
    return name in STANDARD or _CUSTOM.match(name) is not None


def risk_of(permission: str) -> Risk:
    """The risk of a permission, or the greatest of a family. A custom permission counts as dangerous."""
    known = STANDARD.get(permission)
    if known is not None:
        return known
    family = [risk for name, risk in STANDARD.items() if name.startswith(permission + ".")]
    return max(family, default=Risk.DANGEROUS)


def decide(permission: str, policy: Policy, configured: Collection[str]) -> Grant:
    """The decision of the policy about a permission. With `deferred`, a person decides."""
    if permission in configured:
        return "approved"
    match policy:
        case "auto_approve":
            return "approved"
        case "interactive":
            return "deferred"
        case "deny_all" | "config_only":
            return "denied"
