"""Metrics and traces of an app: of what it submits, and of what its workers run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flowfabric.engine.engine import Engine
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.observed import observed
from flowfabric.sdk.app import App

if TYPE_CHECKING:
    from flowfabric.observe.tracing import Tracing


TRACEPARENT = "flowfabric.traceparent"
"""The tag in which an execution remembers the trace it was submitted in, as a W3C traceparent."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def tracing_from_environment() -> Tracing | None:
    """As OpenTelemetry's own variables say: None unless there is an endpoint, or when OTEL_SDK_DISABLED is true."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    from flowfabric.observe.tracing import Tracing

    return Tracing.exported()


def watch(app: App, metrics: Metrics | None = None, tracing: Tracing | None = None) -> None:
    """Before the app is used and before its workers are made."""
    before = app.around

    def around(engine: Engine) -> Engine:
        engine = before(engine)
        if metrics is not None:
            engine = observed(engine, metrics)
        return engine if tracing is None else tracing.traced(engine)

    app.around = around
    if tracing is not None:
        app.stamp = tracing.stamp
        app.middleware.insert(0, tracing.run)
