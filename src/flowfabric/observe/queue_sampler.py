"""Samples the gauges of queues for a metrics page that another thread serves."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.observe.metrics import Metrics
from flowfabric.observe.metrics_endpoint import QUERY_TIMEOUT_S, Scrape

WAIT_S = QUERY_TIMEOUT_S + 1


class QueueSampler:
    """Called by the thread that renders the page; the query runs in the loop of the engine."""

    def __init__(self, metrics: Metrics, engine: EngineProtocol) -> None:
        self._metrics, self._scrape = metrics, Scrape(metrics, engine)
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether the loop of the engine still runs."""
        return self._loop.is_running()

    def __call__(self) -> None:
        """A caller in an event loop would block it: it awaits a `Scrape` instead."""
        if _in_event_loop():
            return
        if not self.is_open:
            self._metrics.clear_queue_stats()
            return
        sampling = asyncio.run_coroutine_threadsafe(self._scrape.refresh(), self._loop)
        try:
            sampling.result(WAIT_S)
        except (TimeoutError, CancelledError):
            sampling.cancel()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
