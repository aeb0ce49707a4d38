"""MGP's access control: `mgp/access/query`, `grant` and `revoke`. Operators use the same methods.

The grantor is the principal of the credential, never a name in the request (MGP, Access Control Protocol).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Protocol

import msgspec

from interlock.config.names import adopt_id
from interlock.hub.auth.access import Access
from interlock.hub.auth.grants import Grant, Grants, grant_id
from interlock.hub.auth.principals import SERVER, Principal
from interlock.hub.catalog.target import CLIENT_TARGETS
from interlock.hub.catalog.views import Catalog
from interlock.protocols.mgp.access import EntryType, Permission, Source
from interlock.wire.errors import Fault
from interlock.wire.spelling import meant

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]

MAX_JUSTIFICATION: Final = 2_000


class AccessMethods:
    """Reads and changes grants."""

    def __init__(self, access: Access, grants: Grants, record: GrantRecord, catalog: Catalog) -> None:
        self._access = access
        self._catalog = catalog
        self._grants = grants
        self._record = record

    async def list(self, principal: Principal, params: ListGrants, trace: str = "") -> GrantRows:
        """Every grant, or those of one agent."""
        found = self._grants.list() if params.agent is None else self._grants.of_agent(params.agent)
        now = self._access.now()
        shown = sorted(found, key=lambda grant: (*grant.subject[:2], grant.tool_name or ""))[: params.most]
        rows = [GrantRow(**msgspec.structs.asdict(grant), expired=not grant.holds(now)) for grant in shown]
        return GrantRows(rows, len(found))

    async def query(self, principal: Principal, params: AccessQueryParams, trace: str = "") -> AccessAnswer:
        """`mgp/access/query`: what an agent may do, and why. Every agent may ask about itself."""
        agent = params.agent_id or principal.id
        if agent != principal.id:
            self._access.demand(principal, "read grants")
        server = self._server_id(params.server_id)
        decision = self._access.decision(self._subject(principal, agent), server, params.tool_name)
        entry = decision.entry
        by = () if entry is None else (entry.granted_by, entry.granted_at, entry.expires_at)
        return AccessAnswer(decision.permission, decision.source, *by)

    async def grant(self, principal: Principal, params: GrantParams, trace: str = "") -> GrantResult:
        """`mgp/access/grant`: allow or deny. A denial at the same level still wins: see `effective`."""
        self._access.demand(principal, "change grants", write=True)
        if (params.entry_type == "tool_grant") != (params.tool_name is not None):
            raise Fault("INVALID_PARAMS", "a tool grant names its tool, a server grant names none")
        params = msgspec.structs.replace(params, server_id=self._server_id(params.server_id))
        self._check_exists(params.agent_id, params.server_id, params.tool_name)
        if params.permission == "allow":
            self._check_own_rights(principal, params.server_id, params.tool_name)
        now = self._access.now()
        if params.expires_at is not None and params.expires_at <= now:
            raise Fault("INVALID_PARAMS", "expires_at is in the past", hint="give a future time with its zone")
        subject = (params.agent_id, params.server_id, params.tool_name)
        grant = Grant(
            params.entry_type,
            *subject[:2],
            params.permission,
            params.tool_name,
            principal.id,
            now,
            params.expires_at,
            params.justification,
            id=grant_id(*subject, params.permission),
        )
        await self._grants.put(grant, self._record.granted(principal, grant, trace))
        decision = self._access.decision(self._subject(principal, params.agent_id), params.server_id, params.tool_name)
        return GrantResult(True, principal.id, now, decision.permission, decision.source)

    async def revoke(self, principal: Principal, params: RevokeParams, trace: str = "") -> RevokedCount:
        """`mgp/access/revoke`: delete the entries at one level. It holds from the next call on.

        Entries of a server that was removed can be deleted. Where there are none, the server and tool must exist.
        """
        self._access.demand(principal, "change grants", write=True)
        params = msgspec.structs.replace(params, server_id=self._server_id(params.server_id))
        subject = (params.agent_id, params.server_id, params.tool_name)
        if self.ends_denial(params):
            self._check_own_rights(principal, params.server_id, params.tool_name)
        revoked = await self._grants.revoke(
            params.entry_type, *subject, record=lambda grant: self._record.revoked(principal, grant, trace)
        )
        if not revoked:
            self._check_exists(*subject)
        return RevokedCount(revoked)

    def ends_denial(self, params: RevokeParams) -> bool:
        """Whether a denial is among the entries to delete. Without it, the agent may call again."""
        subject = (params.agent_id, self._server_id(params.server_id), params.tool_name)
        return any(entry.permission == "deny" for entry in self._grants.at(*subject) if entry.subject == subject)

    def _server_id(self, named: str) -> str:
        """The hub's id of a server that may be named as its creator wrote it, such as `dynamic.stats`."""
        adopted = adopt_id(named)
        if adopted is None or self._exists(named):
            return named
        return adopted if self._exists(adopted) else named

    def _exists(self, server: str) -> bool:
        return self._catalog.offer(server) is not None or self._access.is_configured(server)

    def _check_exists(self, agent: str, server: str, tool: str | None) -> None:
        """Refuse an entry for a server or tool that does not exist: a denial with a typing error would deny nothing."""
        offer = self._catalog.offer(server)
        if not self._exists(server):
            hint = meant(server, self._catalog.offers(), "`interlock status` shows all servers")
            raise Fault("INVALID_PARAMS", f"there is no server {server[:200]!r}", hint=hint)
        known = set() if offer is None else offer.all_tool_names()
        if agent.startswith(SERVER):
            # A server calls nothing but its own requests to clients.
            if agent != f"{SERVER}{server}":
                raise Fault(
                    "INVALID_PARAMS", f"{agent[:200]} asks clients only as {agent.removeprefix(SERVER)[:200]!r}"
                )
            known = {name for _, name in CLIENT_TARGETS.values()}
        if tool is not None and known and tool not in known:
            hint = meant(tool, known, f"`interlock list --server {server}` shows its tools")
            raise Fault("INVALID_PARAMS", f"{server} has no tool {tool[:200]!r}", hint=hint)

    def _check_own_rights(self, principal: Principal, server: str, tool: str | None) -> None:
        """A key gives others no access to tools that it does not permit itself. The terminal has no key."""
        if not principal.key:
            return
        rights = self._access.rights(principal)
        named = tool is not None and rights is not None and rights.invokes(f"{server}__{tool}")
        if rights is None or not (named or rights.invokes_all_of(server)):
            target = server if tool is None else f"{server}__{tool}"
            message = f"{principal.id} cannot grant access to {target}, which its own key does not permit"
            raise Fault("PERMISSION_DENIED", message, hint="use a key with `invoke:` for it, or the terminal")

    def _subject(self, principal: Principal, agent: str) -> Principal:
        """The principal that the request is about, with its kind for the default policy."""
        return principal if agent == principal.id else Principal(agent, self._access.kind_of(agent))


