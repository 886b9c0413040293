"""Suspensions nobody ended in time, and waitpoints nobody used."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import BATCH, Worklist
from flowfabric.store.port import Scan


class SuspensionTimeout:
    name = topic = "suspension_timeout"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.suspension_timeout_ms
        self._due = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        now, done, after = await engine.store.now_ms(), 0, None
        columns = ("partition_key", "execution_id", "timeout_at_ms")
        while True:
            rows = (
                await engine.store.load(
                    (Scan("suspension_timeout", {}, after, now, BATCH, columns),)
                )
            ).rows[0]
            done += await self._due.several(
                engine, [ExecutionId.of(row[0], row[1]) for row in rows], engine.expire_suspension
            )
            if len(rows) < BATCH:
                return done
            after = (rows[-1][2], rows[-1][1])

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due("suspension_timeout")


class PendingWaitpointExpiry:
    name = "pending_wp_expiry"
    topic = "waitpoint_expiry"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.pending_waitpoint_ms

    async def run(self, engine: Engine) -> int:
        done = 0
        while closed := await engine.expire_waitpoints(BATCH):
            done += closed
        return done

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due("waitpoint_expiry")
