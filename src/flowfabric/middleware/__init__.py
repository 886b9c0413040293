"""Middleware around an engine in this process: logs, metrics, rate limits, circuit breaker."""

from flowfabric.middleware.breaker import CircuitBreakerLayer
from flowfabric.middleware.layer import Layer, with_layers
from flowfabric.middleware.metrics import Err, MetricsLayer, Ok, Sink
from flowfabric.middleware.rate_limit import RateLimitLayer
from flowfabric.middleware.tracing import TracingLayer

__all__ = [
    "CircuitBreakerLayer",
    "Err",
    "Layer",
    "MetricsLayer",
    "Ok",
    "RateLimitLayer",
    "Sink",
    "TracingLayer",
    "with_layers",
]
