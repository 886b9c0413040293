"""Runs claimed executions, each in an asyncio task of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Work
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked, Retry
from flowfabric.sdk.invoke import Invoker
from flowfabric.sdk.lease_renewer import LeaseRenewer
from flowfabric.sdk.producer import Slots
from flowfabric.sdk.reporter import CompleteMany, Reporter
from flowfabric.sdk.session import Session

if TYPE_CHECKING:
    from flowfabric.sdk.app import App

log = logging.getLogger("flowfabric.worker")

UNKNOWN_TASK_DELAY_MS, OUTAGE_DELAY_MS = 10_000, 1_000
UNWIND_S = 10.0
"""How long cancelled tasks may take to clean up before their leases are left to expire."""


class ActiveRun:
    """Records why its asyncio task is cancelled; the cancellation itself carries no reason."""

    def __init__(self, reporter: Reporter, session: Session) -> None:
        self._reporter, self.session = reporter, session
        self.thread: Future[object] | None = None
        """The thread of a task that is not async, once it is started."""
        self.previous: asyncio.Task[None] | None = None
        """The handler of the same run under a lost lease; it ends before this one starts."""
        self._is_ending = self._is_released = False

    @cached_property
    def context(self) -> Context:
        """Made for a task or a middleware that takes it."""
        return Context(self.session)

    def lose(self, handler: asyncio.Task[None]) -> None:
        """Stops the task because its lease is lost.

        A run that waits or reports its end gives its lease away itself and is not interrupted.
        """
        if not self.session.is_parked and not self._is_ending:
            self.session.lose()
            handler.cancel()

    def release(self, handler: asyncio.Task[None]) -> None:
        """Stops the task because the worker stops; another worker continues it."""
        if not self._is_ending:
            self._is_released = True
            handler.cancel()

    async def refuse(self) -> None:
        """This worker has no such task. The run is tried again later, maybe by another worker."""
        log.error("the task of an execution is not declared here; given back", extra=self._fields())
        self._end()
        await self._reporter.give_back(self.session.work, UNKNOWN_TASK_DELAY_MS)

    async def completed(self, retry: Retry | None, data: bytes | None) -> None:
        self._end()
        if self.session.is_parked:
            log.error(
                "a task caught the exception that makes it wait; it waits nevertheless",
                extra=self._fields(),
            )
        elif not self.session.is_lost:
            await self._reporter.completed(self.session.work, retry, data)

    async def failed(self, retry: Retry | None, error: BaseException) -> None:
        """Reports by the exception, and by what had happened to the run before it was raised."""
        self._end()
        if isinstance(error, KeyboardInterrupt):
            raise error
        if self.session.is_parked:
            if not isinstance(error, Parked | BaseExceptionGroup):
                log.error(
                    "a task failed while it began to wait", exc_info=error, extra=self._fields()
                )
        elif self.session.is_lost:
            log.warning("a task was stopped: its lease is lost", extra=self._fields())
        elif self._is_released or error is self.session.outage:
            self._warn_of_thread()
            delay_ms = 0 if self._is_released else OUTAGE_DELAY_MS
            await self._reporter.give_back(self.session.work, delay_ms)
        else:
            self._warn_of_thread()
            await self._reporter.failed(self.session.work, retry, error)

    def _end(self) -> None:
        self._is_ending = True
        self.session.end()

    def _warn_of_thread(self) -> None:
        if self.thread is not None and not self.thread.done():
            log.warning(
                "a task that is not async cannot be stopped in its thread and runs on",
                extra=self._fields(),
            )

    def _fields(self) -> dict[str, str | int]:
        work = self.session.work
        return {
            "execution_id": str(work.execution_id),
            "task": work.execution_kind,
            "attempt": work.attempt_index,
        }


class Executor:
    """`open` comes before the first `start`."""

    def __init__(self, app: App, invoker: Invoker, renewer: LeaseRenewer, slots: Slots) -> None:
        self._app, self._invoker, self._renewer, self._slots = app, invoker, renewer, slots
        self._handlers: dict[asyncio.Task[None], ActiveRun] = {}
        self._by_id: dict[ExecutionId, asyncio.Task[None]] = {}
        self.done = 0

    def open(self, engine: EngineProtocol, complete_many: CompleteMany) -> None:
        self._engine, self._reporter = engine, Reporter(engine, complete_many)

    @property
    def running(self) -> int:
        return len(self._handlers)

    def start(self, work: Work, lane: str) -> None:
        run = ActiveRun(self._reporter, Session(self._app, self._engine, work, lane))
        previous = self._by_id.get(work.execution_id)
        if previous is not None:
            run.previous = previous
            self._handlers[previous].lose(previous)
        handler = asyncio.create_task(self._handle(run), name=work.execution_kind)
        self._handlers[handler] = run
        self._by_id[work.execution_id] = handler
        handler.add_done_callback(self._ended)
        self._renewer.hold(work.handle, partial(run.lose, handler))

    async def _handle(self, run: ActiveRun) -> None:
        task = self._app.runnable(run.session.task)
        if task is None:
            await run.refuse()
            return
        try:
            if run.previous is not None:
                await asyncio.wait({run.previous})
            value = await self._invoker.call(run, task)
            run.session.check_finished()
            data = self._invoker.sealed_result(task, value)
        except BaseException as error:
            await run.failed(task.retry, error)
            return
        await run.completed(task.retry, data)

    def _ended(self, handler: asyncio.Task[None]) -> None:
        run = self._handlers.pop(handler)
        ident = run.session.id
        if self._by_id.get(ident) is handler:
            del self._by_id[ident]
        self._renewer.let_go(run.session.work.handle)
        self.done += 1
        if not handler.cancelled() and (error := handler.exception()) is not None:
            log.error(
                "the outcome of a run could not be reported",
                exc_info=error,
                extra={"execution_id": str(ident)},
            )
        if run.thread is None or run.thread.done():
            self._slots.release()
        else:  # the function was given up; its thread runs on and keeps the slot
            run.thread.add_done_callback(
                partial(_call_soon, asyncio.get_running_loop(), self._slots.release)
            )

    async def wait_for_one(self) -> None:
        await asyncio.wait(tuple(self._handlers), return_when=asyncio.FIRST_COMPLETED)

    async def drain(self, grace_s: float) -> None:
        """Waits for what runs, then gives back what has not ended in time."""
        until = time.monotonic() + grace_s
        # More than once: the last completions may have claimed more.
        while busy := set(self._handlers):
            if (await asyncio.wait(busy, timeout=max(until - time.monotonic(), 0)))[1]:
                break
        late = set(self._handlers)
        if not late:
            return
        for handler in late:
            self._handlers[handler].release(handler)
        self._engine.telemetry.shutdown_timeout()
        _, stuck = await asyncio.wait(late, timeout=UNWIND_S)
        for handler in stuck & self._handlers.keys():
            log.error(
                "a task runs on although it was cancelled; its lease is left to expire",
                extra={"execution_id": str(self._handlers[handler].session.id)},
            )

    def abandon(self) -> list[asyncio.Task[None]]:
        """Stops every task as if its lease were lost. Returns what is still to unwind."""
        for handler, run in tuple(self._handlers.items()):
            run.lose(handler)
        return list(self._handlers)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None], _: object) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(call)
