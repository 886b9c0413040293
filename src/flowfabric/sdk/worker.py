"""The worker: takes what its tasks can run, as much as it has room for, and sees each to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, EngineError, TransportError
from flowfabric.ids import lane_id
from flowfabric.model.lease import MAX_CLAIM_BATCH, ClaimPolicy, Work
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.sdk.app import App, Middleware
from flowfabric.sdk.context import Context
from flowfabric.sdk.ends import Ends
from flowfabric.sdk.failures import Parked, PayloadError
from flowfabric.sdk.flow import results_wanted
from flowfabric.sdk.renewer import Renewer
from flowfabric.sdk.schedules import Ticker
from flowfabric.sdk.task import Task
from flowfabric.sdk.times import Span, millis
from flowfabric.store.hub import Waiter

log = logging.getLogger("flowfabric.worker")

POLL_S = 1.0
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 5.0
UNKNOWN_AGAIN_MS = 10_000


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
        loops: bool = True,
    ) -> None:
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or not 1 <= concurrency <= 10_000:
            raise ConfigError(f"concurrency: a whole number from 1 to 10000, got {concurrency!r:.80}")
        self.app = app
        self.lanes: list[str] = [lane_id(lane) for lane in lanes] if lanes is not None else app.lanes
        if not self.lanes:
            raise ConfigError("lanes: at least one lane is required; declare a task or name a lane")
        self.capabilities = sorted({*app.capabilities, *capabilities})
        self.worker_id = worker_id or Path(sys.argv[0] or "python").stem or "python"
        self.instance_id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._room = concurrency
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._bell: Waiter | None = None
        self._lease_ms, self._grace_ms = millis(lease, "lease"), millis(grace, "grace")
        self._state = {type(each): each for each in (*app.state, *state)}
        self._middleware, self._loops = [*app.middleware, *middleware], loops
        self._handlers: dict[asyncio.Task[None], Context] = {}
        self._stopping = asyncio.Event()
        self._claimer: asyncio.Task[None] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._concurrency = concurrency
        self._renewer = Renewer(app, self._lease_ms)
        self._ticker: Ticker | None = None
        self.done = 0
        self._check_state()

    def _check_state(self) -> None:
        for task in self.app.tasks.values():
            for name, kind in task.signature.injected.items():
                if not any(isinstance(each, kind) for each in self._state.values()):
                    raise ConfigError(f"task {task.name}: {name}: no {kind.__name__} in the worker's state=[...]")

    # ---- running

    async def run(self) -> None:
        """Until SIGTERM, SIGINT or `stop()`; then what runs is finished, within the grace."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, self._stopping.set)
        async with self:
            claimer = self._claimer
            assert claimer is not None
            await claimer

    async def __aenter__(self) -> Worker:
        engine = await self.app.engine()
        self._ends = Ends(self.app, engine)
        if self._loops:
            getattr(engine, "with_scanners", lambda: None)()
        await self._register(engine)
        self._ticker = Ticker(self.app, engine)
        self._ticker.start()
        self._claimer = asyncio.create_task(self._claim_on(engine), name="flowfabric-worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self, grace: Span | None = None) -> None:
        """Takes nothing new, lets what runs finish, and gives back what does not in time."""
        self._stopping.set()
        self._has_room.set()
        if self._bell is not None:
            self._bell.ring()
        if self._ticker is not None:
            await self._ticker.stop()
        if self._claimer is not None:
            await self._claimer
            self._claimer = None
        if self._handlers:
            wait_s = (self._grace_ms if grace is None else millis(grace, "grace")) / 1_000
            _, late = await asyncio.wait(tuple(self._handlers), timeout=wait_s)
            for handler in late:
                handler.cancel()
            if late:
                await asyncio.wait(late)
        await self._renewer.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def run_until_idle(self) -> int:
        """Works off what there is, and what comes of it, and returns how many were run. For tests and batches."""
        before = self.done
        engine = await self.app.engine()
        self._ends = Ends(self.app, engine)
        while True:
            taken = await self._claim_some(engine)
            if not taken and not self._handlers:
                return self.done - before
            if not taken:
                await asyncio.wait(tuple(self._handlers), return_when=asyncio.FIRST_COMPLETED)

    @property
    def running(self) -> int:
        """How many it is busy with."""
        return len(self._handlers)

    async def _register(self, engine: Engine) -> None:
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

    async def _claim_on(self, engine: Engine) -> None:
        pause = FIRST_PAUSE_S
        beat = asyncio.create_task(self._beat(engine))
        try:
            while not self._stopping.is_set():
                try:
                    await self._claim_or_wait(engine)
                    pause = FIRST_PAUSE_S
                except EngineError as error:
                    if not error.retryable:
                        log.exception("the worker cannot go on")
                        raise
                    log.warning("cannot ask for work (%s); trying again in %.1f s", error, pause)
                    await self._rest(pause)
                    pause = min(pause * 2, LAST_PAUSE_S)
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat

    async def _beat(self, engine: Engine) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3_000)
            with suppress(TransportError):
                await engine.heartbeat_worker(self.instance_id, self.app.namespace)

    async def _claim_or_wait(self, engine: Engine) -> None:
        """Room first, then work: what is claimed can begin at once."""
        await self._has_room.wait()
        with engine.work_bell(*self.lanes) as self._bell:
            self._bell.arm()
            if self._stopping.is_set() or await self._claim_some(engine):
                return
            await self._bell.wait(POLL_S)

    async def _claim_some(self, engine: Engine) -> int:
        """From each lane in turn, as long as there is room."""
        policy = ClaimPolicy(self.worker_id, self.instance_id, self._lease_ms)
        taken = 0
        for lane in self.lanes:
            if not self._room:
                break
            wanted = min(self._room, MAX_CLAIM_BATCH)
            self._room -= wanted
            works: list[Work] = []
            try:
                works = await engine.claim_many(lane, self.capabilities, policy, wanted)
            finally:
                self._room += wanted - len(works)
            if not self._room:
                self._has_room.clear()
            for work in works:
                self._begin(engine, work, lane)
            taken += len(works)
        self.lanes.append(self.lanes.pop(0))
        return taken

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # ---- one execution

    def _begin(self, engine: Engine, work: Work, lane: str) -> None:
        context = Context(self.app, engine, work, work.execution_kind, lane)
        handler = asyncio.create_task(self._handle(engine, work, context), name=f"flowfabric-{work.execution_kind}")
        self._handlers[handler] = context
        self._renewer.hold(work.handle, partial(self._lose, handler, context))
        handler.add_done_callback(partial(self._over, work))

    def _lose(self, handler: asyncio.Task[None], context: Context) -> None:
        """Somebody else has it now, or nobody may any more: the task is stopped where it is."""
        context.lost.set()
        handler.cancel()

    def _over(self, work: Work, handler: asyncio.Task[None]) -> None:
        self._renewer.let_go(work.handle)
        self._handlers.pop(handler, None)
        self._room += 1
        self.done += 1
        if not handler.cancelled() and (error := handler.exception()) is not None:
            log.error("%s: its end could not be told", work.execution_id, exc_info=error)
        self._has_room.set()

    async def _handle(self, engine: Engine, work: Work, context: Context) -> None:
        task = self.app.tasks.get(work.execution_kind)
        if task is None:
            log.error("%s: this worker has no task %r; it is handed back", work.execution_id, work.execution_kind)
            await engine.delay(work.handle, await engine.server_time_ms() + UNKNOWN_AGAIN_MS)
            return
        try:
            value = await self._run(engine, work, context, task)
            data = task.signature.encode_result(value)
        except Parked:
            return
        except asyncio.CancelledError:
            if not context.lost.is_set():
                await self._ends.give_back(work)
            raise
        except Exception as error:
            await self._ends.failed(work, task, error)
            return
        await self._ends.completed(work, data)

    async def _run(self, engine: Engine, work: Work, context: Context, task: Task[..., Any]) -> Any:
        raw, later = task.signature.decode(self.app.codec.decode(work.input_payload))
        for name, idents in results_wanted(later).items():
            found = [await self._result_of(engine, ident) for ident in idents]
            raw[name] = found if isinstance(later[name], list) else found[0]
        arguments = task.signature.arguments(raw)
        if task.signature.context_name is not None:
            arguments[task.signature.context_name] = context
        for name, kind in task.signature.injected.items():
            arguments[name] = next(each for each in self._state.values() if isinstance(each, kind))

        async def call_task() -> Any:
            if task.is_async:
                return await task.run(arguments)
            return await asyncio.get_running_loop().run_in_executor(self._pool, partial(task.function, **arguments))

        call: Callable[[], Awaitable[Any]] = call_task
        for middleware in reversed(self._middleware):
            call = partial(middleware, context, call)
        async with asyncio.timeout(None if task.timeout_ms is None else task.timeout_ms / 1_000):
            return await call()

    async def _result_of(self, engine: Engine, ident: Any) -> Any:
        data = await engine.get_execution_result(ident)
        if data is None:
            outcome = await engine.read_outcome(ident)
            if outcome is None or outcome.terminal_outcome != "success":
                raise PayloadError(f"the result of {ident} is wanted, and it has none")
            return None
        return msgspec.Raw(self.app.codec.decode(data))

    @property
    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="flowfabric-task")
        return self._threads
