"""Operations on the permissions of servers.

Only a person approves: over the control socket one at a terminal, since a program may act for its user; over the API
the holder of a person's key. An administrator can deny.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from interlock.hub.admin.operation import ControlFlag, Secret
from interlock.hub.admin.people import need_person
from interlock.hub.admin.servers import known_server
from interlock.hub.app import HubApp
from interlock.hub.approvals.permission_entries import PermissionStatus
from interlock.hub.approvals.permissions import Permissions
from interlock.hub.auth.access_methods import MAX_JUSTIFICATION, Instant
from interlock.hub.auth.principals import Principal
from interlock.protocols.mgp.permissions import MAX_NAME_CHARS, Grant, expand, risk_of
from interlock.wire.errors import Fault

MAX_AT_ONCE: Final = 64

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARS)]


class PermissionOperations:
    """The operations on the permissions of one hub's servers."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._permissions = hub_app.permissions

    async def list(self, by: Principal, params: ListPermissions, trace: str) -> PermissionRows:
        """The permissions that servers need, with their statuses."""
        servers = (
            [*self._hub_app.config.servers] if params.server is None else [known_server(self._hub_app, params.server)]
        )
        return PermissionRows([row for server in servers for row in permission_rows(self._permissions, server)])

    async def approve(self, by: Principal, params: ApprovePermissions, trace: str) -> PermissionRows:
        """Grant permissions, until they are revoked or expire."""
        hint = "run `interlock permissions approve` in a terminal"
        await need_person(self._hub_app, by, "an approval", hint, present=params.terminal, passphrase=params.passphrase)
        if params.expires_at is not None and params.expires_at <= self._permissions.now():
            raise Fault("INVALID_PARAMS", "expires_at is in the past", hint="give a future time with its zone")
        return await self._put(by, params, "approved", trace, expires_at=params.expires_at)

    async def deny(self, by: Principal, params: ChangePermissions, trace: str) -> PermissionRows:
        """Deny permissions."""
        return await self._put(by, params, "denied", trace)

    async def revoke(self, by: Principal, params: ChangePermissions, trace: str) -> PermissionRows:
        """Revoke granted permissions."""
        known_server(self._hub_app, params.server)
        statuses = [self._permissions.status(params.server, name) for name in expand(params.permissions)]
        granted = [each.permission for each in statuses if each.grant == "approved"]
        if not granted:
            hint = "`interlock permissions list` shows their status"
            raise Fault("INVALID_PARAMS", f"{params.server[:100]} has none of these permissions", hint=hint)
        return await self._put(by, msgspec.structs.replace(params, permissions=granted), "denied", trace, revoked=True)

    async def _put(
        self,
        by: Principal,
        params: ChangePermissions,
        grant: Literal["approved", "denied"],
        trace: str,
        *,
        expires_at: datetime | None = None,
        revoked: bool = False,
    ) -> PermissionRows:
        server, because = known_server(self._hub_app, params.server), params.because
        names = expand(params.permissions)
        for name in names:
            await self._permissions.put(
                server, name, grant, by, expires_at=expires_at, revoked=revoked, reason=because, trace=trace
            )
        return PermissionRows(
            [_row(self._permissions, server, self._permissions.status(server, name)) for name in names]
        )


def permission_rows(permissions: Permissions, server: str) -> list[PermissionRow]:
    """Every permission of a server, with its status."""
    return [_row(permissions, server, status) for status in permissions.statuses(server)]


def _row(permissions: Permissions, server: str, status: PermissionStatus) -> PermissionRow:
    entry = permissions.entry(server, status.permission)
    return PermissionRow(
        server=server,
        permission=status.permission,
        risk=risk_of(status.permission).word,
        grant=status.grant,
        rule=status.rule,
        by=status.by or None,
        at=None if entry is None else entry.at,
        expires_at=status.expires_at,
        because="" if entry is None else entry.reason,
        decision=status.decision or None,
        tools=permissions.tools_naming(server, status.permission),
    )


class ListPermissions(msgspec.Struct):
    """The permissions of one server, or of all."""

    server: str | None = None


class ChangePermissions(msgspec.Struct):
    """Permissions of a server, and the reason for the change."""

    server: Name
    permissions: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MAX_AT_ONCE)]
    because: Annotated[str, msgspec.Meta(max_length=MAX_JUSTIFICATION)] = ""


class ApprovePermissions(ChangePermissions):
    """Permissions of a server to approve, and until when."""

    expires_at: Instant | None = None
    passphrase: Secret = ""
    """Where the hub has one."""
    terminal: ControlFlag = False


class PermissionRow(msgspec.Struct):
    """A permission of a server, with its status."""

    server: str
    permission: str
    risk: str
    grant: Grant
    rule: str
    by: str | None
    at: datetime | None
    expires_at: datetime | None
    because: str
    decision: str | None
    """The open approval request about it."""
    tools: list[str]


class PermissionRows(msgspec.Struct):
    """Permissions of servers."""

    permissions: list[PermissionRow]
