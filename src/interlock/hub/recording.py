"""Every call in the record: its intent before it is sent, how it ended, and every refusal.

In `strict` no call is sent before its intent is committed; in `batched` it is sent at once, and at most one flush
window can be lost to a sudden end, which the next start finds and records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import CANCELLED, LOST, NOT_SENT, TIMED_OUT, Outcome
from interlock.hub.audit.recorder import Recorder
from interlock.hub.call import Call, Caller, Target, TargetKind
from interlock.protocols.traces import new_trace_id, read_traceparent
from interlock.store import StoreError
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault

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
        trace = call.trace = trace_of(call.exchange)
        call.ticket = self.recorder.intent(call.caller.principal, call.target, trace, call.arguments_raw)

    def begin_strictly(self, call: Call, send: Callable[[], None], refuse: Callable[[Fault], None]) -> None:
        """Record the intent, and send once it is committed, or refuse where it cannot be."""

        def committed(error: StoreError | None) -> None:
            if error is None:
                send()
            else:
                refuse(Fault("RESOURCE_EXHAUSTED", error.message, mend=error.mend, retry_after_ms=1000))

        call.trace = trace_of(call.exchange)
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
        self.recorder.refusal(
            call.caller.principal,
            call.target,
            trace_of(call.exchange),
            gate,
            rule,
            fault.message,
            call.arguments_raw,
            event=_REFUSED.get(fault.name, "") if call.target.kind == "tool" else "",
        )

    def unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        """Record that a name meant nothing to this caller."""
        target = Target(kind, "", name[:1000])
        self.recorder.refusal(
            caller.principal, target, trace_of(exchange), "resolve", "the name must mean something", fault.message
        )


def lost(fault: Fault) -> Outcome:
    """How a call that was not answered ended."""
    match fault.name:
        case "UPSTREAM_TIMEOUT":
            return TIMED_OUT
        case "UPSTREAM_UNAVAILABLE" | "RESOURCE_EXHAUSTED":
            return NOT_SENT
        case "CANCELLED":
            return CANCELLED
    return LOST


def trace_of(exchange: Exchange) -> str:
    """The caller's own trace id, or a new one."""
    meta = exchange.glance.meta
    if meta is None or meta.traceparent is None:
        return new_trace_id()
    parent = read_traceparent(meta.traceparent)
    return new_trace_id() if parent is None else parent.trace
