"""Calls that wait for the commit of their intents, because the audit log is strict or the database is slow.

A call is judged by the rules in force when it is sent: if anything changed during the wait, the gates judge it again.
It waits at most `tool_s`, as long as it would wait for its server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from interlock.hub.audit.recorder import OnCommitted
from interlock.hub.audit.write_failures import LOADED, cannot_record
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call, Plan
from interlock.store import StoreBusy, StoreError
from interlock.wire.errors import Fault, internal_error

Forward = Callable[[Plan], None]
"""Sends a call by its current plan. A `Fault` that it raises is the answer."""

_log = logging.getLogger(__name__)


class CommittedCalls(Protocol):
    """The dispatcher, as this uses it."""

    def record(self, call: Call, plan: Plan, committed: OnCommitted) -> None:
        """Record the intent of a committed call. Raises a `Fault`."""

    def done(self, call: Call) -> None:
        """Give the place of a call back, and record that it was not sent."""

    def fail_unsent(self, call: Call, plan: Plan, fault: Fault) -> None:
        """Answer a committed call that is not sent, and give its place back."""


class CommitWaits:
    """Sends calls once their intents are committed."""

    def __init__(self, background: BackgroundTasks, dispatcher: CommittedCalls) -> None:
        self._background = background
        self._dispatcher = dispatcher
        self._loop = asyncio.get_running_loop()

    def begin(self, call: Call, plan: Plan, forward: Forward) -> None:
        """Record the intent of a call, and forward the call once it is committed. Every failure is answered."""
        deadline = self._loop.call_later(plan.timeouts.tool_s, self._on_late, call, plan)
        try:
            self._dispatcher.record(call, plan, partial(self._on_recorded, call, plan, forward, deadline))
        except Fault as fault:
            deadline.cancel()
            self._dispatcher.fail_unsent(call, plan, fault)

    def _on_late(self, call: Call, plan: Plan) -> None:
        message = f"the database has not committed the entry of this call within {plan.timeouts.tool_s:g} s"
        self._dispatcher.fail_unsent(call, plan, cannot_record(StoreBusy(message, LOADED)))

    def _on_recorded(
        self, call: Call, plan: Plan, forward: Forward, deadline: asyncio.TimerHandle, error: StoreError | None
    ) -> None:
        deadline.cancel()
        if error is not None:
            self._dispatcher.fail_unsent(call, plan, cannot_record(error))
        elif plan.pipeline.is_current(call, plan):
            self._forward(call, plan, forward)
        else:
            self._background.begin(self._forward_if_allowed(call, plan, forward), call)

    async def _forward_if_allowed(self, call: Call, plan: Plan, forward: Forward) -> None:
        try:
            current = await plan.pipeline.judge_again(call, plan) if call.exchange.open else plan
        except BaseException:
            self._dispatcher.done(call)
            raise
        if current is not None:
            self._forward(call, current, forward)

    def _forward(self, call: Call, plan: Plan, forward: Forward) -> None:
        if not call.exchange.open:
            self._dispatcher.done(call)
            return
        try:
            forward(plan)
        except Fault as fault:
            self._dispatcher.fail_unsent(call, plan, fault)
        except Exception:  # others wait for the same commit, and are answered after this call
            _log.exception("a call to %s could not be sent", call.target.server)
            self._dispatcher.fail_unsent(call, plan, internal_error())
