"""The metrics page of a scraper: gauges are sampled at an interval, counters are current."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError
from flowfabric.observe.metrics import CONTENT_TYPE, Metrics

log = logging.getLogger("flowfabric.observe")

REFRESH_S = 10.0
QUERY_TIMEOUT_S = 5.0
_Receive = Callable[[], Awaitable[object]]
_Send = Callable[[dict[str, object]], Awaitable[None]]
_Asgi = Callable[[Mapping[str, object], _Receive, _Send], Awaitable[None]]


class Scrape:
    """`await scrape()` renders the page. It queries the database at most every ten seconds."""

    def __init__(
        self,
        metrics: Metrics,
        engine: EngineProtocol | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics, self._clock = metrics, clock
        self._engine = engine if isinstance(engine, LocalEngineProtocol) else None
        self._read_at: float | None = None
        self._turn = asyncio.Lock()

    async def __call__(self) -> bytes:
        await self.refresh()
        return self._metrics.render()

    async def refresh(self) -> None:
        """Sample the gauges unless they are newer than ten seconds."""
        if self._engine is not None:
            async with self._turn:
                if self._read_at is None or self._clock() - self._read_at >= REFRESH_S:
                    await self._sample(self._engine)
                    self._read_at = self._clock()

    async def _sample(self, engine: LocalEngineProtocol) -> None:
        try:
            async with asyncio.timeout(QUERY_TIMEOUT_S):
                self._metrics.set_queue_stats(await engine.census())
        except (EngineError, TimeoutError) as error:
            self._metrics.clear_queue_stats()
            log.warning("queue statistics unavailable", extra={"error": str(error) or "timeout"})


def metrics_app(scrape: Callable[[], Awaitable[bytes]] | None) -> _Asgi:
    """An ASGI app of one page without authentication; None serves an empty page."""

    async def app(scope: Mapping[str, object], receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            return
        found = scope["method"] in ("GET", "HEAD")
        body = await scrape() if scrape is not None and found else b""
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        status = 200 if found else 405
        await send({"type": "http.response.start", "status": status, "headers": headers})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent})

    return app
