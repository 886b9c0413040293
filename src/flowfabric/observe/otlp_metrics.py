"""Pushes the series of the Prometheus page by OTLP at an interval. Needs the extra `otel`."""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flowfabric.errors import ConfigError
from flowfabric.observe.instrument import resource
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.metrics_endpoint import QUERY_TIMEOUT_S, Scrape

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.metrics import Observation
    from opentelemetry.sdk.metrics import MeterProvider, export
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ModuleNotFoundError:
    raise ConfigError(
        "metrics by OTLP need more libraries: pip install 'flowfabric[otel]'"
    ) from None

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample

log = logging.getLogger("flowfabric.observe")

SCOPE = "ff"
SHUTDOWN_S = 5.0
"""Longest time that the last push may take."""
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE
Labels = dict[str, str]


class Push:
    """Pushes every OTEL_METRIC_EXPORT_INTERVAL from a thread of OpenTelemetry.

    It stops at `end` or when the process exits.
    """

    def __init__(self, metrics: Metrics, scrape: Scrape | None = None) -> None:
        self._metrics, self._scrape = metrics, scrape
        self._loop = None if scrape is None else asyncio.get_running_loop()
        self._sampling: Future[list[export.Metric]] | None = None
        self._ended = False
        try:
            reader = export.PeriodicExportingMetricReader(
                _SeriesExporter(OTLPMetricExporter(), self.series)
            )
        except ValueError as error:
            raise ConfigError(f"OTEL_* variables: invalid settings for metrics: {error}") from None
        self._provider = MeterProvider([reader], resource(), shutdown_on_exit=False)
        # The reader collects only if an instrument exists; the exporter replaces what it collects.
        self._provider.get_meter(SCOPE).create_observable_gauge(
            "ff_tick", [lambda _: [Observation(1)]]
        )
        atexit.register(self.end)

    def end(self) -> None:
        """Push the last values. Queue gauges are not sampled: the caller may be the event loop."""
        self._loop = None
        if self._ended:
            return
        self._ended = True
        atexit.unregister(self.end)
        if (sampling := self._sampling) is not None:
            sampling.cancel()
        try:
            self._provider.shutdown(SHUTDOWN_S * 1_000)
        except Exception as error:
            log.warning("last metrics may be lost", extra={"error": str(error)})

    def series(self) -> list[export.Metric]:
        """Every series, with fresh queue gauges where the event loop can sample them."""
        loop, scrape = self._loop, self._scrape
        if loop is None or scrape is None or loop.is_closed():
            return self._collect()
        sample = self._sample(scrape)
        try:
            self._sampling = asyncio.run_coroutine_threadsafe(sample, loop)
        except RuntimeError:  # the loop was closed in between
            sample.close()
            return self._collect()
        if self._ended:  # `end` ran in between and did not see this future
            self._sampling.cancel()
        try:
            return self._sampling.result(2 * QUERY_TIMEOUT_S)
        except CancelledError:
            return self._collect()
        except Exception as error:
            self._sampling.cancel()
            log.warning("queue statistics unavailable", extra={"error": type(error).__name__})
            return self._collect()

    async def _sample(self, scrape: Scrape) -> list[export.Metric]:
        """Collect in the event loop that replaces the gauges, so that no gauge is half replaced."""
        await scrape.refresh()
        return self._collect()

    def _collect(self) -> list[export.Metric]:
        return to_otlp(self._metrics.registry.collect(), time.time_ns())


class _SeriesExporter(export.MetricExporter):
    """Exports the series instead of what OpenTelemetry has collected."""

    def __init__(
        self, to: export.MetricExporter, series: Callable[[], list[export.Metric]]
    ) -> None:
        super().__init__()
        self._to, self._series = to, series

    def export(
        self, metrics_data: export.MetricsData, timeout_millis: float = 10_000, **more: object
    ) -> export.MetricExportResult:
        scope = InstrumentationScope(SCOPE)
        sent = [
            export.ResourceMetrics(
                each.resource,
                [export.ScopeMetrics(scope, self._series(), "")],
                each.schema_url,
            )
            for each in metrics_data.resource_metrics
        ]
        return self._to.export(export.MetricsData(sent), timeout_millis, **more)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._to.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **more: object) -> None:
        self._to.shutdown(timeout_millis, **more)


# ---- conversion


def to_otlp(families: Iterable[Family], now_ns: int) -> list[export.Metric]:
    """Convert under the names of the page; metrics without numeric samples are omitted."""
    metrics = []
    for family in families:
        data = _data(family, now_ns)
        if data is not None and data.data_points:
            name = f"{family.name}_total" if family.type == "counter" else family.name
            unit = "s" if family.name.endswith("_seconds") else ""
            metrics.append(export.Metric(name, family.documentation, unit, data))
    return metrics


def _data(family: Family, now_ns: int) -> export.Sum | export.Gauge | export.Histogram | None:
    children = list(_by_labels(family))
    match family.type:
        case "counter":
            numbers = [
                export.NumberDataPoint(labels, _start_ns(of), now_ns, _value(of["_total"]))
                for labels, of in children
            ]
            return export.Sum(numbers, _CUMULATIVE, is_monotonic=True)
        case "histogram":
            points = [_histogram_point(labels, of, now_ns) for labels, of in children]
            return export.Histogram(points, _CUMULATIVE)
        case "gauge":
            known = ((labels, _value(of[""])) for labels, of in children)
            return export.Gauge(
                [
                    export.NumberDataPoint(labels, 0, now_ns, value)
                    for labels, value in known
                    if not math.isnan(value)
                ]
            )
    return None


def _by_labels(family: Family) -> Iterator[tuple[Labels, dict[str, list[Sample]]]]:
    """Samples per set of labels, by suffix: `_total`, `_bucket`, `_sum`, `_count`, `_created`."""
    found: dict[tuple[tuple[str, str], ...], dict[str, list[Sample]]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        found.setdefault(labels, {}).setdefault(sample.name.removeprefix(family.name), []).append(
            sample
        )
    return ((dict(labels), of) for labels, of in found.items())


def _value(samples: list[Sample]) -> float:
    return samples[0].value


def _start_ns(of: dict[str, list[Sample]]) -> int:
    return int(_value(of["_created"]) * 1e9) if "_created" in of else 0


def _histogram_point(
    labels: Labels, of: dict[str, list[Sample]], now_ns: int
) -> export.HistogramDataPoint:
    """A Prometheus bucket includes the smaller buckets; an OpenTelemetry bucket does not."""
    upto = [int(bucket.value) for bucket in of["_bucket"]]
    unknown: Any = None  # Prometheus records no minimum and maximum
    return export.HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=_start_ns(of),
        time_unix_nano=now_ns,
        count=upto[-1],
        sum=_value(of["_sum"]),
        bucket_counts=[more - less for less, more in pairwise([0, *upto])],
        explicit_bounds=[
            bound for bucket in of["_bucket"] if not math.isinf(bound := float(bucket.labels["le"]))
        ],
        min=unknown,
        max=unknown,
    )
