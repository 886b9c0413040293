"""How a run of a task is told to the engine, and told again when the answer is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import Corruption, EngineError, ErrorClass, ValidationError
from flowfabric.model.attempt import ATTEMPT_TIMEOUT, FailureClass, FailureReason
from flowfabric.model.lease import Handle, Work
from flowfabric.sdk.exceptions import (
    AttemptTimedOut,
    BudgetExceeded,
    CancelRun,
    ChildFailed,
    Fatal,
    PayloadError,
    Rejected,
    Retry,
    StepError,
    UnknownBudget,
)
from flowfabric.sdk.retry import passes, persist
from flowfabric.sdk.task import Task

log = logging.getLogger("flowfabric.worker")

MAX_REASON = 8_192
MAX_TOGETHER = 256


class Unreported(EngineError):
    """Telling an end failed with an error that is no known refusal; it is told again, and the fence knows it."""

    code = "untold"
    error_class = ErrorClass.RETRYABLE

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {_said(error)}")


Tell = Callable[[Sequence[tuple[Handle, bytes | None]]], Awaitable[Sequence[EngineError | None]]]
_Completion = tuple[Handle, bytes | None, asyncio.Future[EngineError | None]]


class Reporter:
    """Completions that come together are told together, by `complete_many`."""

    def __init__(self, engine: EngineProtocol, complete_many: Tell) -> None:
        self._engine, self._complete_many, self.telemetry = engine, complete_many, engine.telemetry
        self._completions: list[_Completion] = []
        self._teller: asyncio.Task[None] | None = None

    async def completed(self, work: Work, task: Task[..., Any], result: bytes | None) -> None:
        refused: ValidationError | None = None
        try:
            await persist(lambda: self._complete(work.handle, result))
        except EngineError as error:
            if (
                isinstance(error, ValidationError)
                and not passes(error)
                and not isinstance(error, Corruption)
            ):
                refused = error
            else:
                _log_refusal(work, error)
        if refused is not None:
            await self.failed(
                work, task, PayloadError(f"task {task.name}: its result cannot be kept: {refused}")
            )

    async def _complete(self, handle: Handle, result: bytes | None) -> None:
        told: asyncio.Future[EngineError | None] = asyncio.get_running_loop().create_future()
        self._completions.append((handle, result, told))
        if self._teller is None:
            self._teller = asyncio.create_task(self._tell(), name="flowfabric-completions")
        error = await told
        if error is not None:
            raise error

    async def _tell(self) -> None:
        try:
            while self._completions:
                batch, self._completions = (
                    self._completions[:MAX_TOGETHER],
                    self._completions[MAX_TOGETHER:],
                )
                for (_, _, told), answer in zip(batch, await self._answers(batch), strict=True):
                    if not told.done():
                        told.set_result(answer)
        finally:
            self._teller = None

    async def _answers(self, batch: Sequence[_Completion]) -> Sequence[EngineError | None]:
        """Each has an answer, whatever goes wrong: what fails in a way that is not known is asked about one by one."""
        try:
            answers = await self._complete_many([(handle, result) for handle, result, _ in batch])
            if len(answers) == len(batch):
                return answers
            raise AssertionError(f"{len(batch)} completions, {len(answers)} answers")
        except EngineError as error:
            return [error] * len(batch)
        except Exception as error:
            log.exception("%d completions could not be told; trying again", len(batch))
            if len(batch) == 1:
                return [Unreported(error)]
        return [(await self._answers([each]))[0] for each in batch]

    async def failed(self, work: Work, task: Task[..., Any], error: BaseException) -> None:
        """By the kind of exception: final, worth another try, or given up."""
        if isinstance(error, CancelRun):
            await self._told(work, lambda: self._engine.cancel(work.handle, _text(_said(error))))
            return
        category, again, after = _judged(error, task)
        said = {
            "execution_id": str(work.execution_id),
            "task": task.name,
            "attempt": work.attempt_index,
            "category": category,
        }
        log.warning(
            "%s: task %s failed (%s)",
            work.execution_id,
            task.name,
            category,
            exc_info=error,
            extra=said,
        )
        reason = FailureReason(_message(error), category.encode())
        kind = FailureClass.TRANSIENT if again else FailureClass.PERMANENT
        await self._told(
            work, lambda: self._engine.fail(work.handle, reason, kind, retry_after_ms=after)
        )

    async def give_back(self, work: Work, after_ms: int = 0) -> None:
        """Whoever has room may go on with it, at once or after a while."""
        await self._told(work, lambda: self._give_back(work, after_ms))

    async def _give_back(self, work: Work, after_ms: int) -> None:
        await self._engine.delay(work.handle, await self._engine.server_time_ms() + after_ms)

    async def _told(self, work: Work, tell: Callable[[], Awaitable[Any]]) -> None:
        """What was told before and is told again does no harm: the fence knows it."""

        async def guarded() -> None:
            try:
                await tell()
            except EngineError:
                raise
            except Exception as error:
                log.exception("%s: its end could not be told; trying again", work.execution_id)
                raise Unreported(error) from error

        try:
            await persist(guarded)
        except EngineError as error:
            _log_refusal(work, error)


def _log_refusal(work: Work, error: EngineError) -> None:
    log.warning(
        "%s: its end was not taken: %s",
        work.execution_id,
        error,
        extra={"execution_id": str(work.execution_id)},
    )


def _judged(error: BaseException, task: Task[..., Any]) -> tuple[str, bool, int | None]:
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
        case ChildFailed():
            return "child_failed", False, None
        case Rejected():
            return "rejected", False, None
        case BudgetExceeded():
            return "budget_hard_breach", False, None
        case UnknownBudget():
            return "unknown_budget", False, None
        case asyncio.CancelledError():
            return "cancelled", False, None
        case AttemptTimedOut():
            return ATTEMPT_TIMEOUT, True, None
    again = task.retry is not None and isinstance(error, task.retry.on)
    return ("timeout" if isinstance(error, TimeoutError) else "handler_error"), again, None


def _message(error: BaseException) -> str:
    """The whole chain of causes in one line; what a timeout interrupted is none of them."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 10:
        said = _said(cause)
        parts.append(f"{type(cause).__name__}: {said}" if said else type(cause).__name__)
        cause = None if isinstance(cause, AttemptTimedOut) else cause.__cause__
    return _text(": ".join(parts))


def _said(error: BaseException) -> str:
    """Some exceptions cannot be put into words: their own text is code of the user's, which may fail."""
    try:
        return str(error)
    except Exception as unsayable:
        return f"(its text cannot be read: {type(unsayable).__name__})"


def _text(said: str) -> str:
    """What every store can keep, and not more of it than anybody reads."""
    return said.replace("\0", "").encode(errors="replace").decode()[:MAX_REASON]
