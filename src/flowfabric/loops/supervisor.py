"""Runs the loops: each sleeps until its next due time, or until a wake-up of its topic."""

from __future__ import annotations

import asyncio
import logging
import math
import time

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.loops import bulk, flows, limits, timers, upkeep
from flowfabric.loops.loop import Loop
from flowfabric.store.wakeups import Waiter

log = logging.getLogger("flowfabric.loops")

SHORTEST_SLEEP_MS = 100
EARLY_S = 0.01
AFTER_ERROR_MS = 1_000
RESTART_S = 1.0
STARTED = "background loop started"


LOOPS: tuple[type[Loop], ...] = (
    timers.LeaseExpiry,
    timers.DelayedPromoter,
    timers.AttemptTimeout,
    timers.ExecutionDeadline,
    upkeep.RouteReleaser,
    upkeep.RetentionTrimmer,
    upkeep.WorkerReaper,
    upkeep.StoreMaintenance,
    flows.DependencyReconciler,
    flows.EdgeCancelDispatcher,
    flows.EdgeCancelReconciler,
    flows.CancelReconciler,
    flows.FlowProjector,
    timers.SuspensionTimeout,
    timers.PendingWaitpointExpiry,
    limits.BudgetResets,
    limits.BudgetReconciler,
    limits.QuotaReconciler,
    limits.LimitReleaser,
    bulk.BulkActions,
)
SLACK_S = 5.0
"""Longest duration of a cycle that still counts as running, beside three intervals."""


def all_loops(settings: LoopSettings) -> list[Loop]:
    return [kind(settings) for kind in LOOPS]


def until_step(began: float, now: float, interval: float) -> float:
    """Seconds until the next multiple of the interval since the start.

    Idle loops wake at the same times, so that one statement serves all of them. A timer may fire
    up to EARLY_S early.
    """
    steps = math.floor((now + EARLY_S - began) / interval) + 1
    return began + steps * interval - now


class Supervisor:
    def __init__(self, engine: Engine, settings: LoopSettings | None = None) -> None:
        self._engine = engine
        self.settings = settings or LoopSettings()
        self.loops = all_loops(self.settings)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._restarts: dict[str, asyncio.TimerHandle] = {}
        self._stopping = False
        self._waiters: dict[str, Waiter] = {}
        self._began = 0.0
        self._finished: dict[str, float] = {}

    @property
    def is_running(self) -> bool:
        """Whether every loop has finished a cycle within its last three intervals."""
        if not self._tasks or any(task.done() for task in self._tasks.values()):
            return False
        now = time.monotonic()
        late = (
            now - self._finished.get(loop.name, self._began)
            > 3 * loop.interval_ms / 1_000 + SLACK_S
            for loop in self.loops
        )
        return not any(late)

    def start(self, *, announced: bool = True) -> None:
        self._began = time.monotonic()
        for loop in self.loops:
            fields = {"scanner": loop.name, "interval_ms": loop.interval_ms}
            log.log(logging.INFO if announced else logging.DEBUG, STARTED, extra=fields)
            self._launch(loop)

    def _launch(self, loop: Loop) -> None:
        self._restarts.pop(loop.name, None)
        task = self._tasks[loop.name] = asyncio.create_task(
            self._drive(loop), name=f"flowfabric-{loop.name}"
        )
        task.add_done_callback(lambda ended: self._on_end(loop, ended))

    def _on_end(self, loop: Loop, task: asyncio.Task[None]) -> None:
        """Restarts a loop that ended without `stop`: it raised, or its task was cancelled."""
        error = None if task.cancelled() else task.exception()
        if self._stopping:
            return
        self._engine.telemetry.scanner_errors(loop.name)
        why = "cancelled" if task.cancelled() else repr(error)
        log.error(
            "background loop ended; restarting it",
            exc_info=error,
            extra={"scanner": loop.name, "reason": why},
        )
        self._restarts[loop.name] = asyncio.get_running_loop().call_later(
            RESTART_S, self._restart, loop
        )

    def _restart(self, loop: Loop) -> None:
        """Restarts, unless all loops were cancelled: asyncio does that when a program ends."""
        if len(self._tasks) == 1 or not all(task.cancelled() for task in self._tasks.values()):
            self._launch(loop)

    async def run_once(self) -> int:
        """Runs one cycle of every loop, for tests and manual clocks."""
        done = 0
        for loop in self.loops:
            done += await self._run_cycle(loop)
        return done

    async def next_due(self) -> int | None:
        """The time of the first item of all loops, which may wait for something else."""
        dues = await asyncio.gather(*(loop.next_due(self._engine) for loop in self.loops))
        return min((due for due in dues if due is not None), default=None)

    async def stop(self, grace_s: float) -> None:
        """Lets running cycles finish within the grace, then cancels them."""
        self._stopping = True
        for waiter in self._waiters.values():
            waiter.ring()
        for restart in self._restarts.values():
            restart.cancel()
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                self._engine.telemetry.shutdown_timeout()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._restarts = {}, {}

    def watched_by(self, listener: Telemetry) -> None:
        self._engine.watched_by(listener)

    async def _run_cycle(self, loop: Loop) -> int:
        began = time.perf_counter()
        done = await loop.run(self._engine)
        if log.isEnabledFor(logging.DEBUG):
            elapsed_ms = round((time.perf_counter() - began) * 1_000, 1)
            fields = {"scanner": loop.name, "processed": done, "elapsed_ms": elapsed_ms}
            log.debug("scan cycle complete", extra=fields)
        return done

    async def run_if_due(self, loop: Loop) -> tuple[int, int | None, int]:
        """Runs the loop if it is due; its start, its next due time, and its end.

        A check that finds nothing due counts as a cycle.
        """
        timer = time.perf_counter()
        began = await self._engine.store.now_ms()
        due = await loop.next_due(self._engine) if loop.timed else began
        if due is not None and due <= began:
            await self._run_cycle(loop)
            due = await loop.next_due(self._engine)
        now = await self._engine.store.now_ms()
        self._finished[loop.name] = time.monotonic()
        self._engine.telemetry.scanner_cycle(loop.name, time.perf_counter() - timer)
        return began, due, now

    async def _drive(self, loop: Loop) -> None:
        hub = self._engine.store.hub
        with hub.waiter((loop.topic, None)) as waiter:
            self._waiters[loop.name] = waiter
            while not self._stopping:
                waiter.arm()
                hub.listen(loop.topic)
                try:
                    began, due, now = await self.run_if_due(loop)
                except Exception:
                    self._engine.telemetry.scanner_errors(loop.name)
                    log.exception("loop cycle failed; retrying", extra={"scanner": loop.name})
                    await waiter.wait(AFTER_ERROR_MS / 1000)
                    continue
                wait_s = until_step(self._began, time.monotonic(), loop.interval_ms / 1000)
                wake_at = now + 1000 * wait_s
                if due is not None and due > began:  # items due earlier wait for something else
                    wake_at = min(due, wake_at)
                wake_at = hub.plan(loop.topic, wake_at)
                if not self._stopping:
                    await waiter.wait(max(wake_at - now, SHORTEST_SLEEP_MS) / 1000)
