"""Requests of agents for tools that they may not call yet (MGP, Active Tool Request: `pending_approval`).

A person decides, and the hub notifies the agent. An agent can request only tools that its `request` patterns name, so
that requests reveal no others; and no tool that was denied expressly, or that its key does not permit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.access_methods import AccessMethods, GrantParams
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.call_approvals import summary_of
from interlock.hub.catalog.items import Tool
from interlock.hub.sessions.session import Session
from interlock.hub.tool_search.creations import ToolCreations
from interlock.hub.tool_search.requested_tools import AwaitedTool, RequestedTools
from interlock.protocols.mgp.permissions import Risk
from interlock.wire.errors import Fault

MAX_WAITING: Final = 2_000
MAX_WAITING_PER_CALLER: Final = 64

Log = Callable[[str, str], None]


class ToolRequests:
    """Opens approval requests and follows their decisions."""

    def __init__(
        self,
        inbox: Inbox,
        access_methods: AccessMethods,
        background: BackgroundTasks,
        risk_of: Callable[[Tool], Risk],
        log: Log,
        creations: ToolCreations,
        requested_tools: RequestedTools,
    ) -> None:
        self._inbox = inbox
        self._access_methods = access_methods
        self._background = background
        self._risk_of = risk_of
        self._log = log
        self.creations = creations
        self._requested_tools = requested_tools
        self._waiting: list[AwaitedTool] = []

    def begin(self) -> None:
        """Follow the inbox, and grant the tools that were approved before a restart."""
        self._inbox.on_change(self._on_decision)
        for decision in self._inbox.all(only_open=False):
            self._on_decision(decision)

    async def ask(self, caller: Caller, tool: Tool, reasons: dict[str, str]) -> Decision:
        """The decision on access to a tool: the open or answered one, or a new one."""
        principal = caller.principal
        request = ApprovalRequest(
            kind="tool_access",
            asker=principal.id,
            asker_kind=principal.kind,
            server=tool.server,
            name=tool.name,
            shown=tool.exposed,
            text=f"{principal.id} requests access to {tool.exposed}.",
            rule=f"[agents.{principal.id}] request",
            fingerprint=tool.fingerprint(),
            summary=summary_of(reasons),
            risk=self._risk_of(tool).word,
        )
        return await self._inbox.ask(request)

    def wait(self, waiting: AwaitedTool) -> None:
        """Notify a caller when its tool is granted or refused."""
        own = [other for other in self._waiting if other.caller.principal_name == waiting.caller.principal_name]
        if len(own) >= MAX_WAITING_PER_CALLER and (undecided := [other for other in own if not other.decision]):
            # A tool that needed no approval may never start, and no decision would end that.
            self._waiting.remove(undecided[0])
        elif len(self._waiting) >= MAX_WAITING or len(own) >= MAX_WAITING_PER_CALLER:
            raise Fault("RESOURCE_EXHAUSTED", "too many requested tools wait for approval", retry_after_ms=30_000)
        same = (waiting.session, waiting.decision, waiting.name)
        self._waiting = [
            other for other in self._waiting if (other.session, other.decision, other.name) != same or other not in own
        ]
        self._waiting.append(waiting)

    def forget(self, session: Session) -> None:
        """Drop the requests of a closed session."""
        self._waiting = [waiting for waiting in self._waiting if waiting.session is not session]

    def recheck(self) -> None:
        """Check after a change whether requested tools are available."""
        for waiting in list(self._waiting):
            if self._requested_tools.settle(waiting):
                self._waiting.remove(waiting)

    def _on_decision(self, decision: Decision) -> None:
        if decision.request.kind == "tool_access" and decision.state is DecisionState.APPROVED:
            self._background.begin(self._grant(decision), None)
        if decision.state in (DecisionState.DENIED, DecisionState.EXPIRED, DecisionState.VOID):
            self._refuse(decision)

    async def _grant(self, decision: Decision) -> None:
        """Grant an approved tool: permanently if the answer was always, else until the deadline of the decision."""
        if not await self._inbox.use(decision.id):
            return
        request = decision.request
        until = None if decision.answer == "always" else datetime.fromtimestamp(decision.deadline / 1000, UTC)
        justification = f"approval {decision.id}"
        grant = GrantParams(
            "tool_grant", request.asker, request.server, "allow", request.name, justification, expires_at=until
        )
        try:
            await self._access_methods.grant(Principal(decision.answered_by, "person"), grant)
        except Fault as fault:
            self._log(request.server, f"approval {decision.id} could not be granted: {fault.message}")
            self._refuse(decision)

    def _refuse(self, decision: Decision) -> None:
        reasons = {
            DecisionState.DENIED: f"denied by {decision.answered_by}",
            DecisionState.EXPIRED: "nobody answered in time",
        }
        for waiting in [waiting for waiting in self._waiting if waiting.decision == decision.id]:
            self._requested_tools.settle(waiting, reasons.get(decision.state, "it can no longer be granted"))
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiting)
