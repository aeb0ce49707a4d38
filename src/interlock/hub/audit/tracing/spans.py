"""Makes the spans of calls, after the semantic conventions for MCP. A span holds no argument and no result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from interlock.hub.audit.record import Outcome
from interlock.hub.calls.call import Call
from interlock.hub.sessions.session import Exchange
from interlock.judge.secrets import redact
from interlock.protocols.traces import Traceparent, read_traceparent

CALLS: Final = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
"""The methods that have spans: those that go to a server."""
_MAX_TEXT: Final = 256


class Spans:
    """Makes the spans of one hub."""

    def __init__(self, tracer: Tracer, flush: Callable[[], object], close: Callable[[], None]) -> None:
        self._tracer = tracer
        self.flush = flush
        """Send the spans gathered so far. Blocks."""
        self.close = close
        """Send them and stop. Blocks."""

    def of_request(self, exchange: Exchange) -> Span:
        """A span for a client's request, below the span that the request names."""
        attributes: dict[str, str] = {
            "mcp.method.name": exchange.request.method,
            "mcp.protocol.version": exchange.dialect.revision.name,
            "jsonrpc.request.id": str(exchange.request.id)[:_MAX_TEXT],
            "interlock.agent": exchange.caller.principal_name[:_MAX_TEXT],
        }
        if exchange.preview.uri is not None:
            attributes["mcp.resource.uri"] = redact(exchange.preview.uri)[:_MAX_TEXT]
        parent = _parent(exchange)
        context = None if parent is None else set_span_in_context(NonRecordingSpan(_context(parent)))
        # The span that is current on this thread belongs to someone else: without a parent this is a root span.
        return self._tracer.start_span(
            exchange.request.method, context or set_span_in_context(_NONE), SpanKind.SERVER, attributes
        )

    def of_forward(self, above: Span, call: Call) -> Span:
        """A span for the request to the server."""
        method = call.exchange.request.method
        attributes: dict[str, str] = {"mcp.method.name": method, "interlock.server": call.target.server}
        return self._tracer.start_span(
            _name(method, call, call.target.name),
            set_span_in_context(above),
            SpanKind.CLIENT,
            {**attributes, **_target(call, call.target.name)},
        )


def resolved(span: Span, call: Call) -> None:
    """Name the span after its target, now that the name is known to exist."""
    requested = call.exchange.preview.name or call.target.name
    exposed = call.target.tool.exposed if call.target.tool is not None else requested
    span.update_name(_name(call.exchange.request.method, call, exposed))
    span.set_attributes({**_target(call, exposed), "interlock.server": call.target.server})


def end_with(span: Span, outcome: Outcome) -> None:
    """End a span as a call ended."""
    if outcome.result != "SUCCESS":
        answered = outcome.transport == "answered"
        failed(span, "tool_error" if outcome.tool == "error" else str(outcome.code) if answered else outcome.transport)
    span.end()


def failed(span: Span, error: str, description: str = "") -> None:
    """Mark a span as failed. The description is redacted."""
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, redact(description)[:_MAX_TEXT] or None))


def traceparent_of(span: Span) -> str:
    """The `traceparent` of requests below this span."""
    context = span.get_span_context()
    return str(Traceparent(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled))


def with_traceparent(members: Mapping[str, msgspec.Raw], traceparent: str) -> msgspec.Raw:
    """A request's `_meta` with another `traceparent`."""
    raw = members.get("_meta")
    meta: dict[str, object] = {} if raw is None else dict(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
    meta["traceparent"] = traceparent
    return msgspec.Raw(msgspec.json.encode(meta))


def _parent(exchange: Exchange) -> Traceparent | None:
    """In `_meta` as MCP has it, else in the HTTP header."""
    meta = exchange.preview.meta
    if meta is not None and meta.traceparent is not None:
        return read_traceparent(meta.traceparent)
    header = None if exchange.headers is None else exchange.headers.get(b"traceparent")
    return None if header is None else read_traceparent(header.decode("latin-1"))


def _context(parent: Traceparent) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(parent.trace, 16), int(parent.span, 16), is_remote=True, trace_flags=flags)


def _name(method: str, call: Call, name: str) -> str:
    """Names of tools and prompts are few; addresses of resources are not (MCP conventions, Span name)."""
    return f"{method} {name[:_MAX_TEXT]}" if call.target.kind in ("tool", "prompt") else method


def _target(call: Call, name: str) -> dict[str, str]:
    match call.target.kind:
        case "tool":
            return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name[:_MAX_TEXT]}
        case "prompt":
            return {"gen_ai.prompt.name": name[:_MAX_TEXT]}
        case "resource":
            return {"mcp.resource.uri": redact(name)[:_MAX_TEXT]}
        case _:
            return {}


_NONE: Final = NonRecordingSpan(SpanContext(0, 0, is_remote=False))
