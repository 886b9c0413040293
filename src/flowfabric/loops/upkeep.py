"""Loops that remove expired rows, and release executions that wait for a capable worker."""

from __future__ import annotations

from functools import partial

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.claims.routing import MAX_RELEASED, Position
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH, Loop, drain, due_if_any

PAGES = 10


class RetentionTrimmer(Loop):
    """Removes executions past their retention, expired keys and frames, and old bulk jobs."""

    name = "retention_trimmer"
    topic = "retention"
    setting = "retention_ms"

    async def run(self, engine: Engine) -> int:
        done, cursor = 0, None
        while True:
            page = await engine.list_lanes(cursor, BATCH)
            for lane in await engine.lanes_due(page.items):
                trim = partial(engine.trim_retention, lane, batch=BATCH, wanted=self.wanted)
                done += await drain(trim)
            cursor = page.next_cursor
            if cursor is None:
                break
        done += await drain(engine.forget_idempotency_keys)
        done += await drain(engine.forget_signal_keys)
        done += await drain(engine.forget_bulk_jobs)
        return done + await drain(engine.forget_live_frames)


class WorkerReaper(Loop):
    """Removes workers without a recent heartbeat from the registry."""

    name = "worker_reaper"
    topic = index = "worker_expiry"

    async def run(self, engine: Engine) -> int:
        done = await drain(partial(engine.drop_silent_workers, BATCH))
        await drain(engine.forget_worker_events)
        return done

    async def next_due(self, engine: Engine) -> int | None:
        due = await super().next_due(engine)
        return None if due is None else due + 1


class StoreMaintenance(Loop):
    """Reclaims the space that commits leave behind in the store."""

    name = topic = "store_maintenance"
    setting = "store_maintenance_ms"

    async def run(self, engine: Engine) -> int:
        return await engine.store.maintain()


class RouteReleaser(Loop):
    """Releases executions that wait for a capable worker.

    A run reads up to `PAGES` pages; the next run continues after them, so no page starves.
    """

    name = "route_releaser"
    topic = "worker_registered"
    setting = "route_ms"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings)
        self._after: Position | None = None

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
