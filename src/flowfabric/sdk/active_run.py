"""One execution on a worker, from its claim until its outcome is reported."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING

from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked, Retry

if TYPE_CHECKING:
    from flowfabric.sdk.reporter import Reporter
    from flowfabric.sdk.session import Session

log = logging.getLogger("flowfabric.worker")

UNKNOWN_TASK_DELAY_MS, OUTAGE_DELAY_MS = 10_000, 1_000


class ActiveRun:
    """Records why its asyncio task is cancelled; the cancellation itself carries no reason."""

    __slots__ = (
        "_is_ending",
        "_is_released",
        "_reporter",
        "context",
        "previous",
        "session",
        "thread",
    )

    def __init__(self, reporter: Reporter, session: Session) -> None:
        self._reporter, self.session, self.context = reporter, session, Context(session)
        self.thread: Future[object] | None = None
        """The thread of a task that is not async, once it is started."""
        self.previous: asyncio.Task[None] | None = None
        """The handler of the same run under a lost lease; it ends before this one starts."""
        self._is_ending = self._is_released = False

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
