"""Work that waited for a capable worker goes on as soon as one has registered."""

from __future__ import annotations

from typing import Any

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.claims.routing import MAX_RELEASED
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import at_once_if_any

PAGES = 10


class RouteReleaser:
    """A pass looks at so many pages and the next goes on behind them, so that those in front hide nobody."""

    name = "route_releaser"
    topic = "worker_registered"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.route_ms
        self._wanted = settings.wanted
        self._after: tuple[Any, ...] | None = None

    async def run(self, engine: Engine) -> int:
        released = 0
        for _ in range(PAGES):
            done, self._after = await engine.release_page(self._after, MAX_RELEASED, self._wanted)
            released += done
            if self._after is None:
                break
        return released

    async def next_due(self, engine: Engine) -> int | None:
        due = await at_once_if_any(engine, "routed")
        if due is None:
            self._after = None
        return due
