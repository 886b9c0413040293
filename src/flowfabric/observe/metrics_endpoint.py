"""The metrics page of a scraper: gauges are sampled at an interval, counters are current."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError
from flowfabric.observe.metrics import CONTENT_TYPE, Metrics

log = logging.getLogger("flowfabric.observe")

REFRESH_S = 10.0
QUERY_TIMEOUT_S = 5.0
_Asgi = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[dict[str, Any]], Awaitable[None]]],
    Awaitable[None],
]


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

    async def app(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        found = scope["method"] in ("GET", "HEAD")
        body = await scrape() if scrape is not None and found else b""
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send(
            {"type": "http.response.start", "status": 200 if found else 405, "headers": headers}
        )
        await send(
            {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
        )

    return app
