"""Builds the parts for decisions of people and policies: the inbox, its notifiers, server permissions and tool pins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.notifiers import ApprovalNotifiers
from interlock.hub.approvals.passphrase import Passphrase
from interlock.hub.approvals.pins import Pins
from interlock.hub.approvals.sealed_views import ViewSeal
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.calls.verdicts import Ask
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.offer import Offer
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.composition.server_policies import ServerPolicies
from interlock.hub.foundation import Foundation
from interlock.hub.taints import Taints
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.store import Store
from interlock.transports.requests.call_parking import CallParking

UNFOLLOWED_S: Final = 4.0
"""How long a call waits whose client does not follow its progress."""


class ApprovalParts:
    """Everything that needs a decision. `judge` checks an offer, then `show` puts it into the catalog."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
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
            seal=ViewSeal(authentication.keys.derived(b"approvals")),
            bus=foundation.bus,
            still_allowed=authentication.may_still_ask,
            record=journal.decided,
            record_rule=journal.rule,
        )
        self.passphrase = Passphrase(lambda: foundation.config.hub.approvals.passphrase)
        self.notifiers = ApprovalNotifiers(
            lambda: foundation.config.hub, foundation.resolver, foundation.log, self.inbox
        )
        self.server_policies = ServerPolicies(
            lambda: foundation.config,
            upstreams,
            self.inbox,
            foundation.plan_generation,
            show=show,
            journal=journal,
            log=foundation.log,
        )
        self.permissions = self.server_policies.permissions
        self.call_approvals = CallApprovals(
            self.inbox,
            self._hold_s,
            self.attended_by,
            parking,
            states,
            self.server_policies.trust_of,
            self.server_policies.risk_of,
        )
        self.taints = Taints(lambda: foundation.config.hub.approvals.taint_s, journal, foundation.log)
        risk_of = self.server_policies.risk_of
        self._pins = Pins(self.inbox, lambda: foundation.config.hub.mode, judge, self._relist, risk_of, foundation.log)

    def _hold_s(self, principal: Principal, *, progress: bool) -> float:
        """How long a principal's call waits for an answer; `progress`: its client follows the progress of the call."""
        config = self._foundation.config
        agent = config.agents.get(principal.id)
        if agent is not None and agent.hold_s is not None:
            return agent.hold_s
        held = config.hub.approvals.hold_s
        return held if progress else min(held, UNFOLLOWED_S)

    async def start(self) -> None:
        """Load decisions, pins and permissions."""
        await self.passphrase.start(self._foundation.store)
        await self.inbox.start(self._foundation.store)
        self._pins.start(self._foundation.store)
        await self.permissions.start(self._foundation.store)
        await self.taints.start(self._foundation.store)
        self.notifiers.start()

    async def close(self) -> None:
        await self.server_policies.close()
        await self.notifiers.close()
        await self.taints.close()

    @property
    def store(self) -> Store:
        """The hub's store."""
        return self._foundation.store

    async def take(self, offer: Offer) -> None:
        """Check an offer before it is shown: the permissions of its tools and their pins."""
        await self.permissions.take(offer)
        await self._pins.take(offer)

    def deferred(self, tool: Tool) -> str:
        """The open approval request for a missing permission of a tool, unless another was denied."""
        missing, _ = self.permissions.missing(tool)
        if any(status.grant == "denied" for status in missing):
            return ""
        return next((status.decision for status in missing if status.decision), "")

    def asks_about(self, call: Call, ask: Ask) -> bool:
        """Whether a person is asked about a call that only inferred checks object to: if one can answer at the caller's
        client or in the inbox, or was asked before. A request and its answer hold even when people leave."""
        principal = call.caller.principal
        if principal.kind == "person":
            return False
        attended = self.inbox.watched or self.attended_by(principal) is not None
        return attended or self.call_approvals.is_asked(call, ask)

    def attended_by(self, principal: Principal) -> str | None:
        """The person before the client of a principal, where the operator named one.

        A client can answer for its person. So nobody approves there while an approval needs the passphrase.
        """
        if self.passphrase.needed:
            return None
        agent = self._foundation.config.agents.get(principal.id) if principal.kind == "agent" else None
        return None if agent is None else agent.attended_by

    def _relist(self, server: str) -> None:
        upstream = self._upstreams.get(server)
        if upstream is not None:
            upstream.lists_changed()
