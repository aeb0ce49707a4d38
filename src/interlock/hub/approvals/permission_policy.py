"""Decides about a permission: configuration first, then a person's decision, then the policy.

It also makes the approval request for a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from interlock.config.settings import PermissionSettings
from interlock.config.value_types import Mode
from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.approvals.permission_entries import PermissionEntry, PermissionStatus
from interlock.protocols.mgp.permissions import decide, expand_all, is_permission, risk_of

MAX_TOOLS_NAMED: Final = 20


def decide_without_asking(
    permission: str, settings: PermissionSettings, mode: Mode, entry: PermissionEntry | None, place: str, now: datetime
) -> PermissionStatus | None:
    """The status of a permission, or None if a person must decide.

    `entry` is the last decision of a person, `place` the server's current command or address.
    """
    if not is_permission(permission):
        return PermissionStatus(permission, "denied", "unknown permission", known=False)
    if mode == "observe":
        return PermissionStatus(permission, "approved", "observe mode withholds nothing")
    if permission in expand_all(settings.deny):
        return PermissionStatus(permission, "denied", "denied in the configuration", "configuration")
    if entry is not None and entry.holds(now):
        if entry.grant == "denied":
            return status_of(entry)
        if settings.policy != "config_only" and entry.where == place:
            return status_of(entry)
    configured = expand_all(settings.approve)
    grant = decide(permission, settings.policy, configured)
    if grant == "deferred":
        return None
    if permission in configured:
        return PermissionStatus(permission, grant, "approved in the configuration", "configuration")
    return PermissionStatus(permission, grant, f"policy {settings.policy}", f"policy {settings.policy}")


def request_about(server: str, permission: str, place: str, *, whole: bool, tools: Sequence[str]) -> ApprovalRequest:
    """The approval request for a permission, with the tools that need it."""
    needed = "the server as a whole" if whole else f"{len(tools)} of its tools"
    more = f", … and {len(tools) - MAX_TOOLS_NAMED} more" if len(tools) > MAX_TOOLS_NAMED else ""
    named = f"\nTools that name it: {', '.join(tools[:MAX_TOOLS_NAMED])}{more}" if tools else ""
    return ApprovalRequest(
        kind="permission",
        asker=server,
        asker_kind="server",
        server=server,
        name=permission,
        shown=f"{server}: {permission}",
        text=f"{server} asks for the permission {permission}.",
        rule="policy interactive",
        fingerprint=place,
        summary=f"Needed by {needed}.{named}",
        risk=risk_of(permission).word,
    )


def status_of(entry: PermissionEntry) -> PermissionStatus:
    """The status that follows from a person's decision."""
    verb = "approved" if entry.grant == "approved" else "revoked" if entry.revoked else "denied"
    return PermissionStatus(
        entry.permission, entry.grant, f"{verb} by {entry.by}", entry.by, entry.by_kind, entry.expires_at
    )
