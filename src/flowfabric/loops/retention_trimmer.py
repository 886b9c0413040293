"""Removes executions past their retention, expired idempotency keys and expired live frames."""

from __future__ import annotations

from functools import partial

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH, BaseLoop, drain


class RetentionTrimmer(BaseLoop):
    name = "retention_trimmer"
    topic = "retention"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.retention_ms)

    async def run(self, engine: Engine) -> int:
        done, cursor = 0, None
        while True:
            page = await engine.list_lanes(cursor, BATCH)
            for lane in page.items:
                trim = partial(engine.trim_retention, lane, batch=BATCH, wanted=self.wanted)
                done += await drain(trim)
            cursor = page.next_cursor
            if cursor is None:
                break
        done += await drain(engine.forget_idempotency_keys)
        done += await drain(engine.forget_signal_keys)
        return done + await drain(engine.forget_live_frames)
