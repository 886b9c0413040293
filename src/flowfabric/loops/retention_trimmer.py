"""What ended long ago is forgotten, with idempotency keys past their window and live frames past their time."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH


class RetentionTrimmer:
    name = "retention_trimmer"
    topic = "retention"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.retention_ms
        self._wanted = settings.wanted

    async def run(self, engine: Engine) -> int:
        done, cursor = 0, None
        while True:
            page = await engine.list_lanes(cursor, BATCH)
            for lane in page.items:
                while (
                    trimmed := await engine.trim_retention(lane, batch=BATCH, wanted=self._wanted)
                ) > 0:
                    done += trimmed
            cursor = page.next_cursor
            if cursor is None:
                for forget in (
                    engine.forget_idempotency_keys,
                    engine.forget_signal_keys,
                    engine.forget_live_frames,
                ):
                    while (forgotten := await forget()) > 0:
                        done += forgotten
                return done

    async def next_due(self, engine: Engine) -> int | None:
        return None
