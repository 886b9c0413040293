"""Releases executions that wait for a capable worker when one has registered."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.claims.routing import MAX_RELEASED
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BaseLoop, due_if_any
from flowfabric.store.port import Row

PAGES = 10


class RouteReleaser(BaseLoop):
    """A run reads up to PAGES pages; the next run continues after them, so no page starves."""

    name = "route_releaser"
    topic = "worker_registered"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.route_ms)
        self._after: Row | None = None

    async def run(self, engine: Engine) -> int:
        released = 0
        for _ in range(PAGES):
            done, self._after = await engine.release_page(self._after, MAX_RELEASED, self.wanted)
            released += done
            if self._after is None:
                break
        return released

    async def next_due(self, engine: Engine) -> int | None:
        due = await due_if_any(engine, "routed")
        if due is None:
            self._after = None
        return due
