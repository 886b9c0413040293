"""The worker: takes what its tasks can run, as much as it has room for, and sees each to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, EngineError
from flowfabric.ids import ExecutionId, lane_id
from flowfabric.model.event import LEASE_EVENTS
from flowfabric.model.lease import MAX_CLAIM_BATCH, ClaimPolicy, Handle, Work
from flowfabric.model.worker import NotRegistered, RegisterWorkerArgs
from flowfabric.sdk.active_run import Running
from flowfabric.sdk.app import App, Middleware
from flowfabric.sdk.context import Context
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.invoke import Invoker
from flowfabric.sdk.lease_renewer import LeaseRenewer
from flowfabric.sdk.reporter import Reporter
from flowfabric.sdk.retry import passes
from flowfabric.sdk.schedules import Ticker
from flowfabric.sdk.slots import Slots
from flowfabric.store.wakeups import WorkWaiter

log = logging.getLogger("flowfabric.worker")

POLL_S, BREATH_S, MOMENT_S = 5.0, 0.02, 0.003
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 5.0
MOST_AT_ONCE = 64
"""More than this are better claimed while their own work goes on: in one call all would wait for each other."""
UNWIND_S = 10.0
"""How long what was cancelled may take to clean up and be given back."""
CALL_OFF_S = 2.0
"""How long a question that waits on a server may take to come back when the worker stops."""


class Worker:
    """`async with Worker(app): ...` works beside your own code; `await Worker(app).run()` until it is told to stop."""

    def __init__(
        self,
        app: App,
        *,
        lanes: Iterable[str] | None = None,
        concurrency: int = 16,
        capabilities: Iterable[str] = (),
        lease: Span = "30s",
        grace: Span = "30s",
        state: Sequence[object] = (),
        middleware: Sequence[Middleware] = (),
        worker_id: str | None = None,
        loops: bool | LoopSettings = True,
    ) -> None:
        if (
            not isinstance(concurrency, int)
            or isinstance(concurrency, bool)
            or not 1 <= concurrency <= 10_000
        ):
            raise ConfigError(
                f"concurrency: a whole number from 1 to 10000, got {concurrency!r:.80}"
            )
        self.app = app
        self.lanes: list[str] = (
            [lane_id(lane) for lane in lanes] if lanes is not None else app.lanes
        )
        if not self.lanes:
            raise ConfigError("lanes: at least one lane is required; declare a task or name a lane")
        self.capabilities = sorted({*app.capabilities, *capabilities})
        self.worker_id = worker_id or Path(sys.argv[0] or "python").stem or "python"
        self.instance_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._room = Slots(concurrency)
        self._bell: WorkWaiter | None = None
        self._lease_ms, self._grace_ms = millis(lease, "lease"), millis(grace, "grace")
        self._caller = Invoker(
            app,
            {type(each): each for each in (*app.state, *state)},
            [*app.middleware, *middleware],
            concurrency,
        )
        self._loops = loops
        self._handlers: dict[asyncio.Task[None], Running] = {}
        self._by_run: dict[ExecutionId, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._is_dead = False
        self._claimer: asyncio.Task[None] | None = None
        self._renewer = LeaseRenewer(app, self._lease_ms)
        self._ticker: Ticker | None = None
        self.done = 0

    # ---- running

    async def run(self) -> None:
        """Until SIGTERM, SIGINT or `stop()`; then what runs is finished, within the grace."""
        with _signals(self._close_up):
            async with self:
                assert self._claimer is not None
                await asyncio.wait({self._claimer})

    async def __aenter__(self) -> Worker:
        if self._stopping.is_set() or self._claimer is not None:
            raise ConfigError("worker: it runs or has been stopped already; make another one")
        engine = await self.app.engine()
        self._ends = Reporter(engine, partial(self._complete, engine))
        if self._loops:
            engine.with_scanners(self._loops if isinstance(self._loops, LoopSettings) else None)
        await self._register(engine)
        self._ticker = Ticker(self.app, engine)
        self._ticker.start()
        self._claimer = asyncio.create_task(self._claim_on(engine), name="flowfabric-worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _close_up(self) -> None:
        """Nothing new is taken from now on."""
        self._stopping.set()
        self._room.call_off()
        if self._bell is not None:
            self._bell.ring()

    async def stop(self, grace: Span | None = None) -> None:
        """Takes nothing new, lets what runs finish, and gives back what does not in time."""
        wait_s = (self._grace_ms if grace is None else millis(grace, "grace")) / 1_000
        self._close_up()
        if self._ticker is not None:
            await self._ticker.stop()
        claimer, self._claimer = self._claimer, None
        if claimer is not None:
            await asyncio.wait({claimer})
        await self._drain(wait_s)
        await self._renewer.close()
        self._caller.close()
        if claimer is not None:
            await self._deregister()
            claimer.result()

    async def _drain(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        while busy := set(self._handlers):  # more than once: the last ends may have brought more
            if (await asyncio.wait(busy, timeout=max(until - time.monotonic(), 0)))[1]:
                break
        late = set(self._handlers)
        for handler in late:
            self._handlers[handler].give_back(handler)
        if late:
            self._ends.telemetry.shutdown_timeout()
            _, stuck = await asyncio.wait(late, timeout=UNWIND_S)
            for handler in stuck & self._handlers.keys():
                ident = self._handlers[handler].context.execution_id
                said = {"execution_id": str(ident)}
                log.error(
                    "%s: it goes on although it was cancelled; its lease is left to run out",
                    ident,
                    extra=said,
                )

    async def run_until_idle(self, most: int | None = None) -> int:
        """Works off what there is, and what comes of it, and returns how many were run. For tests and batches.

        After `most` or a few more it takes nothing new.
        """
        before = self.done
        engine = await self.app.engine()
        self._ends = Reporter(engine, partial(self._complete, engine))
        while True:
            ended = self.done
            taken = await self._claim_some(engine) if most is None or ended - before < most else 0
            if (
                not taken and not self._handlers and ended == self.done
            ):  # what ended meanwhile may have left more to do
                return self.done - before
            if not taken and self._handlers:
                await asyncio.wait(tuple(self._handlers), return_when=asyncio.FIRST_COMPLETED)

    async def crash(self) -> None:
        """As if its process had died, for tests: nothing is finished, given back or told, and its leases run out."""
        self._is_dead = True
        self._close_up()
        gone = [self._claimer] if self._claimer is not None else []
        for handler, running in tuple(self._handlers.items()):
            running.lose(handler)
            gone.append(handler)
        self._claimer = None
        if gone:
            await asyncio.wait(gone)
        if self._ticker is not None:
            await self._ticker.stop()
        await self._renewer.close()

    @property
    def running(self) -> int:
        """How many it is busy with."""
        return len(self._handlers)

    async def _register(self, engine: EngineProtocol) -> None:
        await engine.register_worker(
            RegisterWorkerArgs(
                worker_id=self.worker_id,
                worker_instance_id=self.instance_id,
                namespace=self.app.namespace,
                lanes=frozenset(self.lanes),
                capabilities=frozenset(self.capabilities),
                liveness_ttl_ms=max(self._lease_ms, 1_000),
            )
        )

    # ---- claiming

    async def _claim_on(self, engine: EngineProtocol) -> None:
        pause = FIRST_PAUSE_S
        beat = asyncio.create_task(self._beat(engine))
        try:
            while not self._stopping.is_set():
                try:
                    await self._claim_or_wait(engine)
                    pause = FIRST_PAUSE_S
                except Exception as error:
                    if isinstance(error, EngineError) and passes(error):
                        log.warning(
                            "cannot ask for work (%s); trying again in %.1f s", error, pause
                        )
                    else:
                        log.exception("asking for work failed; trying again in %.1f s", pause)
                    await self._rest(pause)
                    pause = min(pause * 2, LAST_PAUSE_S)
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat

    async def _deregister(self) -> None:
        """Whoever routes by what workers can do need not wait until it falls silent."""
        engine = await self.app.engine()
        with suppress(EngineError):
            await engine.mark_worker_dead(self.instance_id, "stopped", self.app.namespace)

    async def _beat(self, engine: EngineProtocol) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3_000)
            try:
                if isinstance(
                    await engine.heartbeat_worker(self.instance_id, self.app.namespace),
                    NotRegistered,
                ):
                    await self._register(engine)
            except EngineError as error:
                log.warning("the worker could not say that it is alive (%s); trying again", error)
            except Exception:
                log.exception("the worker could not say that it is alive; trying again")

    async def _claim_or_wait(self, engine: EngineProtocol) -> None:
        """Room first, then work: what is claimed can begin at once."""
        if self._room.left <= 0:
            engine.telemetry.worker_at_capacity()
            await self._room.wait()
        if len(self.lanes) == 1 and engine.may_wait:
            await self._claim_when_there_is(engine)
            return
        waiter = self._bell = await engine.work_bell(*self.lanes, namespace=self.app.namespace)
        with waiter:
            waiter.arm()
            if self._stopping.is_set():
                return
            taken = await self._claim_some(engine)
            if (
                self._room.left > 0
            ):  # there was not more; what was taken is not held up by asking again at once
                await waiter.wait(BREATH_S if taken else POLL_S)
        if not taken and (LEASE_EVENTS, None) in waiter.topics:
            await self._rest(BREATH_S)  # leases end all the time, and few make room

    async def _claim_when_there_is(self, engine: EngineProtocol) -> None:
        """Asking is a journey: the question waits there for work, and is called off when the worker stops.

        It is not just dropped: what was granted that very moment would be nobody's until its lease runs out.
        """
        asking = asyncio.create_task(self._claim_some(engine, int(POLL_S * 1_000)))
        stopping = asyncio.create_task(self._stopping.wait())
        taken = 0
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await self._call_off(engine, asking)
            if asking.done():
                taken = asking.result()
        finally:
            for task in (asking, stopping):
                task.cancel()
            await asyncio.wait({asking, stopping})
        if (
            taken and self._room.left > 0
        ):  # there was not more; what was taken is not held up by asking again at once
            await self._rest(MOMENT_S)

    async def _call_off(self, engine: EngineProtocol, asking: asyncio.Task[int]) -> None:
        with suppress(EngineError, TimeoutError):
            async with asyncio.timeout(CALL_OFF_S):
                await engine.call_off(self.instance_id)
                await asyncio.wait({asking})

    async def _claim_some(self, engine: EngineProtocol, wait_ms: int | None = None) -> int:
        """From each lane in turn, as long as there is room."""
        taken = 0
        for lane in tuple(self.lanes):
            if self._room.left <= 0:
                break
            wanted = min(self._room.left, MAX_CLAIM_BATCH)
            self._room.ask(wanted)
            works: list[Work] = []
            try:
                works = await engine.claim_many(
                    lane, self.capabilities, self._policy(wait_ms), wanted
                )
            finally:
                self._room.answer(wanted, len(works))
            for work in works:
                self._begin(engine, work, lane)
            taken += len(works)
        self.lanes.append(self.lanes.pop(0))
        return taken

    async def _complete(
        self, engine: EngineProtocol, many: Sequence[tuple[Handle, bytes | None]]
    ) -> Sequence[EngineError | None]:
        """Where all hands are full, whatever ends makes room: as many are asked for in the same call."""
        if len(many) > MOST_AT_ONCE or not self._room.is_taken or self._stopping.is_set():
            return await engine.complete_many(many)
        lane = self.lanes[0]
        self.lanes.append(self.lanes.pop(0))
        answers, works = await engine.complete_and_claim(
            many, lane, self.capabilities, self._policy(), len(many)
        )
        if not self._is_dead:
            self._room.take(len(works))
            for work in works:
                self._begin(engine, work, lane)
        return answers

    def _policy(self, wait_ms: int | None = None) -> ClaimPolicy:
        return ClaimPolicy(
            self.worker_id, self.instance_id, self._lease_ms, wait_ms, self.app.namespace
        )

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # ---- one execution

    def _begin(self, engine: EngineProtocol, work: Work, lane: str) -> None:
        context = Context(self.app, engine, work, lane)
        running = Running(self._ends, engine, work, context)
        former = self._by_run.get(work.execution_id)
        if former is not None:
            running.former = former
            self._handlers[former].lose(former)
        handler = asyncio.create_task(self._handle(engine, running), name=work.execution_kind)
        self._handlers[handler] = running
        self._by_run[work.execution_id] = handler
        handler.add_done_callback(self._over)
        self._renewer.hold(work.handle, partial(running.lose, handler))

    def _over(self, handler: asyncio.Task[None]) -> None:
        running = self._handlers.pop(handler)
        if self._by_run.get(running.work.execution_id) is handler:
            del self._by_run[running.work.execution_id]
        self._renewer.let_go(running.work.handle)
        self.done += 1
        if not handler.cancelled() and (error := handler.exception()) is not None:
            ident = running.work.execution_id
            log.error(
                "%s: its end could not be told",
                ident,
                exc_info=error,
                extra={"execution_id": str(ident)},
            )
        if running.thread is None or running.thread.done():
            self._room.make()
        else:  # a function that was given up runs on, and its thread with it
            running.thread.add_done_callback(
                partial(_soon, asyncio.get_running_loop(), self._room.make)
            )

    async def _handle(self, engine: EngineProtocol, running: Running) -> None:
        task = self.app.runnable(running.work.execution_kind)
        if task is None:
            await running.hand_back()
            return
        try:
            if running.former is not None:
                await asyncio.wait({running.former})
            value = await self._caller.call(engine, running, task)
            running.context.check_finished()
            data = self._caller.sealed(task, value)
        except BaseException as error:
            await running.unwound(task, error)
            return
        await running.completed(task, data)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT ask to stop, for as long as the worker runs; where signals can be handled at all."""
    loop, handled = asyncio.get_running_loop(), []
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, stop)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None], _: object) -> None:
    with suppress(RuntimeError):  # that loop is closed, and nobody needs the room
        loop.call_soon_threadsafe(call)
