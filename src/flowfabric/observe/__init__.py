"""Metrics, logs and traces. Each part is optional and has no cost while it is disabled."""

from flowfabric.observe.instrument import (
    TRACEPARENT,
    instrumented,
    push_from_environment,
    tracing_from_environment,
    watch,
)
from flowfabric.observe.logs import log_to_stderr
from flowfabric.observe.metrics import CONTENT_TYPE, Metrics
from flowfabric.observe.metrics_endpoint import Scrape, metrics_app

__all__ = [
    "CONTENT_TYPE",
    "TRACEPARENT",
    "Metrics",
    "Scrape",
    "instrumented",
    "log_to_stderr",
    "metrics_app",
    "push_from_environment",
    "tracing_from_environment",
    "watch",
]
