"""What stands between a program and its engine, in this process: seen, counted, held back, cut off."""

from flowfabric.layers.breaker import CircuitBreakerLayer
from flowfabric.layers.layer import Layer, with_layers
from flowfabric.layers.metrics import Err, MetricsLayer, Ok, Sink
from flowfabric.layers.rate_limit import RateLimitLayer
from flowfabric.layers.tracing import TracingLayer

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
