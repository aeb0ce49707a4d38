"""The hub obeys what a server's error says about recovering (MGP, Client Retry Behavior): waits, tries again, stops.

Only what may be sent twice is sent twice, and every attempt is judged again from the first gate. Nothing of this is
touched by a call that succeeds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.plan import Plan
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.verdicts import Pass
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.target import Tried
from interlock.hub.catalog.views import Catalog
from interlock.protocols.mgp.errors import Recovery, as_fault, read_recovery, translated
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.recovery import pause_s
from interlock.wire.errors import ErrorObject, Fault

MOST_WAITING: Final = 1024
"""Calls that wait to be tried again. Further ones get the error that they came back with."""
FALLBACK: Final = "dev.interlock/fallback"
"""In a result's `_meta`: which tool gave it, in place of which."""

_STATE: Final = "requestState"


class CallRecovery:
    """Takes calls that a server answered with an error, and sends on those that may be tried again."""

    def __init__(
        self,
        pipeline: Pipeline,
        catalog: Catalog,
        risk_of: Callable[[Tool], Risk],
        recording: Recording,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._catalog = catalog
        self._risk_of = risk_of
        self._recording = recording
        self._clock = clock
        self._waiting: dict[Call, asyncio.TimerHandle] = {}

    def takes(self, call: Call, error: ErrorObject) -> bool:
        """Whether a call goes on although it was answered with this error. If not, the error is its answer."""
        recovery = read_recovery(error)
        if recovery is None or not recovery.retryable or not _may_repeat(call):
            return False
        plan, now = _plan_of(call), self._clock()
        if plan is None:
            return False
        tried = call.tried or Tried(_deadline(call, plan, now))
        if tried.fallback:
            return False
        pause = pause_s(recovery, tried.retries, random.random())
        if pause is None or now + pause >= tried.deadline or len(self._waiting) >= MOST_WAITING:
            return self._falls_back(call, plan, recovery, error)
        self._recording.retried(call, error, tried.retries + 1, pause)
        call.tried = msgspec.structs.replace(tried, retries=tried.retries + 1)
        call.exchange.on_cancel = lambda reason: self._forget(call)
        loop = asyncio.get_running_loop()
        self._waiting[call] = loop.call_later(pause, self._again, call, plan, error)
        return True

    def answer(self, call: Call, error: ErrorObject) -> ErrorObject | Fault:
        """The error for whoever called, in their own terms, with the hint under a name that they know."""
        if call.exchange.dialect.rest:
            return as_fault(error) or error
        recovery = read_recovery(error)
        named = None if recovery is None else recovery.fallback_tool
        tool = None if named is None else self._tool(call.caller, call.target.server, named)
        hint = None if tool is None else _name_for(call.caller, tool)
        return translated(error, call.exchange.dialect.error_dialect, fallback_tool=hint)

    def close(self) -> None:
        """Nothing is tried again any more."""
        for call, timer in list(self._waiting.items()):
            timer.cancel()
            call.exchange.fail(Fault("SERVER_DRAINING", "the hub shuts down", retry_after_ms=2000))
        self._waiting.clear()

    def _forget(self, call: Call) -> None:
        timer = self._waiting.pop(call, None)
        if timer is not None:
            timer.cancel()

    def _again(self, call: Call, plan: Plan, error: ErrorObject) -> None:
        """Send it again, if it is still wanted and still means the same tool; the gates have the last word."""
        self._waiting.pop(call, None)
        if not call.exchange.open:
            return
        call.exchange.on_cancel = None
        again = self._planned(call.caller, plan, plan.name)
        if again is None or _identity(again) != _identity(plan):
            self._give_up(call, error)
            return
        call.target, call.ticket, call.outcome, call.would_refuse = again.target, None, None, ()
        if call.approval is not None:
            # It was given for this very call, and is used up.
            call.approval = msgspec.structs.replace(call.approval, ticket=None)
        self._pipeline.submit(call, again)

    def _give_up(self, call: Call, error: ErrorObject) -> None:
        answer = self.answer(call, error)
        if isinstance(answer, Fault):
            call.exchange.fail(answer)
        else:
            call.exchange.pass_failure(answer)

    def _falls_back(self, call: Call, plan: Plan, recovery: Recovery, error: ErrorObject) -> bool:
        """Whether the alternative that a server names is taken: its own, not riskier, and no gate is against it."""
        failed = call.target.tool
        if recovery.fallback_tool is None or failed is None:
            return False
        tool = self._tool(call.caller, call.target.server, recovery.fallback_tool)
        if tool is None or tool.name == failed.name or self._risk_of(tool) > self._risk_of(failed):
            return False
        found = self._planned(call.caller, plan, _name_for(call.caller, tool))
        if found is None:
            return False
        other = Call(call.exchange, call.caller, found.target, dict(call.members))
        other.reached = call.reached
        other.tried = Tried(0.0, fallback=True)
        verdict, _ = self._pipeline.judge(other, found)
        if not isinstance(verdict, Pass):
            return False
        self._recording.fell_back(call, error, found.target)
        call.exchange.on_cancel = None
        told = _Telling(tool.exposed, failed.exposed, found)
        self._pipeline.submit(other, msgspec.structs.replace(found, finish=told))
        return True

    def _planned(self, caller: Caller, plan: Plan, name: str) -> Plan | None:
        if plan.resolve is None:
            return None
        try:
            return self._pipeline.plan(caller, plan.target.kind, name, plan.resolve, self._clock())
        except Fault:
            return None

    def _tool(self, caller: Caller, server: str, name: str) -> Tool | None:
        """A tool of a server by its own name, if this caller's view shows it."""
        for item in self._catalog.items(caller.view, "tool"):
            if item.server == server and item.name == name and isinstance(item, Tool):
                return item
        return None


class _Telling:
    """Says in a result that another tool gave it, then does what is to be done to results anyway."""

    def __init__(self, used: str, instead_of: str, plan: Plan) -> None:
        self._said = {"tool": used, "instead_of": instead_of}
        self._then = plan.finish

    def __call__(self, call: Call, result: bytes, deliver: Callable[[bytes], None]) -> None:
        fields: dict[str, object] = dict(msgspec.json.decode(result, type=dict[str, msgspec.Raw]))
        raw = fields.get("_meta")
        meta = msgspec.json.decode(raw, type=dict[str, object]) if isinstance(raw, msgspec.Raw) else {}
        fields["_meta"] = {**meta, FALLBACK: self._said}
        told = msgspec.json.encode(fields)
        if self._then is None:
            deliver(told)
        else:
            self._then(call, told, deliver)


def _may_repeat(call: Call) -> bool:
    """Whether sending it twice does no more than sending it once, and it is not in the middle of a conversation."""
    if _STATE in call.members:
        return False
    tool = call.target.tool
    return tool.idempotent if tool is not None else call.target.kind != "tool"


def _plan_of(call: Call) -> Plan | None:
    """What the call was sent by, while its caller still has it."""
    target = call.target
    for plan in call.caller.plans.values():
        known = plan.target
        if known is target or (known.kind, known.server, known.name) == (target.kind, target.server, target.name):
            return plan
    return None


def _deadline(call: Call, plan: Plan, now: float) -> float:
    """All attempts together have the time that one call has."""
    spent = 0.0 if call.ticket is None else time.perf_counter() - call.ticket.began
    return now + plan.timeout_s - spent


def _identity(plan: Plan) -> tuple[str, str, str]:
    tool = plan.target.tool
    return plan.target.server, plan.target.name, "" if tool is None else tool.fingerprint()


def _name_for(caller: Caller, tool: Tool) -> str:
    return tool.shown if caller.view.bare else tool.exposed
