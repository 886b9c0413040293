"""Metrics, logs and traces. Everything here is optional, and costs nothing where it is not asked for."""

from flowfabric.observe.endpoint import Scrape, metrics_app
from flowfabric.observe.logs import log_to_stderr
from flowfabric.observe.metrics import CONTENT_TYPE, Metrics
from flowfabric.observe.observed import observed
from flowfabric.observe.watching import TRACEPARENT, push_from_environment, tracing_from_environment, watch

__all__ = [
    "CONTENT_TYPE",
    "TRACEPARENT",
    "Metrics",
    "Scrape",
    "log_to_stderr",
    "metrics_app",
    "observed",
    "push_from_environment",
    "tracing_from_environment",
    "watch",
]
