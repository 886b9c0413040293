"""A worker: claims, renews, ends each lease by plan, runs the loops, and may kill itself at a
chosen point.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from flowfabric import (
    ClaimPolicy,
    Engine,
    EngineError,
    FailureClass,
)
from flowfabric.errors import TransportError
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.lease import Handle, HandleKind, LeaseRenewal, Work
from flowfabric.model.waitpoint import ConditionMet, ResumeSignal, Suspended
from flowfabric.store.clock import system_clock

from .child import Setup, die
from .frames import PARTS, WRITES_EVERY, appended, batch, sent
from .logs import Log
from .plan import (
    AHEAD_MS,
    LANES,
    LEASE_MS,
    LOOPS,
    Step,
    ordinal_of,
    probe_of,
    result,
    starts_ahead,
    step,
    takes_the_next,
    wait,
)

SLOTS = 8
CLAIM_WAIT_MS = 60
FINISH_S, LONGEST_S = 2.0, 2.0
PAUSE_S = 0.05
POINTS = (
    "before_complete",
    "during_complete",
    "after_complete",
    "after_claim",
    "after_fail",
    "after_renew",
    "after_suspend",
    "after_append",
)


class Trap:
    """A process may be armed to kill itself at the n-th pass of a named point. `note` logs it just
    before.
    """

    def __init__(
        self, rng: Random, setup: Setup, log: Log, points: tuple[str, ...] = POINTS
    ) -> None:
        self._point = rng.choice(points) if rng.random() < 0.3 else ""
        self._left = rng.randint(1, 12)
        self._after_s = rng.uniform(0, 0.006)
        self._setup, self._log = setup, log

    def __call__(self, point: str) -> None:
        if not point or point != self._point:
            return
        self._left -= 1
        if self._left == 0 and self._setup.may_die:
            self._log.write("note", "trap", point=point)
            if point == "during_complete":
                threading.Timer(self._after_s, die).start()
            else:
                die()


class Worker:
    def __init__(self, setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
        self._setup, self._engine, self._log, self._stop = setup, engine, log, stop
        rng = Random(f"{setup.seed}/{setup.instance}")
        self._rng, self._trap = rng, Trap(rng, setup, log)
        self._ttl_ms = rng.randint(*LEASE_MS)
        worker_id = setup.role
        self._policy = ClaimPolicy(
            worker_id, setup.instance, lease_ttl_ms=self._ttl_ms, max_wait_ms=CLAIM_WAIT_MS
        )
        self._able = (probe_of(worker_id),)
        self._renewed: dict[Handle, Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._results = 0

    async def run(self) -> None:
        renewer = asyncio.create_task(self._renew())
        try:
            while not self._stop.is_set():
                free = SLOTS - len(self._tasks)
                if free <= 0:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    continue
                self._begin(await self._claim(free))
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=FINISH_S)
        finally:
            renewer.cancel()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(renewer, *self._tasks, return_exceptions=True)

    def _begin(self, works: list[Work]) -> None:
        for work in works:
            task = asyncio.create_task(self._hold(work))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.write("note", "surprise", says=repr(task.exception()))

    async def _claim(self, free: int) -> list[Work]:
        claimed = self._engine.claim_many(
            self._rng.choice(LANES), self._able, self._policy, self._rng.randint(1, free)
        )
        try:
            return await self._log.call(
                "claim", claimed, granted, after=lambda: self._trap("after_claim")
            )
        except EngineError:
            await asyncio.sleep(PAUSE_S)
            return []

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_ms / 3000)
            await asyncio.gather(*(self._renew_one(work) for work in tuple(self._renewed.values())))

    async def _renew_one(self, work: Work) -> None:
        try:
            await self._call(
                "renew", work, lambda: self._engine.renew(work.handle), renewed, "after_renew"
            )
        except EngineError:
            self._renewed.pop(work.handle, None)  # lost; the work goes on and finds out at its end

    async def _hold(self, work: Work) -> None:
        planned = step(self._setup.seed, ordinal_of(work.input_payload), work.lease_epoch)
        if planned.renews:
            self._renewed[work.handle] = work
        try:
            with contextlib.suppress(EngineError):
                if work.handle.kind is HandleKind.RESUMED:
                    await self._call(
                        "observe", work, lambda: self._engine.observe_signals(work.handle), observed
                    )
                if planned.progress is not None:
                    percent = planned.progress
                    await self._call(
                        "progress",
                        work,
                        lambda: self._engine.progress(work.handle, percent, "under way"),
                    )
                for part in range(
                    PARTS if ordinal_of(work.input_payload) % WRITES_EVERY == 0 else 0
                ):
                    await self._write(work, part, again=planned.again)
            await asyncio.sleep(
                planned.seconds
                if planned.brink_ms is None
                else _until(work.lease_expires_at + planned.brink_ms)
            )
            with contextlib.suppress(EngineError):
                await self._end(work, planned)
        finally:
            self._renewed.pop(work.handle, None)

    async def _write(self, work: Work, part: int, *, again: bool) -> None:
        frames = batch(work.lease_epoch, part)
        for _ in range(1 + again):
            asked = lambda: self._engine.append_frames(work.handle, frames)  # noqa: E731
            await self._call("append", work, asked, appended, "after_append", **sent(frames))

    async def _end(self, work: Work, planned: Step) -> None:
        engine, handle = self._engine, work.handle
        match planned.end:
            case "complete":
                await self._complete(work, planned)
            case "fail" | "fail_for_good":
                how = FailureClass.TRANSIENT if planned.end == "fail" else FailureClass.PERMANENT
                for _ in range(1 + planned.again):
                    await self._call(
                        "fail",
                        work,
                        lambda: engine.fail(handle, "by plan", how),
                        failed,
                        "after_fail",
                    )
            case "delay":
                until = await self._insist(engine.server_time_ms) + planned.delay_ms
                await self._call("delay", work, lambda: engine.delay(handle, until))
            case "suspend":
                await self._suspend(work, planned)
            case "give_up":
                for _ in range(1 + planned.again):
                    await self._call("give_up", work, lambda: engine.cancel(handle, "by plan"))
            case "vanish":
                self._log.write(
                    "note", "vanish", execution=work.execution_id, epoch=work.lease_epoch
                )

    async def _suspend(self, work: Work, planned: Step) -> None:
        """Earlier signals may be enough; then the lease remains and the execution completes."""
        engine, ordinal = self._engine, ordinal_of(work.input_payload)
        now, ahead = await self._insist(engine.server_time_ms), None
        if starts_ahead(self._setup.seed, ordinal, work.lease_epoch):
            made = await self._insist(lambda: engine.create_waitpoint(work.handle, "a", AHEAD_MS))
            ahead = made.waitpoint_id
            await asyncio.sleep(planned.seconds)
        args = wait(self._setup.seed, ordinal, work.lease_epoch, now, ahead)
        for _ in range(1 + planned.again):
            answer = await self._call(
                "suspend", work, lambda: engine.suspend(work.handle, args), parked, "after_suspend"
            )
        if isinstance(answer, ConditionMet):
            await self._complete(work, planned)

    async def _complete(self, work: Work, planned: Step) -> None:
        self._results += 1
        token = hashlib.sha256(f"{self._setup.instance}/{self._results}".encode()).hexdigest()
        payload = result(token, planned.size)
        facts = {"digest": token, "size": planned.size}

        def complete() -> Awaitable[None]:
            self._trap("during_complete")
            return self._engine.complete(work.handle, payload)

        for _ in range(1 + planned.again):
            self._trap("before_complete")
            if (
                takes_the_next(self._setup.seed, ordinal_of(work.input_payload), work.lease_epoch)
                and not self._stop.is_set()
            ):
                await self._insist(lambda: self._turn(work, payload, facts))
            else:
                await self._call("complete", work, complete, None, "after_complete", **facts)

    async def _turn(self, work: Work, payload: bytes, facts: dict[str, Any]) -> None:
        """An end and a claim in one call. The worker does not learn of executions claimed by a
        failed call.
        """
        log, lane = self._log, self._rng.choice(LANES)
        ending, claiming = (
            log.write("ask", "complete", **facts, **_whose(work)),
            log.write("ask", "claim"),
        )
        self._trap("during_complete")
        try:
            (answer,), works = await self._engine.complete_and_claim(
                [(work.handle, payload)], lane, self._able, self._policy, 1
            )
        except EngineError as error:
            log.refused("complete", ending, error)
            raise
        self._trap("after_complete")
        self._trap("after_claim")
        if answer is None:
            log.write("ack", "complete", call=ending)
        else:
            log.refused("complete", ending, answer)
        log.write("ack", "claim", call=claiming, **granted(works))
        self._begin(works)
        if answer is not None:
            raise answer

    async def _call(
        self,
        op: str,
        work: Work,
        asked: Callable[[], Awaitable[Any]],
        saw: Any = None,
        point: str = "",
        **facts: Any,
    ) -> Any:
        facts |= _whose(work)
        return await self._insist(
            lambda: self._log.call(op, asked(), saw, after=lambda: self._trap(point), **facts)
        )

    async def _insist(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """While the store is unavailable; every call of a holder may be repeated."""
        while True:
            try:
                return await work()
            except TransportError as error:
                if not error.retryable or self._stop.is_set():
                    raise
                await asyncio.sleep(PAUSE_S)


def _until(at_ms: int) -> float:
    return min(max(at_ms - system_clock(), 0) / 1000, LONGEST_S)


def _whose(work: Work) -> dict[str, Any]:
    return {
        "execution": work.execution_id,
        "epoch": work.lease_epoch,
        "attempt": work.attempt_index,
    }


def granted(works: list[Work]) -> dict[str, Any]:
    return {
        "granted": [(work.execution_id, work.lease_epoch, work.lease_expires_at) for work in works]
    }


def renewed(renewal: LeaseRenewal) -> dict[str, Any]:
    return {"until": renewal.expires_at_ms, "as": renewal.lease_epoch}


def failed(outcome: Any) -> dict[str, Any]:
    return {"outcome": "retry" if isinstance(outcome, RetryScheduled) else "failed"}


def parked(outcome: Suspended | ConditionMet) -> dict[str, Any]:
    return {
        "outcome": "met" if isinstance(outcome, ConditionMet) else "suspended",
        "on": str(outcome.details.waitpoint_id),
    }


def observed(signals: list[ResumeSignal]) -> dict[str, Any]:
    return {"signals": [str(signal.signal_id) for signal in signals]}


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    engine.with_scanners(LOOPS)
    await Worker(setup, engine, log, stop).run()
