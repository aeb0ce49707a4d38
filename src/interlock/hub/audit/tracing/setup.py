"""Turns tracing on where it is configured. OpenTelemetry is loaded only then."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.config.settings import TracingSettings
from interlock.hub.cannot_start import CannotStart

if TYPE_CHECKING:
    from interlock.hub.audit.tracing.spans import Spans


def check_otel(settings: TracingSettings) -> None:
    """Raises CannotStart if tracing is configured and its packages are not installed."""
    if settings.endpoint is not None and not _installed():
        raise CannotStart("[hub.tracing] needs packages that are not installed", "pip install 'interlock[otel]'")


def open_spans(settings: TracingSettings) -> Spans | None:
    """The source of spans; None if tracing is off."""
    if settings.endpoint is None:
        return None
    check_otel(settings)
    from interlock.hub.audit.tracing.exporter import spans_to

    return spans_to(settings)


def _installed() -> bool:
    try:
        return find_spec("opentelemetry.sdk.trace") is not None and find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        return False


_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
