"""Tools that an agent asked for and may not call yet: a person decides, and the agent hears of it (MGP, Active Tool
Request: `pending_approval`).

The one rule: an agent can ask only for what the operator named in its `request` patterns, so no question and no answer
tells of anything else. What was denied expressly, or what its key does not permit, cannot be asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import Later
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.call_approvals import summary_of
from interlock.hub.catalog.offer import Tool
from interlock.hub.permissions.access_methods import AccessMethods
from interlock.protocols.mgp.permissions import Risk
from interlock.transports.exchange import Session
from interlock.wire.errors import Fault

CHANNEL: Final = "tool.request"
EVENT: Final = "notifications/mgp.event"
MOST_WAITING: Final = 2_000
MOST_WAITING_PER_CALLER: Final = 64

Log = Callable[[str, str], None]


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """One tool that one caller waits for."""

    caller: Caller
    session: Session | None
    request_id: str
    trace: str | None
    name: str
    """The exposed name."""
    decision: str
    speaks_mgp: bool


class Requests:
    """Asks, and follows what becomes of it."""

    def __init__(
        self,
        inbox: Inbox,
        desk: AccessMethods,
        later: Later,
        risk_of: Callable[[Tool], Risk],
        log: Log,
    ) -> None:
        self._inbox = inbox
        self._desk = desk
        self._later = later
        self._risk_of = risk_of
        self._log = log
        self._waiting: list[Waiting] = []
        self.settled: Callable[[Waiting, str | None], bool] = lambda waiting, why_not: True
        """Set by the kernel: load the tool and tell the agent, or tell it why not. False while it is not there yet."""

    def begin(self) -> None:
        """Follow the inbox, and finish what was approved before a restart."""
        self._inbox.on_change(self._heard)
        for decision in self._inbox.all(only_open=False):
            self._heard(decision)

    async def ask(self, caller: Caller, tool: Tool, why: dict[str, str]) -> Decision:
        """The decision on access to a tool: a new one, the one that is open, or the answer that holds."""
        principal = caller.principal
        question = Question(
            kind="tool_access",
            asker=principal.id,
            asker_kind=principal.kind,
            server=tool.server,
            name=tool.name,
            shown=tool.exposed,
            text=f"{principal.id} asks to use {tool.exposed}, to which it has no access.",
            rule=f"[agents.{principal.id}] request",
            fingerprint=tool.fingerprint(),
            summary=summary_of(why),
            risk=self._risk_of(tool).word,
        )
        return await self._inbox.ask(question)

    def wait(self, waiting: Waiting) -> None:
        """Tell this caller when its tool can be used, or will not be."""
        own = [other for other in self._waiting if other.caller.owner == waiting.caller.owner]
        if len(self._waiting) >= MOST_WAITING or len(own) >= MOST_WAITING_PER_CALLER:
            raise Fault("RESOURCE_EXHAUSTED", "too many requested tools wait for approval", retry_after_ms=30_000)
        same = (waiting.session, waiting.decision)
        self._waiting = [
            other for other in self._waiting if (other.session, other.decision) != same or other not in own
        ]
        self._waiting.append(waiting)

    def forget(self, session: Session) -> None:
        """A session is over."""
        self._waiting = [waiting for waiting in self._waiting if waiting.session is not session]

    def look_again(self) -> None:
        """Something changed that may have made tools available."""
        for waiting in list(self._waiting):
            if self.settled(waiting, None):
                self._waiting.remove(waiting)

    def _heard(self, decision: Decision) -> None:
        if decision.question.kind == "tool_access" and decision.state is DecisionState.APPROVED:
            self._later(self._grant(decision))
        if decision.state in (DecisionState.DENIED, DecisionState.EXPIRED, DecisionState.VOID):
            self._refuse(decision)

    async def _grant(self, decision: Decision) -> None:
        """Give what was approved: for good where the answer was always, else until the decision would have expired."""
        if not await self._inbox.use(decision.id):
            return
        asked = decision.question
        until = None if decision.answer == "always" else datetime.fromtimestamp(decision.deadline / 1000, UTC)
        grant = {
            "entry_type": "tool_grant",
            "agent_id": asked.asker,
            "server_id": asked.server,
            "tool_name": asked.name,
            "permission": "allow",
            "expires_at": until,
            "justification": f"approval {decision.id}",
        }
        try:
            await self._desk.grant(Principal(decision.answered_by, "person"), msgspec.json.encode(grant))
        except Fault as fault:
            self._log(asked.server, f"approval {decision.id} gave no access: {fault.message}")
            self._refuse(decision)

    def _refuse(self, decision: Decision) -> None:
        word = {
            DecisionState.DENIED: f"denied by {decision.answered_by}",
            DecisionState.EXPIRED: "nobody answered in time",
        }
        for waiting in [waiting for waiting in self._waiting if waiting.decision == decision.id]:
            self.settled(waiting, word.get(decision.state, "it cannot be granted any more"))
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiting)


def event(request_id: str, data: dict[str, object]) -> bytes:
    """The follow-up to a request (MGP, Server Push Notifications); the request stands for the subscription."""
    said = {"subscription_id": request_id, "channel": CHANNEL, "timestamp": datetime.now(UTC), "data": data}
    return msgspec.json.encode(said)
