"""Operations on the permissions of servers, for the terminal and the admin API.

Only a person approves: over the control socket one at a terminal, since a program may act for its user; over the API
the holder of a person's key. An administrator can deny.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.permissions.access_methods import MAX_JUSTIFICATION, Instant, read
from interlock.hub.permissions.entries import PermissionStatus
from interlock.hub.permissions.permissions import Permissions
from interlock.protocols.mgp.permissions import LONGEST_NAME, expand, risk_of
from interlock.wire.errors import Fault

MAX_AT_ONCE: Final = 64

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Row = dict[str, object]


class PermissionOperations:
    """The operations on the permissions of one hub's servers."""

    def __init__(self, permissions: Permissions, access: Access, servers: Callable[[], Iterable[str]]) -> None:
        self._permissions = permissions
        self._access = access
        self._servers = servers

    def shown(self, server: str) -> list[Row]:
        """Every permission of a server, with its status."""
        return [self._row(server, status) for status in self._permissions.statuses(server)]

    async def list(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """The permissions that servers need, with their statuses."""
        self._access.demand(principal, "read permissions")
        request = read(params, ListPermissions)
        servers = list(self._servers()) if request.server is None else [self._known(request.server)]
        return {"permissions": [row for server in servers for row in self.shown(server)]}

    async def approve(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Grant permissions, until they are revoked or expire."""
        self._access.demand(principal, "change permissions", write=True)
        request = read(params, ApprovePermissions)
        if request.expires_at is not None and request.expires_at <= self._permissions.now():
            raise Fault("INVALID_PARAMS", "expires_at is in the past", hint="give a future time with its zone")
        return await self._put(principal, request, "approved", trace, expires_at=request.expires_at)

    async def approve_at_terminal(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Grant permissions over the control socket."""
        if not read(params, _Attended).terminal:
            hint = "run `interlock permissions approve` in a terminal"
            raise Fault("ACCESS_DENIED", "an approval needs a person at a terminal", hint=hint)
        return await self.approve(principal, params, trace)

    async def deny(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        self._access.demand(principal, "change permissions", write=True)
        return await self._put(principal, read(params, ChangePermissions), "denied", trace)

    async def revoke(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Revoke granted permissions."""
        self._access.demand(principal, "change permissions", write=True)
        request = read(params, ChangePermissions)
        self._known(request.server)
        statuses = [self._permissions.status(request.server, name) for name in expand(request.permissions)]
        granted = [each.permission for each in statuses if each.grant == "approved"]
        if not granted:
            hint = "`interlock permissions list` shows their status"
            raise Fault("INVALID_PARAMS", f"{request.server[:100]} has none of these permissions", hint=hint)
        return await self._put(
            principal, msgspec.structs.replace(request, permissions=granted), "denied", trace, revoked=True
        )

    async def _put(
        self,
        principal: Principal,
        request: ChangePermissions,
        grant: Literal["approved", "denied"],
        trace: str,
        *,
        expires_at: Instant | None = None,
        revoked: bool = False,
    ) -> dict[str, object]:
        server = self._known(request.server)
        names = expand(request.permissions)
        for name in names:
            await self._permissions.put(
                server,
                name,
                grant,
                principal,
                expires_at=expires_at,
                revoked=revoked,
                reason=request.because,
                trace=trace,
            )
        return {"permissions": [self._row(server, self._permissions.status(server, name)) for name in names]}

    def _row(self, server: str, status: PermissionStatus) -> Row:
        entry = self._permissions.entry(server, status.permission)
        return {
            "server": server,
            "permission": status.permission,
            "risk": risk_of(status.permission).word,
            "grant": status.grant,
            "rule": status.rule,
            "by": status.by or None,
            "at": None if entry is None else entry.at,
            "expires_at": status.expires_at,
            "because": "" if entry is None else entry.reason,
            "decision": status.decision or None,
            "tools": self._permissions.tools_naming(server, status.permission),
        }

    def _known(self, server: str) -> str:
        if server not in self._servers():
            raise Fault("NOT_FOUND", f"no server {server[:100]!r}", hint="`interlock status` shows all servers")
        return server


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


class _Attended(msgspec.Struct):
    terminal: bool = False
