"""The access gate: the key must permit the target, and tool grant, server grant or default policy must allow it.

Its verdict needs no arguments, so it is part of the plan and costs a call nothing. A change makes plans old, and an
expiry ends the plans that depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.auth.keys import expired
from interlock.hub.auth.principals import TOKEN, Principal
from interlock.hub.auth.rights import Rights
from interlock.hub.calls.call import Check
from interlock.hub.calls.verdicts import FOREVER, PASS, Pass, Refuse, Verdict
from interlock.hub.catalog.target import CLIENT_KINDS, Target
from interlock.wire.errors import Fault

LOOK_AGAIN_S: Final = 60.0
"""A plan that depends on an expiry is made again this often: the wall clock may have been changed meanwhile."""


class AccessGate:
    """Refuses targets that a principal may not reach. Without the right to list all, it gets the error for an unknown
    name."""

    name = "access"

    def __init__(
        self,
        access: Access,
        clock: Callable[[], float],
        short_of_scope: Callable[[Principal, str, str], Fault | None] = lambda principal, exposed, server: None,
    ) -> None:
        self._access = access
        self._clock = clock
        self._short_of_scope = short_of_scope

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """The verdict of key and grants now, and until when it holds."""
        if (stale := self._access.freshness.refusal()) is not None:
            return Refuse(stale, "keys and grants cannot be known", self._clock())
        rights = self._access.rights(principal)
        if rights is None:
            key = self._access.key(principal)
            fault = expired() if key is not None else Fault("AUTH_REQUIRED", "this key is not known any more")
            return Refuse(fault, "the key has expired" if key is not None else "the key was revoked")
        key = self._access.key(principal)
        named = target.kind == "tool" or target.kind in CLIENT_KINDS
        decision = self._access.decision(principal, target.server, target.name if named else None)
        until = self._until(decision.until, None if key is None else key.expires_at)
        if not _permits(rights, target):
            if principal.key.startswith(TOKEN):
                return self._beyond(rights, principal, target, until, granted=decision.permission == "allow")
            rule = "the key's permissions do not name it"
            refused = self._refuse(rights, principal, target, rule, until, _wider_key(principal, target))
            # A key that may read the definition sees the tool, so it gets the true reason.
            reads = target.tool is not None and rights.reads(target.tool.exposed) and decision.permission == "allow"
            return msgspec.structs.replace(refused, hidden=False) if reads else refused
        if decision.permission == "allow":
            return PASS if until == FOREVER else Pass(until)
        entry = decision.entry
        policy = self._access.default(principal, target.server)
        rule = f"default policy {policy}" if entry is None else f"{decision.source} {entry.permission}"
        if entry is not None and entry.granted_by:
            rule += f" by {entry.granted_by}"
        place = f"{principal.id} {target.server}"
        if entry is not None:
            # A denial wins over a grant of its level, and one of a tool over one of its server.
            place += f" {entry.tool_name}" if entry.tool_name else ""
            hint = f"ask the operator for `interlock grants revoke {place}`, which removes the denial"
        else:
            hint = f"ask the operator for `interlock grants allow {place}`"
        return self._refuse(rights, principal, target, rule, until, hint)

    def check(self, target: Target) -> Check | None:
        """No check: the verdict does not depend on arguments."""
        return None

    def _beyond(self, rights: Rights, principal: Principal, target: Target, until: float, *, granted: bool) -> Refuse:
        """The refusal for missing scopes. A caller who may read the definition learns which scope is missing."""
        refusal = self._refuse(rights, principal, target, "the token's scopes do not cover it", until)
        exposed = target.tool.exposed if target.tool is not None else ""
        if not (rights.list_all or (granted and exposed and rights.reads(exposed))):
            return refusal
        fault = self._short_of_scope(principal, exposed, target.server)
        return msgspec.structs.replace(refusal, hidden=False, fault=fault or refusal.fault)

    def _refuse(
        self, rights: Rights, principal: Principal, target: Target, rule: str, until: float, hint: str = ""
    ) -> Refuse:
        what = target.tool.exposed if target.tool is not None else f"{target.kind} {target.name[:200]}"
        if target.kind in CLIENT_KINDS:
            what = f"{target.name} of clients"
        fault = Fault("ACCESS_DENIED", f"{principal.id} has no access to {what}", hint=hint)
        # A server knows that its target exists.
        return Refuse(fault, rule, until, hidden=not rights.list_all and not principal.is_server)

    def _until(self, *ends: datetime | None) -> float:
        known = [end for end in ends if end is not None]
        if not known:
            return FOREVER
        left = (min(known) - self._access.now()).total_seconds()
        return self._clock() + min(left, LOOK_AGAIN_S)


def _permits(rights: Rights, target: Target) -> bool:
    if rights.all_tools:
        return True
    if target.tool is not None:
        return rights.invokes(target.tool.exposed)
    return rights.invokes_all_of(target.server)


def _wider_key(principal: Principal, target: Target) -> str:
    """How to be allowed where the key itself does not permit the target: a grant would not help."""
    if not principal.key:
        return ""
    what = target.tool.exposed if target.tool is not None else f"{target.server}__*"
    return f"its key does not permit it; the operator makes one: `interlock keys create NAME --permit invoke:{what}`"
