"""Metrics and traces of an app: of its submissions and of its workers' runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.observe.instrumented import instrumented
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.metrics_endpoint import Scrape
from flowfabric.observe.otel_env import is_enabled
from flowfabric.sdk.app import App

if TYPE_CHECKING:
    from flowfabric.observe.tracing import Tracing


TRACEPARENT = "flowfabric.traceparent"
"""The tag that holds the trace of a submission, as a W3C traceparent."""


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
    """Instrument an app. Call it before the app is used and before its workers are created."""
    before = app.around

    def around(engine: EngineProtocol) -> EngineProtocol:
        engine = before(engine)
        if metrics is not None:
            engine = instrumented(engine, metrics)
        return engine if tracing is None else tracing.traced(engine)

    app.around = around
    if tracing is not None:
        app.stamp = tracing.stamp
        app.middleware.insert(0, tracing.run)
