"""Metrics and traces of an app: of its submissions and of its workers' runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.metrics_endpoint import Scrape
from flowfabric.observe.queue_sampler import QueueSampler
from flowfabric.sdk.app import App

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from flowfabric.observe.tracing import Tracing


TRACEPARENT = "flowfabric.traceparent"
"""The tag that holds the trace of a submission, as a W3C traceparent."""


E = TypeVar("E", bound=EngineProtocol)
SERVICE = "flowfabric"


def instrumented(engine: E, metrics: Metrics) -> E:
    """Count what this engine, its loops and its workers do from now on."""
    engine.watched_by(metrics)
    metrics.running_on(engine.backend_label)
    return engine


def tracing_from_environment() -> Tracing | None:
    """Tracing as OpenTelemetry's variables configure it; None without an endpoint."""
    if not is_enabled("traces"):
        return None
    from flowfabric.observe.tracing import Tracing

    return Tracing.exported()


def push_from_environment(metrics: Metrics, scrape: Scrape | None = None) -> Callable[[], None]:
    """Push metrics by OTLP if OpenTelemetry's variables name an endpoint.

    Call the result to push the last values and stop; process exit does the same. With a `scrape`,
    call this in the event loop of its engine: each push then samples the queue gauges first.
    """
    if not is_enabled("metrics"):
        return lambda: None
    from flowfabric.observe.otlp_metrics import Push

    return Push(metrics, scrape).end


def watch(app: App, metrics: Metrics | None = None, tracing: Tracing | None = None) -> None:
    """Instrument an app. Call it before the app is used and before its workers are created.

    If the app is connected to a database, the gauges of queues are sampled whenever the metrics
    are read, at most every ten seconds.
    """
    before = app.around

    def around(engine: EngineProtocol) -> EngineProtocol:
        engine = before(engine)
        if metrics is not None:
            engine = instrumented(engine, metrics)
            if isinstance(engine, LocalEngineProtocol):
                _sample_queues(metrics, engine)
        return engine if tracing is None else tracing.traced(engine)

    app.around = around
    if tracing is not None:
        app.stamp = tracing.stamp
        app.middleware.insert(0, tracing.run)


def _sample_queues(metrics: Metrics, engine: LocalEngineProtocol) -> None:
    """From the first engine, whose loop is that of the app. Lease renewals have their own."""
    known = metrics.sampler
    if not (isinstance(known, QueueSampler) and known.is_open):
        metrics.sampler = QueueSampler(metrics, engine)


def is_enabled(signal: Literal["traces", "metrics"]) -> bool:
    """Whether the signal has an endpoint and is not disabled."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    word = signal.upper()
    exporters = [
        name
        for each in os.environ.get(f"OTEL_{word}_EXPORTER", "").split(",")
        if (name := each.strip().lower())
    ]
    if exporters and not any(name.startswith("otlp") for name in exporters):
        return False
    return any(
        os.environ.get(name)
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{word}_ENDPOINT")
    )


def resource() -> Resource:
    """The resource of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, by default `flowfabric`."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    return Resource.create({"service.name": SERVICE}).merge(OTELResourceDetector().detect())
