"""Adds spans to the hub: a service in front of it for requests, and a recording for what is sent to servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from opentelemetry.trace import Span

from interlock.hub.audit.entries import Judged, Ticket
from interlock.hub.audit.record import NOT_SENT, outcome_of
from interlock.hub.audit.recorder import Answer
from interlock.hub.audit.tracing.spans import CALLS, Spans, end_with, failed, resolved, traceparent_of, with_traceparent
from interlock.hub.calls.call import Call
from interlock.hub.calls.call import Caller as HubCaller
from interlock.hub.calls.recording import AuditLog, Recording
from interlock.hub.catalog.target import TargetKind
from interlock.hub.sessions.session import Exchange, Service, Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestMeta
from interlock.transports.exchange import Caller, OpenExchange
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Id, Notification


class TracedService:
    """Wraps the hub and gives each call a span, from its arrival to its answer."""

    def __init__(self, service: Service, spans: Spans) -> None:
        self._service = service
        self._spans = spans
        self.admit: Callable[[str, Mapping[bytes, bytes]], Caller] = service.admit

    def open_session(self, channel: SessionChannel, caller: Caller, dialect: Dialect) -> tuple[Session, bytes]:
        return self._service.open_session(channel, caller, dialect)

    def serve(self, exchange: Exchange) -> None:
        if exchange.request.method in CALLS:
            exchange = TracedExchange(exchange, self._spans.of_request(exchange))
        self._service.serve(exchange)

    def on_notification(self, caller: Caller, session: Session | None, notification: Notification) -> None:
        self._service.on_notification(caller, session, notification)

    def check_rate(self, caller: Caller) -> None:
        """Whether the caller's rate is used up."""
        self._service.check_rate(caller)

    def count_malformed(self, caller: Caller) -> None:
        """A request could not be read."""
        self._service.count_malformed(caller)

    def resume_session(self, channel: SessionChannel, id: str, caller: Caller) -> Session | None:
        return self._service.resume_session(channel, id, caller)

    def end_session(self, session: Session, event: SessionEvent, reason: str) -> None:
        self._service.end_session(session, event, reason)


class TracedExchange(Exchange):
    """Wraps the real exchange: its answer ends the span, and its trace is the span's."""

    __slots__ = ("_real", "span")

    def __init__(self, real: Exchange, span: Span) -> None:
        self._real = real
        self.span = span
        super().__init__(real.request, real.preview, real.dialect, real.caller, real.session, real.headers)
        meta = real.preview.meta or RequestMeta()
        meta = msgspec.structs.replace(meta, traceparent=traceparent_of(span))
        self.preview = msgspec.structs.replace(real.preview, meta=meta)
        real.on_cancel = self._cancelled

    @property
    def dialect(self) -> Dialect:
        """That of the real exchange, which writes the answer."""
        return self._real.dialect

    @dialect.setter
    def dialect(self, dialect: Dialect) -> None:
        self._real.dialect = dialect

    @property
    def open(self) -> bool:
        return self._real.open

    def result(self, result: bytes) -> None:
        self._real.result(result)
        end_with(self.span, outcome_of(result))

    def fail(self, fault: Fault) -> None:
        self._real.fail(fault)
        failed(self.span, fault.name, fault.message)
        self.span.end()

    def pass_failure(self, error: ErrorObject) -> None:
        self._real.pass_failure(error)
        failed(self.span, str(error.code), error.message)
        self.span.end()

    def notify(self, method: str, params: bytes) -> None:
        self._real.notify(method, params)

    def drained(self) -> asyncio.Future[None] | None:
        return self._real.drained()

    @property
    def conversation(self) -> object | None:
        return self._real.conversation

    def sibling(self, id: Id) -> OpenExchange | None:
        return self._real.sibling(id)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        return self._real.ask(method, params)

    def _cancelled(self, reason: str) -> None:
        if self.on_cancel is not None:
            self.on_cancel(reason)
        failed(self.span, "cancelled")
        self.span.end()


class TracedRecording(Recording):
    """Gives each recorded call a span of its own from its intent to its outcome."""

    def __init__(self, spans: Spans, audit_log: AuditLog, *, strict: bool) -> None:
        super().__init__(audit_log, strict=strict)
        self._spans = spans
        self._spans_of_calls: dict[Call, Span] = {}

    def begin(self, call: Call, judged: Judged, committed: Answer | None = None) -> None:
        self._start_span(call)
        try:
            super().begin(call, judged, committed)
        except Fault:
            self._end_span(call)
            raise

    def end(self, call: Call) -> None:
        super().end(call)
        self._end_span(call)

    def hold(self, call: Call) -> Ticket | None:
        self._end_span(call)
        return super().hold(call)

    def refused(self, call: Call, fault: Fault, gate: str, rule: str) -> None:
        super().refused(call, fault, gate, rule)
        exchange = call.exchange
        if isinstance(exchange, TracedExchange):
            resolved(exchange.span, call)
            exchange.span.set_attributes({"interlock.gate": gate, "interlock.rule": rule})

    def unresolved(self, exchange: Exchange, caller: HubCaller, kind: TargetKind, name: str, fault: Fault) -> None:
        super().unresolved(exchange, caller, kind, name, fault)
        if isinstance(exchange, TracedExchange):
            exchange.span.set_attribute("interlock.gate", "resolve")

    def _start_span(self, call: Call) -> None:
        """Start the call's own span, and name it to the server."""
        exchange = call.exchange
        if isinstance(exchange, TracedExchange):
            resolved(exchange.span, call)
            span = self._spans_of_calls[call] = self._spans.of_forward(exchange.span, call)
            call.members["_meta"] = with_traceparent(call.members, traceparent_of(span))
            call.plain = False

    def _end_span(self, call: Call) -> None:
        span = self._spans_of_calls.pop(call, None)
        if span is not None:
            end_with(span, call.outcome or NOT_SENT)
