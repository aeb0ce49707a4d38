"""How a person looks at the permissions of servers and changes them: the control methods, for whoever runs the hub.

Whoever reaches these was checked to be the user the hub belongs to. A yes also needs them at a terminal: a program that
acts for them is not them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Final

import msgspec

from interlock.hub.access.desk import LONGEST_JUSTIFICATION, Instant, read
from interlock.hub.permissions.entries import Entry, Standing
from interlock.hub.permissions.permissions import Permissions
from interlock.hub.principals import Principal
from interlock.protocols.mgp.permissions import expand, risk_of
from interlock.wire.errors import Fault

MOST_AT_ONCE: Final = 64

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class PermissionsDesk:
    """The control methods of one hub, for one person."""

    def __init__(self, permissions: Permissions, servers: Callable[[], Iterable[str]], person: Principal) -> None:
        self._permissions = permissions
        self._servers = servers
        self._person = person
        self.methods: dict[str, Callable[[bytes], Awaitable[object]]] = {
            "hub/permissions.list": self._list,
            "hub/permissions.approve": self._approve,
            "hub/permissions.deny": self._deny,
            "hub/permissions.revoke": self._revoke,
        }

    def shown(self, server: str) -> list[dict[str, object]]:
        """Every permission of a server, and how it stands."""
        return [self._row(server, standing) for standing in self._permissions.of(server)]

    async def _list(self, params: bytes) -> object:
        asked = read(params, _List)
        servers = list(self._servers()) if asked.server is None else [self._known(asked.server)]
        return {"permissions": [row for server in servers for row in self.shown(server)]}

    async def _approve(self, params: bytes) -> object:
        asked = read(params, _Approve)
        if not asked.terminal:
            mend = "run `interlock permissions approve` in a terminal"
            raise Fault("ACCESS_DENIED", "an approval needs a person at a terminal", mend=mend)
        if asked.expires_at is not None and asked.expires_at <= self._permissions.now():
            raise Fault("INVALID_PARAMS", "expires_at is over already", mend="name an instant to come, with its zone")
        return await self._put(asked, "approved", expires_at=asked.expires_at)

    async def _deny(self, params: bytes) -> object:
        return await self._put(read(params, _Change), "denied")

    async def _revoke(self, params: bytes) -> object:
        asked = read(params, _Change)
        standings = [self._permissions.standing(asked.server, name) for name in expand(asked.permissions)]
        held = [each.permission for each in standings if each.grant == "approved"]
        if not held:
            mend = "`interlock permissions list` says how they stand"
            raise Fault("INVALID_PARAMS", f"{asked.server} has none of these", mend=mend)
        return await self._put(msgspec.structs.replace(asked, permissions=held), "denied", revoked=True)

    async def _put(
        self, asked: _Change, grant: str, *, expires_at: Instant | None = None, revoked: bool = False
    ) -> object:
        server = self._known(asked.server)
        names = expand(asked.permissions)
        for name in names:
            await self._permissions.put(
                server, name, grant, self._person, expires_at=expires_at, revoked=revoked, reason=asked.because
            )
        return {"permissions": [self._row(server, self._permissions.standing(server, name)) for name in names]}

    def _row(self, server: str, standing: Standing) -> dict[str, object]:
        entry: Entry | None = self._permissions.entry(server, standing.permission)
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
            raise Fault("INVALID_PARAMS", f"no server {server[:100]!r}", mend="`interlock status` names them")
        return server


class _List(msgspec.Struct):
    server: str | None = None


class _Change(msgspec.Struct):
    server: str
    permissions: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)]
    because: Annotated[str, msgspec.Meta(max_length=LONGEST_JUSTIFICATION)] = ""


class _Approve(_Change):
    expires_at: Instant | None = None
    terminal: bool = False