class GrantRecord(Protocol):
    """Makes the audit records of grants, which are committed with them."""

    def granted(self, by: Principal, grant: Grant, trace: str = "") -> object:
        """An agent is allowed or denied something."""

    def revoked(self, by: Principal, grant: Grant, trace: str = "") -> object:
        """A grant or denial is deleted."""


class ListGrants(msgspec.Struct):
    """Which grants to list."""

    agent: Name | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000


class AccessQueryParams(msgspec.Struct):
    """Params of `mgp/access/query`."""

    server_id: Name
    agent_id: Name | None = None
    tool_name: Name | None = None


class GrantParams(msgspec.Struct):
    """Params of `mgp/access/grant`. A `granted_by` is ignored."""

    entry_type: EntryType
    agent_id: Name
    server_id: Name
    permission: Permission
    tool_name: Name | None = None
    justification: Annotated[str, msgspec.Meta(max_length=MAX_JUSTIFICATION)] = ""
    expires_at: Instant | None = None


class RevokeParams(msgspec.Struct):
    """Params of `mgp/access/revoke`."""

    entry_type: EntryType
    agent_id: Name
    server_id: Name
    tool_name: Name | None = None


class GrantRow(Grant, frozen=True, kw_only=True, omit_defaults=True):
    """A grant or a denial."""

    expired: bool


class GrantRows(msgspec.Struct):
    """Grants and denials, and their total number."""

    grants: list[GrantRow]
    total: int


class AccessAnswer(msgspec.Struct):
    """The rights of an agent, with the reason."""

    permission: Permission
    source: Source
    granted_by: str | None = None
    granted_at: datetime | None = None
    expires_at: datetime | None = None


class GrantResult(msgspec.Struct):
    """The new entry, and the decision that results."""

    granted: bool
    granted_by: str
    granted_at: datetime
    effective: Permission
    source: Source


class RevokedCount(msgspec.Struct):
    """How many were revoked."""

    revoked: int
