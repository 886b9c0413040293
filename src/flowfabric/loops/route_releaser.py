"""Work that waited for a capable worker goes on as soon as one has registered."""

from __future__ import annotations

from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import LoopSettings


class RouteReleaser:
    name = "route_releaser"
    topic = "worker_registered"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.route_ms
        self._wanted = settings.wanted

    async def run(self, engine: Engine) -> int:
        return await engine.release_routed(wanted=self._wanted)

    async def next_due(self, engine: Engine) -> int | None:
        return None
