"""How a run of a task is told to the engine, and told again when the answer is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.lease import Work
from flowfabric.sdk.app import App
from flowfabric.sdk.failures import BudgetExceeded, CancelRun, Fatal, PayloadError, Retry, StepError
from flowfabric.sdk.task import Task

log = logging.getLogger("flowfabric.worker")

TRIES = 8
FIRST_PAUSE_S, LAST_PAUSE_S = 0.05, 2.0
MAX_REASON = 8_192


class Ends:
    def __init__(self, app: App, engine: Engine) -> None:
        self._app, self._engine = app, engine

    async def completed(self, work: Work, data: bytes | None) -> None:
        result = None if data is None else self._app.codec.encode(data)
        await self._told(work, lambda: self._engine.complete(work.handle, result))

    async def failed(self, work: Work, task: Task[..., Any], error: Exception) -> None:
        """By the kind of exception: final, worth another try, or given up."""
        if isinstance(error, CancelRun):
            await self._told(work, lambda: self._engine.cancel(work.handle, str(error)))
            return
        category, again, after = _judged(error, task)
        log.warning("%s: task %s failed (%s)", work.execution_id, task.name, category, exc_info=error)
        reason = FailureReason(_message(error), category.encode())
        kind = FailureClass.TRANSIENT if again else FailureClass.PERMANENT
        await self._told(work, lambda: self._engine.fail(work.handle, reason, kind, retry_after_ms=after))

    async def give_back(self, work: Work) -> None:
        """The worker stops: whoever has room may go on with it at once."""
        await self._told(work, lambda: self._give_back(work))

    async def _give_back(self, work: Work) -> None:
        await self._engine.delay(work.handle, await self._engine.server_time_ms())

    async def _told(self, work: Work, tell: Callable[[], Awaitable[Any]]) -> None:
        """What was told before and is told again does no harm: the fence knows it."""
        pause = FIRST_PAUSE_S
        for left in range(TRIES - 1, -1, -1):
            try:
                await tell()
                return
            except EngineError as error:
                if not error.retryable or not left:
                    log.warning("%s: its end was not taken: %s", work.execution_id, error)
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)


def _judged(error: Exception, task: Task[..., Any]) -> tuple[str, bool, int | None]:
    """The category, whether another try is worth it, and after how long at the earliest."""
    match error:
        case Fatal():
            return error.category, False, None
        case Retry():
            return "transient", True, error.after_ms
        case PayloadError():
            return "bad_payload", False, None
        case StepError():
            return "step_mismatch", False, None
        case BudgetExceeded():
            return "budget_hard_breach", False, None
    again = task.retry is not None and isinstance(error, task.retry.on)
    return ("timeout" if isinstance(error, TimeoutError) else "handler_error"), again, None


def _message(error: BaseException) -> str:
    """The whole chain of causes, in one line each."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 10:
        said = str(cause)
        parts.append(f"{type(cause).__name__}: {said}" if said else type(cause).__name__)
        cause = cause.__cause__
    return ": ".join(parts).replace("\0", "")[:MAX_REASON]
