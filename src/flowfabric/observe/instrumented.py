"""Metrics of an engine: its parts, its loops and its workers report to the listener."""

from __future__ import annotations

from typing import TypeVar

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.observe.metrics import Metrics

E = TypeVar("E", bound=EngineProtocol)


def instrumented(engine: E, metrics: Metrics) -> E:
    """Counts what this engine does from now on."""
    engine.watched_by(metrics)
    metrics.running_on(engine.backend_label)
    return engine
