"""Ends suspensions past their timeout and expires unused waitpoints."""

from __future__ import annotations

from functools import partial

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import BATCH, BaseLoop, Worklist, drain
from flowfabric.store.port import Scan

_COLUMNS = ("partition_key", "execution_id", "timeout_at_ms")


class SuspensionTimeout(BaseLoop):
    name = topic = index = "suspension_timeout"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.suspension_timeout_ms)
        self._worklist = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        now, done, after = await engine.store.now_ms(), 0, None
        while True:
            scan = Scan(self.index, {}, after, now, BATCH, _COLUMNS)
            rows = (await engine.store.load((scan,))).rows[0]
            idents = [ExecutionId.of(partition, ident) for partition, ident, _ in rows]
            done += await self._worklist.run_ids(engine, idents, engine.expire_suspension)
            if len(rows) < BATCH:
                return done
            _, ident, timeout_at_ms = rows[-1]
            after = (timeout_at_ms, ident)


class PendingWaitpointExpiry(BaseLoop):
    name = "pending_wp_expiry"
    topic = index = "waitpoint_expiry"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.pending_waitpoint_ms)

    async def run(self, engine: Engine) -> int:
        return await drain(partial(engine.expire_waitpoints, BATCH))
