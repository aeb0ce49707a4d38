"""The policies of each server: its MGP agreement, its trust level and its permissions.

A change holds from the next call on: plans are dropped, lists are rebuilt, and the server is notified.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.client.connection import Connection
from interlock.config.settings import Config
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.permission_entries import PermissionEntry, PermissionStatus
from interlock.hub.approvals.permission_policy import status_of
from interlock.hub.approvals.permissions import Log, PermissionEvent, Permissions
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.gates.risk import RiskPolicy
from interlock.hub.calls.plan import PlanGeneration
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.offer import Offer
from interlock.hub.journal import Journal
from interlock.hub.upstreams.commands import Command, Reason
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.hub.upstreams.permission_exchange import PermissionExchange
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.task_set import TaskSet
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import Trust, lower_trust


class ServerPolicies:
    """The policies of one hub's servers."""

    def __init__(
        self,
        config: Callable[[], Config],
        upstreams: Upstreams,
        inbox: Inbox,
        plan_generation: PlanGeneration,
        *,
        show: Callable[[Offer], None],
        journal: Journal,
        log: Log,
    ) -> None:
        self._config = config
        self._upstreams = upstreams
        self._plan_generation = plan_generation
        self._show = show
        self._journal = journal
        self.permissions = Permissions(
            inbox,
            config,
            self.trust_of,
            changed=self._changed,
            log=log,
            record=self._record,
            record_entry=self._record_of,
        )
        self.risk = RiskPolicy(lambda: config().hub.mode, self.trust_of, self.permissions.needs)
        self._exchange = PermissionExchange(self.permissions, inbox, lambda: config().hub.approvals.hold_s, log)
        self._agreed: dict[str, Agreement | None] = {}
        self._tasks = TaskSet()

    def trust_of(self, server: str) -> Trust:
        """The configured trust level of a server, or a lower one that it claims itself."""
        settings = self._config().servers.get(server)
        upstream = self._upstreams.get(server)
        agreed = None if upstream is None else upstream.agreement
        configured = Trust.SANDBOXED if settings is None else Trust[settings.trust.upper()]
        return lower_trust(configured, None if agreed is None else agreed.offer.trust_level)

    def risk_of(self, tool: Tool) -> Risk:
        """The effective risk of a tool."""
        return self.risk.risk_of(tool)

    async def prepared(self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool) -> None:
        """Handle a new connection before its first request. Raises PERMISSION_DENIED if the server must not be used."""
        if shared and self._agreed.get(server) != agreement:
            self._agreed[server] = agreement
            self._plan_generation.advance()
        await self._exchange.prepare(server, connection, agreement, shared=shared)

    async def close(self) -> None:
        await self.permissions.close()
        await self._tasks.close()

    def _changed(self, server: str) -> None:
        self._plan_generation.advance()
        offer = self.permissions.filtered_again(server)
        if offer is not None:
            self._show(offer)
        upstream = self._upstreams.get(server)
        if upstream is not None:
            self._tasks.begin(self._notify(upstream))

    async def _notify(self, upstream: Upstream) -> None:
        if upstream.refused or self.permissions.refusal(upstream.id) is not None:
            # Every connection is checked at its start, so a restart admits or refuses the server.
            await upstream.supervisor.command(Command("restart", Reason.CONFIGURATION_CHANGE, drain_s=0))
            return
        supported = upstream.agreement is not None and upstream.agreement.speaks("security")
        for connection in upstream.pool.connections() if supported else ():
            await self._exchange.tell(upstream.id, connection)

    def _record(self, event: PermissionEvent, server: str, status: PermissionStatus) -> None:
        by = NOBODY if status.by_kind is None else Principal(status.by, status.by_kind)
        self._journal.settled(event, by, server, status.permission, status.rule)

    def _record_of(self, entry: PermissionEntry, by: Principal, trace: str) -> object:
        event: PermissionEvent = "PERMISSION_REVOKED" if entry.revoked else "PERMISSION_DENIED"
        if entry.grant == "approved":
            event = "PERMISSION_GRANTED"
        return self._journal.permission(event, by, entry.server, entry.permission, status_of(entry).rule, trace)
