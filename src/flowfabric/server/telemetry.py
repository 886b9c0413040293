"""Metrics and traces of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import NotFound
from flowfabric.observe import CONTENT_TYPE, Metrics, Scrape, instrumented, push_from_environment
from flowfabric.server.route import Reply

if TYPE_CHECKING:
    from flowfabric.observe.tracing import Tracing


class ServerTelemetry:
    """Metrics and traces of a server's requests and of its engine; each is optional."""

    def __init__(
        self,
        metrics: Metrics | None,
        engine: LocalEngineProtocol,
        tracing: Tracing | None = None,
    ) -> None:
        self.engine = engine if metrics is None else instrumented(engine, metrics)
        self.engine = self.engine if tracing is None else tracing.traced(self.engine)
        self._metrics, self._tracing = metrics, tracing
        self._scrape = None if metrics is None else Scrape(metrics, engine)

    def http_request(self, route: str, method: str, status: int, seconds: float) -> None:
        if self._metrics is not None:
            self._metrics.http_request(route, method, status, seconds)

    def request(
        self, method: str, route: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[object]:
        """Entered while a request is answered. `route`: the path, with parameters in braces."""
        if self._tracing is None:
            return nullcontext()
        return self._tracing.request(method, route, headers)

    def stamp(self, tags: Mapping[str, str]) -> Mapping[str, str]:
        """The tags of an execution that the current request creates."""
        return tags if self._tracing is None else self._tracing.stamp(tags)

    async def page(self) -> Reply:
        """The metrics page; not found when metrics are off."""
        if self._scrape is None:
            raise NotFound("metrics")
        return Reply(raw=await self._scrape(), media=CONTENT_TYPE)

    def push(self) -> Callable[[], None]:
        """Push metrics if the environment names an endpoint; call the result to flush and stop."""
        if self._metrics is None:
            return lambda: None
        return push_from_environment(self._metrics, self._scrape)
