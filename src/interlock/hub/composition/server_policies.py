"""What holds for each server beyond being reached: what was agreed with it, how far it is trusted, and what it may do.

Whatever changes here holds from the next call on: plans are old, lists are made anew, and the server is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.client.connection import Connection
from interlock.config.settings import Config
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.plan import PolicyVersion
from interlock.hub.catalog.offer import Offer, Tool
from interlock.hub.journal import Journal, PermissionEvent
from interlock.hub.permissions.entries import Entry, PermissionStatus
from interlock.hub.permissions.permissions import Log, Permissions
from interlock.hub.permissions.policy import status_of
from interlock.hub.permissions.server_exchange import PermissionExchange
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import Trust, effective_risk, lower_trust, read_security


class ServerPolicies:
    """Answers for the servers of one hub."""

    def __init__(
        self,
        config: Callable[[], Config],
        upstreams: Upstreams,
        inbox: Inbox,
        policy_version: PolicyVersion,
        *,
        show: Callable[[Offer], None],
        journal: Journal,
        log: Log,
    ) -> None:
        self._config = config
        self._upstreams = upstreams
        self._policy_version = policy_version
        self._show = show
        self._journal = journal
        self.permissions = Permissions(
            inbox,
            config,
            self.trust_of,
            changed=self._changed,
            log=log,
            record=self._record,
            record_entry=self._recorded,
        )
        self._telling = PermissionExchange(self.permissions, inbox, lambda: config().hub.approvals.hold_s, log)
        self._agreed: dict[str, Agreement | None] = {}
        self._informing: set[asyncio.Task[None]] = set()

    def trust_of(self, server: str) -> Trust:
        """How far a server's word counts: what the operator gave it, or less where it says so itself."""
        settings = self._config().servers.get(server)
        upstream = self._upstreams.get(server)
        agreed = None if upstream is None else upstream.agreement
        given = Trust.SANDBOXED if settings is None else Trust[settings.trust.upper()]
        return lower_trust(given, None if agreed is None else agreed.offer.trust_level)

    def risk_of(self, tool: Tool) -> Risk:
        """What the hub reckons with before a tool is called."""
        declared, hints = read_security(tool.definition)
        return effective_risk(declared, hints, self.trust_of(tool.server), self.permissions.needs(tool))

    async def prepared(self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool) -> None:
        """A server has introduced itself. Raises PERMISSION_DENIED where it must not be used."""
        if shared and self._agreed.get(server) != agreement:
            self._agreed[server] = agreement
            self._policy_version.advance()
        await self._telling.prepare(server, connection, agreement, shared=shared)

    async def close(self) -> None:
        """Tell nobody any more."""
        await self.permissions.close()
        for task in list(self._informing):
            task.cancel()
        await asyncio.gather(*self._informing, return_exceptions=True)

    def _changed(self, server: str) -> None:
        self._policy_version.advance()
        offer = self.permissions.filtered_again(server)
        if offer is not None:
            self._show(offer)
        upstream = self._upstreams.get(server)
        if upstream is not None:
            task = asyncio.ensure_future(self._inform(upstream))
            self._informing.add(task)
            task.add_done_callback(self._informing.discard)

    async def _inform(self, upstream: Upstream) -> None:
        if upstream.refused or self.permissions.refusal(upstream.id) is not None:
            # It is let in, or shown out, where every connection begins.
            await upstream.restart()
            return
        speaking = upstream.agreement is not None and upstream.agreement.speaks("security")
        for connection in upstream.connections() if speaking else ():
            await self._telling.tell(upstream.id, connection)

    def _record(self, event: PermissionEvent, server: str, standing: PermissionStatus) -> None:
        by = NOBODY if standing.by_kind is None else Principal(standing.by, standing.by_kind)
        self._journal.settled(event, by, server, standing.permission, standing.rule)

    def _recorded(self, entry: Entry, by: Principal, trace: str) -> object:
        event: PermissionEvent = "PERMISSION_REVOKED" if entry.revoked else "PERMISSION_DENIED"
        if entry.grant == "approved":
            event = "PERMISSION_GRANTED"
        return self._journal.permission(event, by, entry.server, entry.permission, status_of(entry).rule, trace)
