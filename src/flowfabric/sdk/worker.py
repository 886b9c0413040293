"""The worker: claims executions of its app's tasks and runs them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.ids import lane_id
from flowfabric.sdk.app import App, Middleware
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.executor import Executor
from flowfabric.sdk.invoke import Invoker
from flowfabric.sdk.lease_renewer import LeaseRenewer
from flowfabric.sdk.producer import Producer, Registration, Slots
from flowfabric.sdk.schedules import Ticker
from flowfabric.sdk.task_registry import TaskRegistry

MAX_CONCURRENCY = 10_000


class Worker:
    """Runs the tasks of an app.

    `async with Worker(app): ...` works beside your own code; `await Worker(app).run()` works until
    SIGTERM or SIGINT. A worker is used once.

    - `lanes`: the lanes to claim from, default those of the app's tasks.
    - `concurrency`: how many executions run at the same time, 1 to 10,000, default 16.
    - `capabilities`: offered in addition to the app's tasks, default none.
    - `lease`: how long an execution stays with this worker without a renewal, default `"30s"`. A
      lease is renewed after a third of that time, by a thread of its own. After a crash another
      worker continues when the lease has expired.
    - `grace`: how long `stop()` waits for what runs, default `"30s"`.
    - `state`: objects that parameters annotated `State[...]` receive, by type.
    - `middleware`: functions `async def around(ctx, call)`; the first is the outermost.
    - `worker_id`: the name shown to operators, default that of the program.
    - `loops`: whether this process also runs the background loops (timers, expired leases,
      retention); default True.
    """

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
        _check_concurrency(concurrency)
        self.app, self._loops = app, loops
        self.lanes: list[str] = (
            [lane_id(lane) for lane in lanes] if lanes is not None else app.lanes
        )
        if not self.lanes:
            raise ConfigError("lanes: at least one lane is required; declare a task or name a lane")
        self.capabilities = sorted({*app.capabilities, *capabilities})
        self.worker_id = worker_id or Path(sys.argv[0] or "python").stem or "python"
        self._grace_ms = millis(grace, "grace")
        self._registration = Registration(
            self.worker_id,
            f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}",
            app.namespace,
            frozenset(self.lanes),
            tuple(self.capabilities),
            millis(lease, "lease"),
        )
        self._registry = TaskRegistry(app)
        self._invoker = Invoker(
            app,
            {type(each): each for each in (*app.state, *state)},
            [*app.middleware, *middleware],
            concurrency,
        )
        slots, self._renewer = Slots(concurrency), LeaseRenewer(app, self._registration.lease_ms)
        self._executor = Executor(app, self._invoker, self._renewer, slots)
        self._producer = Producer(self._registration, self.lanes, slots, self._executor.start)
        self._claiming: asyncio.Task[None] | None = None
        self._ticker: Ticker | None = None

    # ---- state

    @property
    def instance_id(self) -> str:
        """The name of this worker in leases and the registry; unique per process and start."""
        return self._registration.instance_id

    @instance_id.setter
    def instance_id(self, instance_id: str) -> None:
        self._registration.instance_id = instance_id

    @property
    def running(self) -> int:
        """How many executions are running now."""
        return self._executor.running

    @property
    def done(self) -> int:
        """How many executions have ended on this worker, waits included."""
        return self._executor.done

    @property
    def is_stopping(self) -> bool:
        """Whether it has been asked to stop; it claims nothing more."""
        return self._producer.stopping.is_set()

    @property
    def is_crashed(self) -> bool:
        """Whether `crash()` has been called."""
        return self._producer.is_crashed

    @property
    def failed_renewals(self) -> int:
        """How many attempts to renew a lease have failed."""
        return self._renewer.failures

    # ---- running

    async def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop()`, then lets what runs finish within the grace."""
        with _stopped_by_signals(self.request_stop):
            async with self:
                assert self._claiming is not None
                await asyncio.wait({self._claiming})

    async def __aenter__(self) -> Worker:
        if self.is_stopping or self._claiming is not None:
            raise ConfigError("worker: it has been started before; create another Worker")
        engine = await self._opened()
        if self._loops:
            engine.with_scanners(self._loops if isinstance(self._loops, LoopSettings) else None)
        await self._registration.add(engine)
        await self._registry.add(engine)
        self._ticker = Ticker(self.app, engine)
        self._ticker.start()
        self._claiming = asyncio.create_task(self._claim(engine), name="flowfabric-worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _opened(self) -> EngineProtocol:
        engine = await self.app.engine()
        self._executor.open(engine, partial(self._producer.complete, engine))
        return engine

    async def _claim(self, engine: EngineProtocol) -> None:
        beside = [
            asyncio.create_task(self._registration.beat(engine)),
            asyncio.create_task(self._registry.keep(engine)),
        ]
        try:
            await self._producer.run(engine)
        finally:
            for each in beside:
                each.cancel()
            await asyncio.wait(beside)

    def request_stop(self) -> None:
        """Claims nothing more; `run()` then ends. Does not wait."""
        self._producer.stop()

    async def stop(self, grace: Span | None = None) -> None:
        """Claims nothing more and waits for what runs, at most for `grace`.

        The default is the worker's own grace. What has not ended by then is cancelled and given
        back: another worker continues it.
        """
        grace_ms = self._grace_ms if grace is None else millis(grace, "grace")
        self.request_stop()
        if self._ticker is not None:
            await self._ticker.stop()
        claiming, self._claiming = self._claiming, None
        if claiming is not None:
            await asyncio.wait({claiming})
        await self._executor.drain(grace_ms / 1_000)
        await self._renewer.close()
        self._invoker.close()
        if claiming is not None:
            await self._registration.remove(await self.app.engine())
            claiming.result()

    async def run_until_idle(self, most: int | None = None) -> int:
        """For tests and batches: runs what is claimable until nothing is left.

        Returns how many executions have ended. After `most` of them it claims nothing more; those
        that run already are finished.
        """
        before = self.done
        engine = await self._opened()
        while True:
            ended = self.done
            may_claim = most is None or ended - before < most
            taken = await self._producer.claim(engine) if may_claim else 0
            # What ended during the claim may have made more claimable.
            if not taken and not self.running and ended == self.done:
                return self.done - before
            if not taken and self.running:
                await self._executor.wait_for_one()

    async def crash(self) -> None:
        """For tests: stops as if the process had died. Nothing is finished, given back or reported.

        The leases of what ran expire.
        """
        self._producer.is_crashed = True
        self.request_stop()
        unwinding = self._executor.abandon()
        if self._claiming is not None:
            unwinding.append(self._claiming)
        self._claiming = None
        if unwinding:
            await asyncio.wait(unwinding)
        if self._ticker is not None:
            await self._ticker.stop()
        await self._renewer.close()


def _check_concurrency(value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_CONCURRENCY:
        raise ConfigError(
            f"concurrency: a whole number from 1 to {MAX_CONCURRENCY}, got {value!r:.80}"
        )


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Where signals can be handled at all: in the main thread, and not on Windows."""
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
