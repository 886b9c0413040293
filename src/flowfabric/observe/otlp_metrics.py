"""The series of the Prometheus page as OpenTelemetry has them, sent now and then by OTLP. Needs the extra `otel`."""

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
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.metrics_endpoint import PATIENCE_S, Scrape
from flowfabric.observe.otel_env import resource

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
LAST_S = 5.0
"""How long the end may take to send what is left."""
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE
Labels = dict[str, str]


class Push:
    """Sends every OTEL_METRIC_EXPORT_INTERVAL, from a thread of OpenTelemetry's, until `end` or the end of the process."""

    def __init__(self, metrics: Metrics, scrape: Scrape | None = None) -> None:
        self._metrics, self._scrape = metrics, scrape
        self._loop = None if scrape is None else asyncio.get_running_loop()
        self._counting: Future[list[export.Metric]] | None = None
        self._is_over = False
        try:
            reader = export.PeriodicExportingMetricReader(
                _Instead(OTLPMetricExporter(), self._series)
            )
        except ValueError as error:
            raise ConfigError(
                f"metrics cannot be sent as the OTEL_* variables say: {error}"
            ) from None
        self._provider = MeterProvider([reader], resource(), shutdown_on_exit=False)
        # nothing is collected where there is no instrument, so there is one; what is sent instead of it are the series
        self._provider.get_meter(SCOPE).create_observable_gauge(
            "ff_tick", [lambda _: [Observation(1)]]
        )
        atexit.register(self.end)

    def end(self) -> None:
        """Sends what is left. Queues are not counted again: who calls this may be the loop that would have to do it."""
        self._loop = None
        if self._is_over:
            return
        self._is_over = True
        atexit.unregister(self.end)
        if (counting := self._counting) is not None:
            counting.cancel()
        try:
            self._provider.shutdown(LAST_S * 1_000)
        except Exception as error:
            log.warning("the last metrics may not have been sent (%s)", error)

    def _series(self) -> list[export.Metric]:
        loop, scrape = self._loop, self._scrape
        if loop is None or scrape is None or loop.is_closed():
            return self._collected()
        counted = self._counted(scrape)
        try:
            self._counting = asyncio.run_coroutine_threadsafe(counted, loop)
        except RuntimeError:  # the loop was closed in between
            counted.close()
            return self._collected()
        if self._is_over:  # it ended in between, and looked for an earlier count to cancel
            self._counting.cancel()
        try:
            return self._counting.result(2 * PATIENCE_S)
        except CancelledError:
            return self._collected()
        except Exception as error:
            self._counting.cancel()
            log.warning("queues cannot be counted for now (%s)", type(error).__name__)
            return self._collected()

    async def _counted(self, scrape: Scrape) -> list[export.Metric]:
        """In the loop in which gauges are replaced, so that none is seen while it is."""
        await scrape.refresh()
        return self._collected()

    def _collected(self) -> list[export.Metric]:
        return converted(self._metrics.registry.collect(), time.time_ns())


class _Instead(export.MetricExporter):
    """Is given what OpenTelemetry has collected, and sends the series."""

    def __init__(
        self, to: export.MetricExporter, series: Callable[[], list[export.Metric]]
    ) -> None:
        super().__init__()
        self._to, self._series = to, series

    def export(
        self, metrics_data: export.MetricsData, timeout_millis: float = 10_000, **more: Any
    ) -> export.MetricExportResult:
        sent = [
            export.ResourceMetrics(
                resource=each.resource,
                scope_metrics=[
                    export.ScopeMetrics(InstrumentationScope(SCOPE), self._series(), "")
                ],
                schema_url=each.schema_url,
            )
            for each in metrics_data.resource_metrics
        ]
        return self._to.export(export.MetricsData(sent), timeout_millis, **more)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._to.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        self._to.shutdown(timeout_millis, **more)


# ---- from one model to the other


def converted(families: Iterable[Family], now_ns: int) -> list[export.Metric]:
    """Under the names of the page. What has no samples, or none that is a number, is left out."""
    made = []
    for family in families:
        data = _data(family, now_ns)
        if data is not None and data.data_points:
            name = f"{family.name}_total" if family.type == "counter" else family.name
            unit = "s" if family.name.endswith("_seconds") else ""
            made.append(export.Metric(name, family.documentation, unit, data))
    return made


def _data(family: Family, now_ns: int) -> export.Sum | export.Gauge | export.Histogram | None:
    children = list(_children(family))
    if family.type == "counter":
        numbers = [
            _number(labels, _one(of["_total"]), now_ns, _began(of)) for labels, of in children
        ]
        return export.Sum(numbers, _CUMULATIVE, is_monotonic=True)
    if family.type == "histogram":
        return export.Histogram(
            [_spread(labels, of, now_ns) for labels, of in children], _CUMULATIVE
        )
    if family.type == "gauge":
        known = [
            (labels, value) for labels, of in children if not math.isnan(value := _one(of[""]))
        ]
        return export.Gauge([_number(labels, value, now_ns) for labels, value in known])
    return None


def _children(family: Family) -> Iterator[tuple[Labels, dict[str, list[Sample]]]]:
    """Samples with the same labels, by what stands behind the name: `_total`, `_bucket`, `_sum`, `_count`, `_created`."""
    found: dict[tuple[tuple[str, str], ...], dict[str, list[Sample]]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        found.setdefault(labels, {}).setdefault(sample.name.removeprefix(family.name), []).append(
            sample
        )
    return ((dict(labels), of) for labels, of in found.items())


def _one(samples: list[Sample]) -> float:
    return samples[0].value


def _began(of: dict[str, list[Sample]]) -> int:
    return int(_one(of["_created"]) * 1e9) if "_created" in of else 0


def _number(labels: Labels, value: float, now_ns: int, began_ns: int = 0) -> export.NumberDataPoint:
    return export.NumberDataPoint(labels, began_ns, now_ns, value)


def _spread(labels: Labels, of: dict[str, list[Sample]], now_ns: int) -> export.HistogramDataPoint:
    """Prometheus counts in each bucket what the smaller ones have counted too; OpenTelemetry does not."""
    upto = [int(bucket.value) for bucket in of["_bucket"]]
    unknown: Any = None  # the smallest and the largest
    return export.HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=_began(of),
        time_unix_nano=now_ns,
        count=upto[-1],
        sum=_one(of["_sum"]),
        bucket_counts=[more - less for less, more in pairwise([0, *upto])],
        explicit_bounds=[
            bound for bucket in of["_bucket"] if not math.isinf(bound := float(bucket.labels["le"]))
        ],
        min=unknown,
        max=unknown,
    )
