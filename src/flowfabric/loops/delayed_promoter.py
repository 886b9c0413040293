"""What waited for a time becomes claimable when it comes."""

from __future__ import annotations

from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH, LoopSettings, Worklist
from flowfabric.rules.executions.operator_actions import SWEEP_DELAYED


class DelayedPromoter:
    name = "delayed_promoter"
    topic = "delayed"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.delayed_promoter_ms
        self._wanted = settings.wanted
        self._due = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        if not self._wanted.empty:
            return await self._due.each(
                engine, "delayed", await engine.store.now_ms(), engine.promote_delayed
            )
        done = 0
        while True:
            promoted = len(await engine.store.sweep(SWEEP_DELAYED(), BATCH))
            done += promoted
            if promoted < BATCH:
                return done

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due("delayed")
