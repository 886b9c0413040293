"""Loops that end what is overdue: leases, delays, time limits, suspensions, unused waitpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.engine.filters import passes
from flowfabric.engine.snapshots import CORE_COLUMNS, core_of, load_all, load_rows, pages
from flowfabric.engine.telemetry import NO_TELEMETRY
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import BATCH, Failures, Loop, drain
from flowfabric.model.lease import ReclaimCapExceeded
from flowfabric.model.state import ExpirePhase
from flowfabric.rules.executions.operator_actions import SWEEP_DELAYED
from flowfabric.rules.fence import SWEEP_EXPIRED
from flowfabric.store.port import GetAll, Row, Scan

STILL_LOST = ("not_yet_due", "granted")
"""Answers that leave an execution lost: the grace starts when the lease is marked, which may be
late, and a reclaim grant may outlast the grace."""


class LeaseExpiry(Loop):
    """Marks expired leases, and requeues executions that no worker reclaims within the grace."""

    name = "lease_expiry"
    topic = "leased"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings)
        self._lost = Failures(self.name)

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

        await self.run_index(engine, "lost", upto, requeue, self._lost)
        return len(moved)

    async def _mark(self, engine: Engine, now: int) -> int:
        if not self.wanted.empty:
            # the operation reports the expired lease itself
            return await self.run_index(engine, "leased", now, engine.mark_lease_expired_if_due)
        done = 0
        while True:
            swept = await engine.store.sweep(SWEEP_EXPIRED(), BATCH)
            await _report(engine, swept)
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


async def _report(engine: Engine, marked: list[Row]) -> None:
    """Counts expired leases by lane, if metrics are enabled."""
    if marked and engine.telemetry is not NO_TELEMETRY:
        expired = GetAll("ff_exec_core", marked, ("lane_id",))
        for (lane,) in await load_rows(engine.store, expired):
            engine.telemetry.lease_expired(lane)


class DelayedPromoter(Loop):
    """Makes delayed executions claimable at their time."""

    name = "delayed_promoter"
    topic = index = "delayed"
    timed = True

    async def run(self, engine: Engine) -> int:
        if not self.wanted.empty:
            now = await engine.store.now_ms()
            return await self.run_index(engine, self.index, now, engine.promote_delayed)
        done = 0
        while True:
            promoted = len(await engine.store.sweep(SWEEP_DELAYED(), BATCH))
            done += promoted
            if promoted < BATCH:
                return done


class AttemptTimeout(Loop):
    """Ends attempts past their timeout."""

    name = topic = index = "attempt_timeout"
    timed = True

    async def run(self, engine: Engine) -> int:
        expire = partial(engine.expire_execution, phase=ExpirePhase.ATTEMPT_TIMEOUT)
        return await self.run_index(engine, self.index, await engine.store.now_ms(), expire)


class ExecutionDeadline(Loop):
    """Ends executions past their deadline."""

    name = "execution_deadline"
    topic = index = "deadline"
    timed = True

    async def run(self, engine: Engine) -> int:
        expire = partial(engine.expire_execution, phase=ExpirePhase.EXECUTION_DEADLINE)
        return await self.run_index(engine, self.index, await engine.store.now_ms(), expire)


class _Overdue(Struct, frozen=True):
    """An entry of the index `suspension_timeout`."""

    partition_key: int
    execution_id: UUID
    timeout_at_ms: int


class SuspensionTimeout(Loop):
    """Ends suspensions past their timeout."""

    name = topic = index = "suspension_timeout"
    timed = True

    async def run(self, engine: Engine) -> int:
        found = self._overdue(engine, await engine.store.now_ms())
        return await self.failures.run(engine, found, engine.expire_suspension)

    async def _overdue(self, engine: Engine, now: int) -> AsyncIterator[list[ExecutionId]]:
        scan = Scan(self.index, upto=now, limit=BATCH, columns=_Overdue.__struct_fields__)
        async for page in pages(engine.store, scan, _Overdue):
            keys = [(each.partition_key, each.execution_id) for each in page]
            if keys and not self.wanted.empty:
                read = GetAll("ff_exec_core", keys, CORE_COLUMNS)
                executions = await load_all(engine.store, read, core_of)
                yield [each.id for each in executions if passes(each, self.wanted)]
            else:
                yield [ExecutionId.of(*key) for key in keys]


class PendingWaitpointExpiry(Loop):
    """Closes expired waitpoints that no suspension uses."""

    name = "pending_wp_expiry"
    topic = index = "waitpoint_expiry"
    setting = "pending_waitpoint_ms"
    timed = True

    async def run(self, engine: Engine) -> int:
        return await drain(partial(engine.expire_waitpoints, BATCH))
