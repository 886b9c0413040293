"""One execution in the hands of a worker, from its claim to the moment its end is told."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from typing import Any

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.lease import Work
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked
from flowfabric.sdk.reporter import Reporter
from flowfabric.sdk.task import Task

log = logging.getLogger("flowfabric.worker")

UNKNOWN_AGAIN_MS, BROKEN_AGAIN_MS = 10_000, 1_000


class Running:
    """Why it is stopped is noted before it is cancelled: a task that is cancelled cannot tell."""

    __slots__ = (
        "_ends",
        "_engine",
        "_is_ending",
        "_is_given_back",
        "context",
        "former",
        "thread",
        "work",
    )

    def __init__(
        self, ends: Reporter, engine: EngineProtocol, work: Work, context: Context
    ) -> None:
        self._ends, self._engine, self.work, self.context = ends, engine, work, context
        self.thread: Future[Any] | None = None
        self.former: asyncio.Task[None] | None = None
        """It was lost and claimed again by the same worker: two of one run are not run at once."""
        self._is_ending = self._is_given_back = False

    def lose(self, handler: asyncio.Task[None]) -> None:
        """Somebody else has it now, or nobody may any more: the task is stopped where it is.

        One that waits or ends has given its lease away itself, and is not disturbed in that.
        """
        if not self.context.parked and not self._is_ending:
            self.context.lose()
            handler.cancel()

    def give_back(self, handler: asyncio.Task[None]) -> None:
        """The worker stops, and this was not ready in time."""
        if not self._is_ending:
            self._is_given_back = True
            handler.cancel()

    async def hand_back(self) -> None:
        log.error(
            "%s: this worker has no task %r; it is handed back",
            self.work.execution_id,
            self.work.execution_kind,
        )
        self._end()
        await self._ends.give_back(self.work, UNKNOWN_AGAIN_MS)

    def _end(self) -> None:
        self._is_ending = True
        self.context.end()

    async def completed(self, task: Task[..., Any], data: bytes | None) -> None:
        self._end()
        if self.context.parked:
            log.error(
                "%s: task %s caught what makes it wait; it waits all the same",
                self.work.execution_id,
                task.name,
            )
        elif not self.context.is_lost:
            await self._ends.completed(self.work, task, data)

    async def unwound(self, task: Task[..., Any], error: BaseException) -> None:
        """By what came out of the task, and by what had happened to it before."""
        self._end()
        if isinstance(error, KeyboardInterrupt):
            raise error
        if self.context.parked:
            if not isinstance(error, Parked | BaseExceptionGroup):
                log.error(
                    "%s: task %s failed while it went to wait",
                    self.work.execution_id,
                    task.name,
                    exc_info=error,
                )
        elif self.context.is_lost:
            said = {"execution_id": str(self.work.execution_id), "task": task.name}
            log.warning(
                "%s: task %s was stopped: its lease is lost",
                self.work.execution_id,
                task.name,
                extra=said,
            )
        elif self._is_given_back or error is self.context.broken:
            self._warn_of_thread(task)
            await self._ends.give_back(self.work, 0 if self._is_given_back else BROKEN_AGAIN_MS)
        else:
            self._warn_of_thread(task)
            await self._ends.failed(self.work, task, error)

    def _warn_of_thread(self, task: Task[..., Any]) -> None:
        if self.thread is not None and not self.thread.done():
            log.warning(
                "%s: task %s cannot be stopped in its thread and runs on",
                self.work.execution_id,
                task.name,
            )
