"""Spans to a collector over OTLP/HTTP, in batches from a thread of their own. What does not fit is dropped."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from interlock.config.settings import Tracing
from interlock.hub.audit.tracing.spans import Spans
from interlock.version import VERSION


def spans_to(settings: Tracing, exporter: SpanExporter | None = None) -> Spans:
    """Spans that go where the settings say. A trace that began elsewhere is sampled as it was there."""
    resource = Resource.create({"service.name": settings.service, "service.version": VERSION})
    provider = TracerProvider(
        resource=resource, sampler=ParentBased(TraceIdRatioBased(settings.sample)), shutdown_on_exit=False
    )
    endpoint = (settings.endpoint or "").rstrip("/") + "/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter(endpoint=endpoint)))
    tracer = provider.get_tracer("interlock", VERSION)
    return Spans(tracer, provider.force_flush, provider.shutdown)
