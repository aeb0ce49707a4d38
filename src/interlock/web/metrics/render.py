"""Renders the metrics in the text format of Prometheus. Imported at the first request, and run off the loop."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from interlock.hub.audit.counts import BOUNDS_S, Snapshot
from interlock.web.metrics.gather import GatheredMetrics, Values
from interlock.web.metrics.table import METRICS, Metric


def render(gathered: GatheredMetrics) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Hub(gathered))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Hub(Collector):
    def __init__(self, gathered: GatheredMetrics) -> None:
        self._gathered = gathered

    def collect(self) -> Iterable[Family]:
        for name, values in self._gathered.values.items():
            yield _plain(METRICS[name], values)
        yield _durations(METRICS["interlock_call_duration_seconds"], self._gathered.counts)


def _plain(metric: Metric, values: Values) -> Family:
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _durations(metric: Metric, counts: Snapshot) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
    for server, (buckets, sum_us) in counts.durations.items():
        family.add_metric((server,), list(zip(bounds, accumulate(buckets), strict=True)), sum_us / 1_000_000)
    return family
