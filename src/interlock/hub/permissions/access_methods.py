"""The methods of MGP's access control: `mgp/access/query`, `grant` and `revoke`; the control methods use the same.

Who granted is the credential that asked, never what the request says of it (MGP, Access Control Protocol).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Final, Protocol, TypeVar

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.auth.grants import Grant, Grants, grant_id
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import Later
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

LONGEST_JUSTIFICATION: Final = 2_000


class AccessMethods:
    """Answers for access control."""

    def __init__(self, access: Access, grants: Grants, record: GrantRecord) -> None:
        self._access = access
        self._grants = grants
        self._record = record

    def methods(self, later: Later) -> dict[str, Callable[[Exchange, Caller], None]]:
        """What clients may send."""
        work = {"query": self.query, "grant": self.grant, "revoke": self.revoke}
        return {f"mgp/access/{name}": self._method(f"mgp/access/{name}", do, later) for name, do in work.items()}

    async def list(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Every grant, or those of one agent."""
        self._access.demand(asking, "read grants")
        asked = read(params, ListGrants)
        found = self._grants.list() if asked.agent is None else self._grants.of_agent(asked.agent)
        now = self._access.now()
        shown = sorted(found, key=lambda grant: (*grant.place[:2], grant.tool_name or ""))[: asked.most]
        told = [{**msgspec.to_builtins(grant), "expired": not grant.holds(now)} for grant in shown]
        return {"grants": told, "total": len(found)}

    async def query(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """`mgp/access/query`: what an agent may, and by what. Of oneself, or with the right to read of others."""
        asked = read(params, Query)
        agent = asked.agent_id or asking.id
        if agent != asking.id:
            self._access.demand(asking, "read grants")
        decision = self._access.decision(self._subject(asking, agent), asked.server_id, asked.tool_name)
        entry = decision.entry
        said: dict[str, object] = {
            "permission": decision.permission,
            "source": decision.source,
            "granted_by": None if entry is None else entry.granted_by,
            "granted_at": None if entry is None else entry.granted_at,
            "expires_at": None if entry is None else entry.expires_at,
        }
        return said

    async def grant(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """`mgp/access/grant`: allow or deny. A denial at the same level still wins, and the answer says so."""
        self._access.demand(asking, "change grants", write=True)
        asked = read(params, Give)
        if (asked.entry_type == "tool_grant") != (asked.tool_name is not None):
            raise Fault("INVALID_PARAMS", "a tool grant names its tool, a server grant names none")
        now = self._access.now()
        if asked.expires_at is not None and asked.expires_at <= now:
            raise Fault("INVALID_PARAMS", "expires_at is over already", hint="name an instant to come, with its zone")
        place = (asked.agent_id, asked.server_id, asked.tool_name)
        grant = Grant(
            asked.entry_type,
            *place[:2],
            asked.permission,
            asked.tool_name,
            asking.id,
            now,
            asked.expires_at,
            asked.justification,
            id=grant_id(*place, asked.permission),
        )
        await self._grants.put(grant, self._record.granted(asking, grant, trace))
        standing = self._access.decision(self._subject(asking, asked.agent_id), asked.server_id, asked.tool_name)
        return {
            "granted": True,
            "granted_by": asking.id,
            "granted_at": now,
            "effective": standing.permission,
            "source": standing.source,
        }

    async def revoke(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """`mgp/access/revoke`: take back what was said at one level. The next call is judged without it."""
        self._access.demand(asking, "change grants", write=True)
        asked = read(params, Take)
        place = (asked.agent_id, asked.server_id, asked.tool_name)
        gone = await self._grants.revoke(
            asked.entry_type, *place, record=lambda grant: self._record.revoked(asking, grant, trace)
        )
        return {"revoked": gone}

    def _method(self, name: str, do: Work, later: Later) -> Callable[[Exchange, Caller], None]:
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

        return lambda exchange, caller: later(answer(exchange, caller))

    def _subject(self, asking: Principal, agent: str) -> Principal:
        """The principal that is spoken of, as far as default policies tell kinds apart."""
        return asking if agent == asking.id else Principal(agent, self._access.kind_of(agent))


class GrantRecord(Protocol):
    """What is recorded of grants, in the same commit."""

    def granted(self, by: Principal, grant: Grant, trace: str = "") -> object:
        """An agent is allowed something, or denied it."""

    def revoked(self, by: Principal, grant: Grant, trace: str = "") -> object:
        """What was said of an agent's access is taken back."""

    def refused(self, by: Principal, what: str, fault: Fault, trace: str = "") -> None:
        """Someone tried what they may not."""


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
    """Params of `mgp/access/grant`. A `granted_by` among them is passed over."""

    entry_type: EntryType
    agent_id: Name
    server_id: Name
    permission: Permission
    tool_name: Name | None = None
    justification: Annotated[str, msgspec.Meta(max_length=LONGEST_JUSTIFICATION)] = ""
    expires_at: Instant | None = None


class Take(msgspec.Struct):
    """Params of `mgp/access/revoke`."""

    entry_type: EntryType
    agent_id: Name
    server_id: Name
    tool_name: Name | None = None


def read(params: bytes, kind: type[Params]) -> Params:
    """Params as they must be. Raises INVALID_PARAMS."""
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.DecodeError as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None
