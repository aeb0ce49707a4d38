"""Retries calls that a server answered with a retryable error (MGP, Client Retry Behavior).

The hub sends a call twice only if that is safe, and judges every try from the first gate. A call that succeeds never
comes here.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from interlock.hub.calls.bridges.retries import STATE
from interlock.hub.calls.call import Call, Caller, Deliver, Plan, ResultProcessor
from interlock.hub.calls.chunk_filter import ChunkFilter
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.unchanged_results import UNCHANGED
from interlock.hub.calls.verdicts import Pass
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import RetryState
from interlock.hub.catalog.views import Catalog
from interlock.protocols.mgp.errors import RecoveryFields, as_fault, read_recovery, translated
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.recovery import pause_s
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault

MAX_WAITING: Final = 1024
"""Upper bound for calls that wait for another try. Further calls are answered with their error."""
UNSENT: Final = "UPSTREAM_UNAVAILABLE"
"""The fault of a call that never reached its server (`transports.link.Sink.on_lost`)."""
UNSENT_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""The pauses before the next tries of such a call."""
FALLBACK: Final = "dev.interlock/fallback"
"""In a result's `_meta`: the tool that gave it, and the tool that it replaced."""


class WaitingError(NamedTuple):
    """The error of a call that waits for another try. It is the answer if there is none."""

    error: ErrorObject
    processed: bool
    """Whether it was searched. A refusal of HTTP is searched only where it is the answer."""


class RiskLevels(Protocol):
    """The risks of tools, as the operator and the servers classify them."""

    def risk_of(self, tool: Tool) -> Risk:
        """The effective risk of a tool."""


class CallRecovery:
    """Decides whether a failed call is tried again, falls back to another tool, or fails."""

    def __init__(self, catalog: Catalog, risks: RiskLevels, recording: Recording) -> None:
        self._catalog = catalog
        self._risks = risks
        self._recording = recording
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Call, asyncio.TimerHandle] = {}

    @property
    def waiting(self) -> int:
        """How many calls wait for another try."""
        return len(self._waiting)

    def takes(self, call: Call, plan: Plan, error: ErrorObject, began: float, *, processed: bool) -> bool:
        """Whether a failed call is tried again, or falls back to another tool. If not, the error is its answer.

        A call whose client has gone is not tried again. `began`: when its intent was recorded, as `perf_counter`
        counts. `processed`: the plan's processor has searched the error.
        """
        if not call.exchange.open:
            return False
        recovery = read_recovery(error)
        if recovery is None or not recovery.retryable or not _may_repeat(call):
            return False
        now = self._loop.time()
        tried = call.tried or RetryState(_deadline(plan, now, began))
        if tried.fallback:
            return False
        pause = pause_s(recovery, tried.retries, random.random())
        if pause is None or now + pause >= tried.deadline or len(self._waiting) >= MAX_WAITING:
            return self._falls_back(call, plan, recovery, error)
        call.count_try(msgspec.structs.replace(tried, retries=tried.retries + 1))
        self._wait(call, plan, WaitingError(error, processed), pause, tried.retries + 1)
        return True

    def takes_unsent(self, call: Call, plan: Plan, fault: Fault, began: float) -> bool:
        """Whether a call that never reached its server is sent again. If not, the fault is its answer.

        The connection is lost a moment before the supervisor knows. Once it knows, the next try waits for the server.
        """
        now = self._loop.time()
        tried = call.tried or RetryState(_deadline(plan, now, began))
        if STATE in call.members or not call.exchange.open or tried.unsent >= len(UNSENT_PAUSES_S):
            return False
        pause = UNSENT_PAUSES_S[tried.unsent]
        if now + pause >= tried.deadline or len(self._waiting) >= MAX_WAITING:
            return False
        call.count_try(msgspec.structs.replace(tried, unsent=tried.unsent + 1))
        error = WaitingError(fault.render(ErrorDialect.MGP), processed=False)
        self._wait(call, plan, error, pause, tried.unsent + 1)
        return True

    def answer(self, call: Call, error: ErrorObject) -> ErrorObject | Fault:
        """The error in the client's dialect. It names a fallback tool as the client knows it."""
        if call.exchange.dialect.rest:
            return as_fault(error) or error
        recovery = read_recovery(error)
        named = None if recovery is None else recovery.fallback_tool
        tool = None if named is None else self._tool(call.caller, call.target.server, named)
        hint = None if tool is None else _name_for(call.caller, tool)
        return translated(error, call.exchange.dialect.error_dialect, fallback_tool=hint)

    def close(self) -> None:
        """Fail every call that waits for another try."""
        for call, timer in list(self._waiting.items()):
            timer.cancel()
            call.exchange.fail(Fault("SERVER_DRAINING", "the hub shuts down", retry_after_ms=2000))
        self._waiting.clear()

    def _wait(self, call: Call, plan: Plan, error: WaitingError, pause: float, tries: int) -> None:
        """Submit a call again after a pause."""
        self._recording.retried(call, error.error, tries, pause)
        call.exchange.on_cancel = lambda reason: self._forget(call)
        self._waiting[call] = self._loop.call_later(pause, self._retry, call, plan, error)

    def _forget(self, call: Call) -> None:
        timer = self._waiting.pop(call, None)
        if timer is not None:
            timer.cancel()

    def _retry(self, call: Call, plan: Plan, error: WaitingError) -> None:
        """Submit a call again, if its client still waits and its name still means the same tool."""
        self._waiting.pop(call, None)
        if not call.exchange.open:
            return
        call.exchange.on_cancel = None
        again = _planned(call.caller, plan, plan.name)
        if again is None or _identity(again) != _identity(plan):
            self._give_up(call, plan, error)
            return
        call.start_over(again.target)
        if call.approval is not None:
            # A person's approval was given for this very call and is used up already. A rule is looked up again.
            approval = None if call.approval.by_rule else msgspec.structs.replace(call.approval, ticket=None)
            call.use_approval(approval)
        plan.pipeline.submit(call, again)

    def _give_up(self, call: Call, plan: Plan, error: WaitingError) -> None:
        if plan.processor is None or error.processed:
            self._answer(call, error.error)
        else:
            plan.processor.error(call, error.error, partial(self._answer, call))

    def _answer(self, call: Call, error: ErrorObject) -> None:
        answer = self.answer(call, error)
        if isinstance(answer, Fault):
            call.exchange.fail(answer)
        else:
            call.exchange.pass_failure(answer)

    def _falls_back(self, call: Call, plan: Plan, recovery: RecoveryFields, error: ErrorObject) -> bool:
        """Whether the fallback tool of a server is called: its own tool, not riskier, and passed by every gate."""
        failed = call.target.tool
        if recovery.fallback_tool is None or failed is None:
            return False
        tool = self._tool(call.caller, call.target.server, recovery.fallback_tool)
        if tool is None or tool.name == failed.name or self._risks.risk_of(tool) > self._risks.risk_of(failed):
            return False
        found = _planned(call.caller, plan, _name_for(call.caller, tool))
        if found is None:
            return False
        other = Call.of(call.exchange, call.caller, found.target, dict(call.members))
        other.advance(call.progress)
        other.count_try(RetryState(0.0, fallback=True))
        verdict, _ = plan.pipeline.judge(other, found)
        if not isinstance(verdict, Pass):
            return False
        self._recording.fell_back(call, error, found.target)
        call.exchange.on_cancel = None
        processor = _FallbackResult(tool.exposed, failed.exposed, found.processor or UNCHANGED)
        plan.pipeline.submit(other, msgspec.structs.replace(found, processor=processor))
        return True

    def _tool(self, caller: Caller, server: str, name: str) -> Tool | None:
        """A tool of a server by its own name, if this caller's view shows it."""
        for item in self._catalog.items(caller.view, "tool"):
            if item.server == server and item.name == name and isinstance(item, Tool):
                return item
        return None


