"""Records calls in the audit log: the intent before a call is sent, its outcome, and every refusal.

With a `strict` audit log, a call is sent only after its intent is committed. With a `batched` one it is sent at once,
and a crash can lose the entries of one flush window, which the next start detects and records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from interlock.hub.audit.entries import TargetJudgement, Ticket, event_record
from interlock.hub.audit.record import CANCELLED, FELL_BACK, LOST, NOT_SENT, RETRIED, TIMED_OUT, Outcome
from interlock.hub.audit.recorder import OnCommitted, Recorder
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.refusals import resolve_rule
from interlock.hub.catalog.target import Target, TargetKind
from interlock.hub.catalog.unknown_names import refused_target
from interlock.hub.sessions.session import Exchange
from interlock.protocols.traces import trace_of
from interlock.wire.errors import ErrorObject, Fault

_REFUSED: Final = {
    "VALIDATION_BLOCKED": "VALIDATION_FAILED",
    "INVALID_TOOL_ARGS": "VALIDATION_FAILED",
    "CODE_SAFETY_VIOLATION": "CODE_REJECTED",
}
"""Faults with an event type of their own (MGP, Standard Event Types). Any other refusal is TOOL_BLOCKED."""


class AuditLog(Protocol):
    """Opens the recorder when the hub starts. No call comes before that."""

    recorder: Recorder


class Recording:
    """Records what happens to calls."""

    def __init__(self, audit_log: AuditLog, *, strict: bool) -> None:
        self._audit_log = audit_log
        self.strict = strict
        """Whether an intent must be committed before its call is sent."""

    @property
    def recorder(self) -> Recorder:
        """The recorder, once it is open."""
        return self._audit_log.recorder

    def use_mode(self, *, strict: bool) -> None:
        """Record in this mode from now on."""
        self.strict = strict

    def begin(self, call: Call, judged: TargetJudgement, committed: OnCommitted | None = None) -> Ticket:
        """Record the intent. Raises a `Fault` where it cannot be recorded: then the call must not be sent.

        With `committed`, the call is sent only after `committed(None)`.
        """
        return self._audit_log.recorder.intent(
            call.caller.principal, call.target, call.trace, call.arguments_raw, committed, judged
        )

    def end(self, call: Call, ticket: Ticket, outcome: Outcome | None) -> None:
        """Record the outcome. A call without one was not sent."""
        self._audit_log.recorder.outcome(ticket, outcome or NOT_SENT)

    def end_of_answer(self, call: Call, outcome: Outcome | None) -> None:
        """The server answered a call that may have become a task. Tracing ends its span, `end_later` its entry."""

    def end_later(self, ticket: Ticket, outcome: Outcome | None) -> None:
        """Record the outcome with the ticket of a call that became no task."""
        self._audit_log.recorder.outcome(ticket, outcome or NOT_SENT)

    def refused(self, call: Call, fault: Fault, gate: str, rule: str) -> None:
        """Record that a gate refused a call."""
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
        details: dict[str, object] = {"attempt": attempt, "pause_ms": round(pause_s * 1000), "error_code": error.code}
        self._record(RETRIED, call, error, details)

    def fell_back(self, call: Call, error: ErrorObject, target: Target) -> None:
        """Record that another tool is called in the place of one that failed."""
        self._record(FELL_BACK, call, error, {"fallback_tool": target.name, "error_code": error.code})

    def found(
        self, event: str, call: Call, rules: list[str], masked: Mapping[str, int] | None = None, reason: str = ""
    ) -> None:
        """Record findings in a call or its result that did not refuse it, and how much was masked by kind."""
        details: dict[str, object] = {"rules": rules}
        if masked:
            # As texts: the audit log hides the values of members that are named like a secret.
            details["masked"] = [f"{count} {kind}" for kind, count in sorted(masked.items())]
        principal, target = call.caller.principal, call.target
        self.recorder.add(event_record(event, principal, target, call.trace, rules[0], reason, details=details))

    def _record(self, event: str, call: Call, error: ErrorObject, details: dict[str, object]) -> None:
        principal, reason = call.caller.principal, error.message[:1000]
        self.recorder.add(event_record(event, principal, call.target, call.trace, reason=reason, details=details))

    def unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        """Record that a caller cannot use a name."""
        target = refused_target(kind, name, fault)
        rule = resolve_rule(fault)
        self.recorder.refusal(
            caller.principal, target, trace_of(exchange.request, exchange.preview), "resolve", rule, fault.message
        )


def lost(fault: Fault) -> Outcome:
    """The outcome of a call without an answer."""
    if fault.kind.retryable and "status" in fault.data:
        # An HTTP status refused the call for now: an answer, though not one of JSON-RPC.
        return Outcome("answered", "error", code=fault.kind.mgp)
    match fault.name:
        case "UPSTREAM_TIMEOUT":
            return TIMED_OUT
        case "UPSTREAM_UNAVAILABLE" | "RESOURCE_EXHAUSTED":
            return NOT_SENT
        case "CANCELLED":
            return CANCELLED
    return LOST


def failed(outcome: Outcome | None, fault: Fault) -> Outcome | None:
    """The outcome of a call that ends with a fault: the client did not get the good answer of the server."""
    if outcome is None or outcome.result != "SUCCESS":
        return outcome
    return Outcome("answered", "error", code=fault.kind.mgp, size=outcome.size)
