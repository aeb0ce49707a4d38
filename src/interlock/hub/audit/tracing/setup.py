"""Whether calls are traced, and what with. What makes and sends spans is loaded only where they are asked for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.config.settings import Tracing
from interlock.hub.cannot_start import CannotStart

if TYPE_CHECKING:
    from interlock.hub.audit.tracing.spans import Spans


def check_otel(settings: Tracing) -> None:
    """Raises CannotStart where calls are to be traced and nothing here can do it."""
    if settings.endpoint is not None and not _installed():
        raise CannotStart("[hub.tracing] needs packages that are not installed", "pip install 'interlock[otel]'")


def open_spans(settings: Tracing) -> Spans | None:
    """Where spans come from, from now on; None where nobody wants any."""
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
