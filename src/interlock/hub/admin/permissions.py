"""How the permissions of servers are looked at and changed, from the terminal and over the admin API.

A yes is a person's: over the control socket one at a terminal, since a program that acts for them is not them; over the
API the holder of a person's key. Whoever may administer can say no.
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

MOST_AT_ONCE: Final = 64

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Row = dict[str, object]


class PermissionOperations:
    """Answers for the permissions of one hub's servers."""

    def __init__(self, permissions: Permissions, access: Access, servers: Callable[[], Iterable[str]]) -> None:
        self._permissions = permissions
        self._access = access
        self._servers = servers

    def shown(self, server: str) -> list[Row]:
        """Every permission of a server, and how it stands."""
        return [self._row(server, standing) for standing in self._permissions.statuses(server)]

    async def list(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """What servers need, and how each of it stands."""
        self._access.demand(asking, "read permissions")
        asked = read(params, ListPermissions)
        servers = list(self._servers()) if asked.server is None else [self._known(asked.server)]
        return {"permissions": [row for server in servers for row in self.shown(server)]}

    async def approve(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Grant them, until they are revoked or expire."""
        self._access.demand(asking, "change permissions", write=True)
        asked = read(params, ApprovePermissions)
        if asked.expires_at is not None and asked.expires_at <= self._permissions.now():
            raise Fault("INVALID_PARAMS", "expires_at is over already", hint="name an instant to come, with its zone")
        return await self._put(asking, asked, "approved", trace, expires_at=asked.expires_at)

    async def approve_at_terminal(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """The same over the control socket."""
        if not read(params, _Attended).terminal:
            hint = "run `interlock permissions approve` in a terminal"
            raise Fault("ACCESS_DENIED", "an approval needs a person at a terminal", hint=hint)
        return await self.approve(asking, params, trace)

    async def deny(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Deny them."""
        self._access.demand(asking, "change permissions", write=True)
        return await self._put(asking, read(params, ChangePermissions), "denied", trace)

    async def revoke(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Take back those that a server has."""
        self._access.demand(asking, "change permissions", write=True)
        asked = read(params, ChangePermissions)
        self._known(asked.server)
        standings = [self._permissions.status(asked.server, name) for name in expand(asked.permissions)]
        held = [each.permission for each in standings if each.grant == "approved"]
        if not held:
            hint = "`interlock permissions list` says how they stand"
            raise Fault("INVALID_PARAMS", f"{asked.server[:100]} has none of these", hint=hint)
        return await self._put(asking, msgspec.structs.replace(asked, permissions=held), "denied", trace, revoked=True)

    async def _put(
        self,
        asking: Principal,
        asked: ChangePermissions,
        grant: Literal["approved", "denied"],
        trace: str,
        *,
        expires_at: Instant | None = None,
        revoked: bool = False,
    ) -> dict[str, object]:
        server = self._known(asked.server)
        names = expand(asked.permissions)
        for name in names:
            await self._permissions.put(
                server, name, grant, asking, expires_at=expires_at, revoked=revoked, reason=asked.because, trace=trace
            )
        return {"permissions": [self._row(server, self._permissions.status(server, name)) for name in names]}

    def _row(self, server: str, standing: PermissionStatus) -> Row:
        entry = self._permissions.entry(server, standing.permission)
        return {
            "server": server,
            "permission": standing.permission,
            "risk": risk_of(standing.permission).word,
            "grant": standing.grant,
            "rule": standing.rule,
            "by": standing.by or None,
            "at": None if entry is None else entry.at,
            "expires_at": standing.expires_at,
            "because": "" if entry is None else entry.reason,
            "decision": standing.decision or None,
            "tools": self._permissions.tools_naming(server, standing.permission),
        }

    def _known(self, server: str) -> str:
        if server not in self._servers():
            raise Fault("NOT_FOUND", f"no server {server[:100]!r}", hint="`interlock status` names them")
        return server


class ListPermissions(msgspec.Struct):
    """Of one server, or of all."""

    server: str | None = None


class ChangePermissions(msgspec.Struct):
    """Which permissions of which server, and why."""

    server: Name
    permissions: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)]
    because: Annotated[str, msgspec.Meta(max_length=MAX_JUSTIFICATION)] = ""


class ApprovePermissions(ChangePermissions):
    """The same, and until when."""

    expires_at: Instant | None = None


class _Attended(msgspec.Struct):
    terminal: bool = False
