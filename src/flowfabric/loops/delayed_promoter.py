"""Makes delayed executions claimable at their time."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BATCH, BaseLoop, Worklist
from flowfabric.rules.executions.operator_actions import SWEEP_DELAYED


class DelayedPromoter(BaseLoop):
    name = "delayed_promoter"
    topic = index = "delayed"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.delayed_promoter_ms)
        self._worklist = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        if not self.wanted.empty:
            now = await engine.store.now_ms()
            return await self._worklist.run_index(engine, self.index, now, engine.promote_delayed)
        done = 0
        while True:
            promoted = len(await engine.store.sweep(SWEEP_DELAYED(), BATCH))
            done += promoted
            if promoted < BATCH:
                return done
