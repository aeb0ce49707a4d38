"""What people and policies decide: the inbox, who is told of it, what servers may do, whether tools are the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from interlock.hub.admin.permissions import PermissionOperations
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.notifiers import ApprovalNotifiers
from interlock.hub.approvals.pins import Pins
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.catalog.offer import Offer, Tool
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.server_policies import ServerPolicies
from interlock.hub.foundation import Foundation
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mgp.permissions import Risk
from interlock.transports.call_parking import CallParking


class ApprovalParts:
    """Everything that waits for a decision. `show` puts an offer into the catalog, `judge` looks at it before that."""

    def __init__(
        self,
        foundation: Foundation,
        admitting: AuthenticationParts,
        upstreams: Upstreams,
        parking: CallParking,
        states: RequestStates,
        *,
        judge: Callable[[Offer], Awaitable[None]],
        show: Callable[[Offer], None],
    ) -> None:
        self._foundation = foundation
        self._upstreams = upstreams
        journal = foundation.journal
        self.inbox = Inbox(
            lambda: foundation.config.hub.approvals.valid_s,
            still_allowed=admitting.still_asks,
            record=journal.decided,
            record_rule=journal.rule,
        )
        self.notifiers = ApprovalNotifiers(lambda: foundation.config.hub, foundation.resolver, foundation.note)
        self.server_policies = ServerPolicies(
            lambda: foundation.config,
            upstreams,
            self.inbox,
            foundation.policy_version,
            show=show,
            journal=journal,
            log=foundation.note,
        )
        self.permissions = self.server_policies.permissions
        self.permission_operations = PermissionOperations(
            self.permissions, admitting.access, lambda: foundation.config.servers
        )
        self.desk = CallApprovals(
            self.inbox,
            lambda: foundation.config.hub.approvals.hold_s,
            self._attended_by,
            parking,
            states,
            self.server_policies.trust_of,
            self.risk_of,
        )
        self._pins = Pins(
            self.inbox, lambda: foundation.config.hub.mode, judge, self._relist, self.risk_of, foundation.note
        )

    async def begin(self) -> None:
        """Take over what the store holds."""
        await self.inbox.start(self._foundation.store)
        self._pins.start(self._foundation.store)
        await self.permissions.start(self._foundation.store)
        self.inbox.on_change(self.notifiers.on_decision)

    async def close(self) -> None:
        """Nobody is told anything any more."""
        await self.server_policies.close()
        await self.notifiers.close()

    async def take(self, offer: Offer) -> None:
        """What a server offers, before any of it is shown: what its tools need, and whether they are the same."""
        await self.permissions.take(offer)
        await self._pins.take(offer)

    def risk_of(self, tool: Tool) -> Risk:
        """The risk that the hub reckons with."""
        return self.server_policies.risk_of(tool)

    def needs(self, tool: Tool) -> tuple[str, ...]:
        """The permissions that a tool needs."""
        return self.permissions.needs(tool)

    def deferred(self, tool: Tool) -> str:
        """The question that is open about a permission that a tool lacks, unless another was denied."""
        lacking, _ = self.permissions.missing(tool)
        if any(standing.grant == "denied" for standing in lacking):
            return ""
        return next((standing.decision for standing in lacking if standing.decision), "")

    def is_attended(self, principal: Principal) -> bool:
        """Whether a person is there to answer for a caller who is none: before their client, or at the inbox."""
        return principal.kind != "person" and (self.inbox.watched or self._attended_by(principal) is not None)

    def _attended_by(self, principal: Principal) -> str | None:
        agent = self._foundation.config.agents.get(principal.id) if principal.kind == "agent" else None
        return None if agent is None else agent.attended_by

    def _relist(self, server: str) -> None:
        upstream = self._upstreams.get(server)
        if upstream is not None:
            upstream.lists_changed()
