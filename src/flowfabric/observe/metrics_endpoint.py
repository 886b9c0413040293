"""What a scraper asks for: gauges read anew, though not for every question, and everything as text."""

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

EVERY_S = 10.0
PATIENCE_S = 5.0
_Asgi = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[dict[str, Any]], Awaitable[None]]],
    Awaitable[None],
]


class Scrape:
    """`await scrape()` is the text. The database is asked at most every ten seconds, however many scrapers there are."""

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
        """The gauges as they are now, or were at most ten seconds ago."""
        if self._engine is not None:
            async with self._turn:
                if self._read_at is None or self._clock() - self._read_at >= EVERY_S:
                    await self._sample(self._engine)
                    self._read_at = self._clock()

    async def _sample(self, engine: LocalEngineProtocol) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._metrics.sampled(await engine.census())
        except (EngineError, TimeoutError) as error:
            self._metrics.forget_samples()
            log.warning("queues cannot be counted for now (%s)", error or "no answer")


def metrics_app(scrape: Callable[[], Awaitable[bytes]] | None) -> _Asgi:
    """An ASGI app of one page, to mount anywhere. With None, metrics are off and the page is empty. It asks for no password."""

    async def app(
        scope: dict[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
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
