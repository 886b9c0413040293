"""Marks expired leases, and requeues executions that no worker reclaims within the grace."""

from __future__ import annotations

import asyncio

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import NO_TELEMETRY
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import BATCH, BaseLoop, Worklist
from flowfabric.model.lease import ReclaimCapExceeded
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.store.port import GetAll, Row

STILL_LOST = ("not_yet_due", "granted")
"""Answers that leave an execution lost: the grace starts when the lease is marked, which may be
late, and a reclaim grant may outlast the grace."""


class LeaseExpiry(BaseLoop):
    name = "lease_expiry"
    topic = "leased"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.lease_expiry_ms)
        self._expired = Worklist(self.name, settings.wanted)
        self._lost = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        now = await engine.store.now_ms()
        done = await self._mark(engine, now)
        grace = engine.settings.lease_reclaim_grace_ms
        if grace >= 0:
            done += await self._requeue(engine, now - grace)
        await engine.drop_expired_grants()
        return done

    async def _requeue(self, engine: Engine, upto: int) -> int:
        moved: list[ExecutionId] = []

        async def requeue(ident: ExecutionId) -> None:
            answer = await engine.requeue_lost(ident)
            if isinstance(answer, ReclaimCapExceeded):
                engine.telemetry.reclaimed("cap_exceeded")
            if answer not in STILL_LOST:
                moved.append(ident)

        await self._lost.run_index(engine, "lost", upto, requeue)
        return len(moved)

    async def _mark(self, engine: Engine, now: int) -> int:
        if not self.wanted.empty:
            return await self._mark_wanted(engine, now)
        done = 0
        while True:
            swept = await engine.store.sweep(SWEEP_EXPIRED(), BATCH)
            await _report(engine, swept)
            done += len(swept)
            if len(swept) < BATCH:
                return done

    async def _mark_wanted(self, engine: Engine, now: int) -> int:
        """The operation reports the expired lease itself."""
        return await self._expired.run_index(
            engine, "leased", now, engine.mark_lease_expired_if_due
        )

    async def next_due(self, engine: Engine) -> int | None:
        leased, lost, granted = await asyncio.gather(
            *(engine.store.next_due(index) for index in ("leased", "lost", "grants"))
        )
        grace = engine.settings.lease_reclaim_grace_ms
        requeue = None if lost is None or grace < 0 else lost + grace
        lapse = None if granted is None else granted + 1
        return min((t for t in (leased, requeue, lapse) if t is not None), default=None)


async def _report(engine: Engine, marked: list[Row]) -> None:
    """Count expired leases by lane, if metrics are enabled."""
    if marked and engine.telemetry is not NO_TELEMETRY:
        loaded = await engine.store.load((GetAll("ff_exec_core", marked, ("lane_id",)),))
        for (lane,) in loaded.rows[0]:
            engine.telemetry.lease_expired(lane)
