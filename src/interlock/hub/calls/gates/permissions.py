"""The permissions gate: a tool is called only while its server has the permissions that the tool needs (MGP, Permission
Declarations)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from interlock.hub.approvals.permission_entries import PermissionStatus
from interlock.hub.approvals.permission_statuses import PermissionStatuses
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Check
from interlock.hub.calls.gates.access import LOOK_AGAIN_S
from interlock.hub.calls.verdicts import FOREVER, PASS, Pass, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.protocols.mgp.permissions import no_such_permission
from interlock.wire.errors import Fault

WAIT_MS = 15_000


class PermissionsGate:
    """Refuses tools that lack a permission. The permission belongs to the server, not to the caller."""

    name = "permissions"

    def __init__(self, permissions: PermissionStatuses, clock: Callable[[], float]) -> None:
        self._permissions = permissions
        self._clock = clock

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Known before the arguments are; a change makes plans old, and an expiry ends them."""
        if target.tool is None:
            return PASS
        lacking, until = self._permissions.missing(target.tool)
        ends = self._until(until)
        if not lacking:
            return PASS if ends == FOREVER else Pass(ends)
        worst = min(lacking, key=_severity)
        return Refuse(_fault(target, worst, lacking), f"{worst.permission}: {worst.rule}", ends)

    def check(self, target: Target) -> Check | None:
        """No check: the verdict does not depend on arguments."""
        return None

    def _until(self, end: datetime | None) -> float:
        if end is None:
            return FOREVER
        left = (end - self._permissions.now()).total_seconds()
        return self._clock() + min(left, LOOK_AGAIN_S)


def _severity(standing: PermissionStatus) -> int:
    """The order of reasons: permissions that cannot be granted, then denied ones, then undecided ones."""
    return 0 if not standing.known else 1 if standing.grant == "denied" else 2


def _fault(target: Target, worst: PermissionStatus, lacking: list[PermissionStatus]) -> Fault:
    name = target.name if target.tool is None else target.tool.exposed
    data = {"permissions": {each.permission: each.grant for each in lacking}}
    if not worst.known:
        fault = no_such_permission(worst.permission)
        message = f"{name} needs an unknown permission: {worst.permission[:100]!r}"
        return Fault(fault.name, message, hint=fault.hint, data=data)
    give = f"`interlock permissions approve {target.server} {worst.permission}`"
    if worst.grant == "denied":
        message = f"{name} needs the permission {worst.permission}, which {target.server} does not have: {worst.rule}"
        return Fault("PERMISSION_DENIED", message, hint=f"a person grants it with {give}", data=data)
    waits = f"waiting for approval {worst.decision}" if worst.decision else "not decided yet"
    hint = "ask the user to approve it; only they can" if worst.decision else f"a person grants it with {give}"
    return Fault(
        "APPROVAL_PENDING",
        f"{name} needs the permission {worst.permission} for {target.server}, which is {waits}; repeat the call then.",
        hint=hint,
        retry_after_ms=WAIT_MS,
        data={**data, **({"decision": worst.decision} if worst.decision else {})},
    )
