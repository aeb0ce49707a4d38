"""Every call in the record: its intent before it is sent, how it ended, and every refusal.

In `strict` no call is sent before its intent is committed; in `batched` it is sent at once, and at most one flush
window can be lost to a sudden end, which the next start finds and records.
"""

from __future__ import annotations

from collections.abc import Callable
from random import getrandbits
from typing import Final

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import CANCELLED, FELL_BACK, LOST, NOT_SENT, RETRIED, TIMED_OUT, Outcome
from interlock.hub.audit.recorder import Recorder
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.refusals import NO_SUCH_NAME
from interlock.hub.catalog.target import Target, TargetKind
from interlock.hub.sessions.session import Exchange
from interlock.protocols.mcp.meta import members
from interlock.protocols.traces import find_trace_id, new_trace_id, read_traceparent
from interlock.store import StoreError
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.names import may_spell

_UNSET: Final = msgspec.UNSET
_REFUSED: Final = {
    "VALIDATION_BLOCKED": "VALIDATION_FAILED",
    "INVALID_TOOL_ARGS": "VALIDATION_FAILED",
    "CODE_SAFETY_VIOLATION": "CODE_REJECTED",
}
"""What MGP has a word of its own for (MGP, Standard Event Types); every other refusal is TOOL_BLOCKED."""


class Recording:
    """Between the hub and its recorder."""

    recorder: Recorder
    """Set when it was opened; no call comes before that."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        """Whether an intent must be committed before its call is sent."""

    def begin(self, call: Call) -> None:
        """Record the intent. Raises a `Fault` where it cannot be recorded, and the call must not be sent."""
        trace = call.trace
        if not trace:
            exchange = call.exchange
            meta = exchange.preview.meta
            named = meta is not None and (meta.traceparent is not None or meta.trace_id is not _UNSET)
            # A call that is nothing but a name, arguments and `_meta` has no other place for it.
            anywhere = named or not call.plain or exchange.request.trace_id
            trace = call.trace = trace_of(exchange) if anywhere else "%032x" % (getrandbits(128) or 1)
        call.ticket = self.recorder.intent(call.caller.principal, call.target, trace, call.arguments_raw)

    def begin_strictly(self, call: Call, send: Callable[[], None], refuse: Callable[[Fault], None]) -> None:
        """Record the intent, and send once it is committed, or refuse where it cannot be."""

        def committed(error: StoreError | None) -> None:
            if error is None:
                send()
            else:
                refuse(Fault("RESOURCE_EXHAUSTED", error.message, hint=error.hint, retry_after_ms=1000))

        call.trace = call.trace or trace_of(call.exchange)
        try:
            call.ticket = self.recorder.intent(
                call.caller.principal, call.target, call.trace, call.arguments_raw, committed=committed
            )
        except Fault as fault:
            refuse(fault)

    def end(self, call: Call) -> None:
        """Record the outcome. A call that was never sent and never answered was not sent."""
        if call.ticket is not None:
            self.recorder.outcome(call.ticket, call.outcome or NOT_SENT)

    def end_later(self, ticket: Ticket, outcome: Outcome | None) -> None:
        """The same for a call whose end could not be recorded with it, since it might have become a task."""
        self.recorder.outcome(ticket, outcome or NOT_SENT)

    def refused(self, call: Call, fault: Fault, gate: str, rule: str) -> None:
        """Record that a gate said no."""
        call.trace = call.trace or trace_of(call.exchange)
        self.recorder.refusal(
            call.caller.principal,
            call.target,
            call.trace,
            gate,
            rule,
            fault.message,
            call.arguments_raw,
            event=_REFUSED.get(fault.name, "") if call.target.kind == "tool" else "",
        )

    def retried(self, call: Call, error: ErrorObject, attempt: int, pause_s: float) -> None:
        """Record that a call will be sent again, and after which error (MGP, Client Retry Behavior)."""
        said: dict[str, object] = {"attempt": attempt, "pause_ms": round(pause_s * 1000), "error_code": error.code}
        self._tell(RETRIED, call, error, said)

    def fell_back(self, call: Call, error: ErrorObject, target: Target) -> None:
        """Record that another tool is called in the place of one that failed."""
        self._tell(FELL_BACK, call, error, {"fallback_tool": target.name, "error_code": error.code})

    def noticed(self, event: str, call: Call, rules: list[str]) -> None:
        """Record what was found in a call or its result and not refused."""
        call.trace = call.trace or trace_of(call.exchange)
        said: dict[str, object] = {"rules": rules}
        self.recorder.event(event, call.caller.principal, call.target, call.trace, rule=rules[0], details=said)

    def _tell(self, event: str, call: Call, error: ErrorObject, details: dict[str, object]) -> None:
        principal, reason = call.caller.principal, error.message[:1000]
        self.recorder.event(event, principal, call.target, call.trace, reason=reason, details=details)

    def unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        """Record that a name meant nothing to this caller."""
        target = Target(kind, "", name[:1000])
        rule = str(fault.data.get("rule") or NO_SUCH_NAME)
        self.recorder.refusal(caller.principal, target, trace_of(exchange), "resolve", rule, fault.message)


def lost(fault: Fault) -> Outcome:
    """How a call that was not answered ended."""
    if fault.kind.retryable and "status" in fault.data:
        # Turned away for now: an answer, though not one of JSON-RPC.
        return Outcome("answered", "error", code=fault.kind.mgp)
    match fault.name:
        case "UPSTREAM_TIMEOUT":
            return TIMED_OUT
        case "UPSTREAM_UNAVAILABLE" | "RESOURCE_EXHAUSTED":
            return NOT_SENT
        case "CANCELLED":
            return CANCELLED
    return LOST


def trace_of(exchange: Exchange) -> str:
    """The caller's own trace id, wherever it says it, or a new one."""
    seen = exchange.preview
    meta = seen.meta
    if meta is not None:
        parent = None if meta.traceparent is None else read_traceparent(meta.traceparent)
        if parent is not None:
            return parent.trace
        if meta.trace_id is not _UNSET:
            return _named(bytes(meta.trace_id)) or new_trace_id()
    # A call that is nothing but a name and arguments has no place for it.
    if seen.arguments is None and may_spell(exchange.request.params, b"trace_id"):
        said = members(exchange.request.params).get("trace_id")
        if said is not None:
            return _named(bytes(said)) or new_trace_id()
    top = exchange.request.trace_id
    return (find_trace_id({}, {}, {"trace_id": top}) if top else "") or new_trace_id()


def _named(value: bytes) -> str:
    """A `trace_id` as somebody wrote it (MGP, Trace ID Propagation); empty for what is none."""
    try:
        return find_trace_id({}, {"trace_id": msgspec.json.decode(value)}, {})
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
