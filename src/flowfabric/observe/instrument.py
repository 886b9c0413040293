"""Metrics and traces of an app: of what it submits, and of what its workers run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.observe.instrumented import instrumented
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.metrics_endpoint import Scrape
from flowfabric.observe.otel_env import is_sent
from flowfabric.sdk.app import App

if TYPE_CHECKING:
    from flowfabric.observe.tracing import Tracing


TRACEPARENT = "flowfabric.traceparent"
"""The tag in which an execution remembers the trace it was submitted in, as a W3C traceparent."""


def tracing_from_environment() -> Tracing | None:
    """As OpenTelemetry's own variables say: None unless there is an endpoint, or when they turn traces off."""
    if not is_sent("traces"):
        return None
    from flowfabric.observe.tracing import Tracing

    return Tracing.exported()


def push_from_environment(metrics: Metrics, scrape: Scrape | None = None) -> Callable[[], None]:
    """Sends the series by OTLP, as OpenTelemetry's own variables say: not unless there is an endpoint. Call the answer to end it.

    That sends what is left, and so does the end of the process. With a `scrape`, call this in the event loop of its engine: the
    queues are then counted anew before they are sent.
    """
    if not is_sent("metrics"):
        return lambda: None
    from flowfabric.observe.otlp_metrics import Push

    return Push(metrics, scrape).end


def watch(app: App, metrics: Metrics | None = None, tracing: Tracing | None = None) -> None:
    """Before the app is used and before its workers are made."""
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
