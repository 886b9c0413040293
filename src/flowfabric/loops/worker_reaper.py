"""Removes workers without a recent heartbeat from the registry."""

from __future__ import annotations

from functools import partial

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH, BaseLoop, drain


class WorkerReaper(BaseLoop):
    name = "worker_reaper"
    topic = index = "worker_expiry"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.worker_reaper_ms)

    async def run(self, engine: Engine) -> int:
        done = await drain(partial(engine.drop_silent_workers, BATCH))
        await drain(engine.forget_worker_events)
        return done

    async def next_due(self, engine: Engine) -> int | None:
        due = await super().next_due(engine)
        return None if due is None else due + 1
