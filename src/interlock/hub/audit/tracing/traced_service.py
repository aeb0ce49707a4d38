"""Adds spans to the hub: a service in front of it for requests, and a recording for what is sent to servers."""

from __future__ import annotations

import msgspec
from opentelemetry.trace import Span

from interlock.hub.audit.entries import TargetJudgement, Ticket
from interlock.hub.audit.record import NOT_SENT, Outcome, outcome_of
from interlock.hub.audit.recorder import OnCommitted
from interlock.hub.audit.tracing.spans import CALLS, Spans, end_with, failed, resolved, traceparent_of, with_traceparent
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.recording import AuditLog, Recording
from interlock.hub.catalog.target import TargetKind
from interlock.hub.sessions.middleware import Middleware, ObservedExchange
from interlock.hub.sessions.session import Exchange, Service, Session
from interlock.protocols.mcp.intake import RequestMeta
from interlock.transports.exchange import SessionExchange
from interlock.wire.errors import Fault


class TracedService(Middleware[Caller]):
    """Gives each call a span, from its arrival to its answer."""

    def __init__(self, service: Service[Caller], spans: Spans) -> None:
        super().__init__(service)
        self._spans = spans

    def serve(self, exchange: SessionExchange[Session, Caller]) -> None:
        if exchange.request.method in CALLS:
            exchange = TracedExchange(exchange, self._spans.of_request(exchange))
        self._service.serve(exchange)


class TracedExchange(ObservedExchange[Caller]):
    """The answer ends the span, and the trace of the call is the span's."""

    __slots__ = ("span",)

    def __init__(self, real: SessionExchange[Session, Caller], span: Span) -> None:
        super().__init__(real)
        self.span = span
        meta = real.preview.meta or RequestMeta()
        meta = msgspec.structs.replace(meta, traceparent=traceparent_of(span))
        self.preview = msgspec.structs.replace(real.preview, meta=meta)

    def on_result(self, result: bytes) -> None:
        end_with(self.span, outcome_of(result))

    def on_failure(self, name: str, message: str) -> None:
        failed(self.span, name, message)
        self.span.end()


class TracedRecording(Recording):
    """Gives each recorded call a span of its own from its intent to its outcome."""

    def __init__(self, spans: Spans, audit_log: AuditLog, *, strict: bool) -> None:
        super().__init__(audit_log, strict=strict)
        self._spans = spans
        self._spans_of_calls: dict[Call, Span] = {}

    def begin(self, call: Call, judged: TargetJudgement, committed: OnCommitted | None = None) -> Ticket:
        self._start_span(call)
        try:
            return super().begin(call, judged, committed)
        except Fault:
            self._end_span(call, None)
            raise

    def end(self, call: Call, ticket: Ticket, outcome: Outcome | None) -> None:
        super().end(call, ticket, outcome)
        self._end_span(call, outcome)

    def end_of_answer(self, call: Call, outcome: Outcome | None) -> None:
        self._end_span(call, outcome)

    def refused(self, call: Call, fault: Fault, gate: str, rule: str) -> None:
        super().refused(call, fault, gate, rule)
        exchange = call.exchange
        if isinstance(exchange, TracedExchange):
            resolved(exchange.span, call)
            exchange.span.set_attributes({"interlock.gate": gate, "interlock.rule": rule})

    def unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        super().unresolved(exchange, caller, kind, name, fault)
        if isinstance(exchange, TracedExchange):
            exchange.span.set_attribute("interlock.gate", "resolve")

    def _start_span(self, call: Call) -> None:
        """Start the call's own span, and name it to the server."""
        exchange = call.exchange
        if isinstance(exchange, TracedExchange):
            resolved(exchange.span, call)
            span = self._spans_of_calls[call] = self._spans.of_forward(exchange.span, call)
            call.replace_meta(with_traceparent(call.members, traceparent_of(span)))

    def _end_span(self, call: Call, outcome: Outcome | None) -> None:
        span = self._spans_of_calls.pop(call, None)
        if span is not None:
            end_with(span, outcome or NOT_SENT)
