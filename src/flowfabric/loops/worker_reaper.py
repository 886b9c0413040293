"""Workers that stopped saying they are alive leave the registry."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH


class WorkerReaper:
    name = "worker_reaper"
    topic = "worker_expiry"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.worker_reaper_ms

    async def run(self, engine: Engine) -> int:
        done = 0
        while (dropped := await engine.drop_silent_workers(BATCH)) > 0:
            done += dropped
        while await engine.forget_worker_events() > 0:
            pass
        return done

    async def next_due(self, engine: Engine) -> int | None:
        due = await engine.store.next_due("worker_expiry")
        return None if due is None else due + 1
