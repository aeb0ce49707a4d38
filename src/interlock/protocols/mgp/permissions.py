"""Permissions (MGP, Permission Declarations): the standard types with their risk, custom ones, the four policies."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

from interlock.wire.errors import Fault


class Risk(enum.IntEnum):
    """How much harm a thing can do. Comparable: the greater, the worse."""

    SAFE = 0
    MODERATE = 1
    DANGEROUS = 2

    @property
    def word(self) -> str:
        """As the protocol writes it."""
        return self.name.lower()


def read_risk(word: str) -> Risk | None:
    """The risk a word means; None for a word that is none."""
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

Policy = Literal["interactive", "auto_approve", "deny_all", "config_only"]
Grant = Literal["approved", "denied", "deferred"]


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """The permissions that names stand for, each to be decided by itself. Raises INVALID_TOOL_ARGS for an unknown one.

    A bare family (`shell`, `network`) stands for its members; reverse-domain names are custom.
    """
    found: dict[str, None] = {}
    for name in names:
        if name in STANDARD or _CUSTOM.match(name):
            found[name] = None
            continue
        members = [permission for permission in STANDARD if permission.startswith(name + ".")]
        if not members:
            raise Fault(
                "INVALID_TOOL_ARGS",
                f"no such permission: {name[:100]!r}",
                mend=f"one of {', '.join(STANDARD)}, or a reverse-domain name of your own",
            )
        found |= dict.fromkeys(members)
    return tuple(found)


def risk_of(permission: str) -> Risk:
    """A permission's risk. Nobody vouches for a custom one, so it counts as dangerous."""
    return STANDARD.get(permission, Risk.DANGEROUS)


def decide(permission: str, policy: Policy, configured: Collection[str]) -> Grant:
    """What policy alone says of a permission; `deferred` leaves it to a person."""
    if permission in configured:
        return "approved"
    match policy:
        case "auto_approve":
            return "approved"
        case "interactive":
            return "deferred"
        case "deny_all" | "config_only":
            return "denied"
