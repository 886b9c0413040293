"""Leases that ran out are marked; what nobody reclaims within the grace goes back to its lane."""

from __future__ import annotations

import asyncio

from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import NO_TELEMETRY
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import BATCH, LoopSettings, Worklist
from flowfabric.model.lease import MarkedExpired, ReclaimCapExceeded
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.store.port import GetAll, Row

STILL_LOST = ("not_yet_due", "granted")
"""Found and left as it is: the grace begins when a lease is marked, which may be late, and a grant may outlast it."""


class LeaseExpiry:
    name = "lease_expiry"
    topic = "leased"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.lease_expiry_ms
        self._wanted = settings.wanted
        self._expired = Worklist(self.name, settings.wanted)
        self._lost = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        now = await engine.store.now_ms()
        done = await self._mark(engine, now)
        grace = engine.settings.lease_reclaim_grace_ms
        if grace >= 0:
            moved: list[ExecutionId] = []

            async def requeue(ident: ExecutionId) -> None:
                answer = await engine.requeue_lost(ident)
                if isinstance(answer, ReclaimCapExceeded):
                    engine.onlooker.reclaimed("cap_exceeded")
                if answer not in STILL_LOST:
                    moved.append(ident)

            await self._lost.each(engine, "lost", now - grace, requeue)
            done += len(moved)
        await engine.drop_expired_grants()
        return done

    async def _mark(self, engine: Engine, now: int) -> int:
        if not self._wanted.empty:
            marked: list[Row] = []

            async def mark(ident: ExecutionId) -> None:
                if isinstance(await engine.mark_lease_expired_if_due(ident), MarkedExpired):
                    marked.append((ident.partition_index, ident.uuid))

            done = await self._expired.each(engine, "leased", now, mark)
            await _tell(engine, marked)
            return done
        done = 0
        while True:
            swept = await engine.store.sweep(SWEEP_EXPIRED(), BATCH)
            await _tell(engine, swept)
            done += len(swept)
            if len(swept) < BATCH:
                return done

    async def next_due(self, engine: Engine) -> int | None:
        leased, lost, granted = await asyncio.gather(
            *(engine.store.next_due(index) for index in ("leased", "lost", "grants"))
        )
        grace = engine.settings.lease_reclaim_grace_ms
        requeue = None if lost is None or grace < 0 else lost + grace
        lapse = None if granted is None else granted + 1
        return min((t for t in (leased, requeue, lapse) if t is not None), default=None)


async def _tell(engine: Engine, marked: list[Row]) -> None:
    """Whose leases ran out, by lane, if anybody wants to know."""
    if marked and engine.onlooker is not NO_TELEMETRY:
        for (lane,) in (
            await engine.store.load((GetAll("ff_exec_core", marked, ("lane_id",)),))
        ).rows[0]:
            engine.onlooker.lease_expired(lane)
