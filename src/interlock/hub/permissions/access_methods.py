"""The methods of MGP's access control: `mgp/access/query`, `grant` and `revoke`. The control methods use them too.

The grantor is the principal of the credential, never a name in the request (MGP, Access Control Protocol).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Final, Protocol, TypeVar

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.auth.grants import Grant, Grants, grant_id
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Caller
from interlock.hub.calls.recording import trace_of
from interlock.hub.store_faults import fault_of
from interlock.protocols.mcp.results import complete
from interlock.protocols.mgp.access import EntryType, Permission
from interlock.store import StoreError
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault

Params = TypeVar("Params", bound=msgspec.Struct)
Work = Callable[[Principal, bytes, str], Coroutine[None, None, dict[str, object]]]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]

MAX_JUSTIFICATION: Final = 2_000


class AccessMethods:
    """Reads and changes grants."""

    def __init__(self, access: Access, grants: Grants, record: GrantRecord) -> None:
        self._access = access
        self._grants = grants
        self._record = record

    def methods(self, background: BackgroundTasks) -> dict[str, Callable[[Exchange, Caller], None]]:
        """The handlers of the methods that clients may send."""
        work = {"query": self.query, "grant": self.grant, "revoke": self.revoke}
        return {f"mgp/access/{name}": self._method(f"mgp/access/{name}", do, background) for name, do in work.items()}

    async def list(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Every grant, or those of one agent."""
        self._access.demand(principal, "read grants")
        request = read(params, ListGrants)
        found = self._grants.list() if request.agent is None else self._grants.of_agent(request.agent)
        now = self._access.now()
        shown = sorted(found, key=lambda grant: (*grant.subject[:2], grant.tool_name or ""))[: request.most]
        rows = [{**msgspec.to_builtins(grant), "expired": not grant.holds(now)} for grant in shown]
        return {"grants": rows, "total": len(found)}

    async def query(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """`mgp/access/query`: what an agent may do, and why. Every agent may ask about itself."""
        request = read(params, Query)
        agent = request.agent_id or principal.id
        if agent != principal.id:
            self._access.demand(principal, "read grants")
        decision = self._access.decision(self._subject(principal, agent), request.server_id, request.tool_name)
        entry = decision.entry
        return {
            "permission": decision.permission,
            "source": decision.source,
            "granted_by": None if entry is None else entry.granted_by,
            "granted_at": None if entry is None else entry.granted_at,
            "expires_at": None if entry is None else entry.expires_at,
        }

    async def grant(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """`mgp/access/grant`: allow or deny. A denial at the same level still wins: see `effective`."""
        self._access.demand(principal, "change grants", write=True)
        request = read(params, Give)
        if (request.entry_type == "tool_grant") != (request.tool_name is not None):
            raise Fault("INVALID_PARAMS", "a tool grant names its tool, a server grant names none")
        now = self._access.now()
        if request.expires_at is not None and request.expires_at <= now:
            raise Fault("INVALID_PARAMS", "expires_at is in the past", hint="give a future time with its zone")
        subject = (request.agent_id, request.server_id, request.tool_name)
        grant = Grant(
            request.entry_type,
            *subject[:2],
            request.permission,
            request.tool_name,
            principal.id,
            now,
            request.expires_at,
            request.justification,
            id=grant_id(*subject, request.permission),
        )
        await self._grants.put(grant, self._record.granted(principal, grant, trace))
        decision = self._access.decision(
            self._subject(principal, request.agent_id), request.server_id, request.tool_name
        )
        return {
            "granted": True,
            "granted_by": principal.id,
            "granted_at": now,
            "effective": decision.permission,
            "source": decision.source,
        }

    async def revoke(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """`mgp/access/revoke`: delete the entries at one level. It holds from the next call on."""
        self._access.demand(principal, "change grants", write=True)
        request = read(params, Take)
        subject = (request.agent_id, request.server_id, request.tool_name)
        revoked = await self._grants.revoke(
            request.entry_type, *subject, record=lambda grant: self._record.revoked(principal, grant, trace)
        )
        return {"revoked": revoked}

    def _method(self, name: str, do: Work, background: BackgroundTasks) -> Callable[[Exchange, Caller], None]:
        async def answer(exchange: Exchange, caller: Caller) -> None:
            trace = trace_of(exchange)
            try:
                result = msgspec.json.encode(await do(caller.principal, exchange.request.params, trace))
            except Fault as fault:
                self._record.refused(caller.principal, name, fault, trace)
                exchange.fail(fault)
            except StoreError as cause:
                exchange.fail(fault_of(cause))
            else:
                exchange.result(complete(result) if exchange.dialect.modern else result)

        return lambda exchange, caller: background.begin(answer(exchange, caller))

    def _subject(self, principal: Principal, agent: str) -> Principal:
        """The principal that the request is about, with its kind for the default policy."""
        return principal if agent == principal.id else Principal(agent, self._access.kind_of(agent))


class GrantRecord(Protocol):
    """Makes the audit records of grants, which are committed with them."""

    def granted(self, by: Principal, grant: Grant, trace: str = "") -> object:
        """An agent is allowed or denied something."""

    def revoked(self, by: Principal, grant: Grant, trace: str = "") -> object:
        """A grant or denial is deleted."""

    def refused(self, by: Principal, action: str, fault: Fault, trace: str = "") -> None:
        """A principal tried something without the right to."""


class ListGrants(msgspec.Struct):
    """Which grants to list."""

    agent: Name | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1000


class Query(msgspec.Struct):
    """Params of `mgp/access/query`."""

    server_id: Name
    agent_id: Name | None = None
    tool_name: Name | None = None


class Give(msgspec.Struct):
    """Params of `mgp/access/grant`. A `granted_by` is ignored."""

    entry_type: EntryType
    agent_id: Name
    server_id: Name
    permission: Permission
    tool_name: Name | None = None
    justification: Annotated[str, msgspec.Meta(max_length=MAX_JUSTIFICATION)] = ""
    expires_at: Instant | None = None


class Take(msgspec.Struct):
    """Params of `mgp/access/revoke`."""

    entry_type: EntryType
    agent_id: Name
    server_id: Name
    tool_name: Name | None = None


def read(params: bytes, kind: type[Params]) -> Params:
    """Decode params. Raises INVALID_PARAMS."""
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.DecodeError as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None
