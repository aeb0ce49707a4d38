"""Sends spans to a collector over OTLP/HTTP, in batches on a thread. A full queue drops spans."""

from __future__ import annotations

import os

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from interlock.config.settings import TracingSettings
from interlock.hub.audit.tracing.spans import Spans
from interlock.transports.http.client.outside import client_files
from interlock.version import VERSION


def spans_to(settings: TracingSettings, exporter: SpanExporter | None = None) -> Spans:
    """Spans that go to the configured endpoint. The sampling decision of a parent trace is kept."""
    resource = Resource.create({"service.name": settings.service, "service.version": VERSION})
    provider = TracerProvider(
        resource=resource, sampler=ParentBased(TraceIdRatioBased(settings.sample)), shutdown_on_exit=False
    )
    endpoint = (settings.endpoint or "").rstrip("/") + "/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(exporter or span_exporter(endpoint)))
    tracer = provider.get_tracer("interlock", VERSION)
    return Spans(tracer, provider.force_flush, provider.shutdown)


def span_exporter(endpoint: str) -> OTLPSpanExporter:
    """The exporter with the hub's certificates. Its library has its own bundle, and reads only `OTEL_…` by itself."""
    certificate, key = client_files()
    return OTLPSpanExporter(
        endpoint=endpoint,
        certificate_file=os.environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE") or os.environ.get("SSL_CERT_FILE"),
        client_certificate_file=certificate,
        client_key_file=key,
    )