class _FallbackResult:
    """Names the fallback tool in a result, before the result is processed as usual."""

    def __init__(self, used: str, instead_of: str, processor: ResultProcessor) -> None:
        self._fallback = {"tool": used, "instead_of": instead_of}
        self._processor = processor

    def finish(self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None = None) -> None:
        fields: dict[str, object] = dict(msgspec.json.decode(result, type=dict[str, msgspec.Raw]))
        raw = fields.get("_meta")
        meta = msgspec.json.decode(raw, type=dict[str, object]) if isinstance(raw, msgspec.Raw) else {}
        fields["_meta"] = {**meta, FALLBACK: self._fallback}
        self._processor.finish(call, msgspec.json.encode(fields), deliver, on_unwanted)

    def chunks(self, call: Call) -> ChunkFilter:
        return self._processor.chunks(call)

    def error(self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
        self._processor.error(call, error, deliver)

    def params(self, params: bytes) -> bytes:
        return self._processor.params(params)


def _planned(caller: Caller, plan: Plan, name: str) -> Plan | None:
    try:
        return plan.pipeline.plan(caller, plan.target.kind, name)
    except Fault:
        return None


def _may_repeat(call: Call) -> bool:
    """Whether the call may be sent twice, and does not continue an earlier request."""
    if STATE in call.members:
        return False
    tool = call.target.tool
    return tool.idempotent if tool is not None else call.target.kind != "tool"


def _deadline(plan: Plan, now: float, began: float) -> float:
    """The deadline of a call, which holds for all its tries together."""
    return now + plan.timeouts.tool_s - (time.perf_counter() - began)


def _identity(plan: Plan) -> tuple[str, str, str]:
    tool = plan.target.tool
    return plan.target.server, plan.target.name, "" if tool is None else tool.fingerprint()


def _name_for(caller: Caller, tool: Tool) -> str:
    return tool.shown if caller.view.bare else tool.exposed
