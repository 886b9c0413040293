"""Reports the outcome of a run to the engine, again while answers are lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import Corruption, EngineError, ErrorClass, ValidationError
from flowfabric.model.attempt import (
    ATTEMPT_TIMEOUT,
    FailOutcome,
    FailureClass,
    FailureReason,
    RetryScheduled,
)
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

log = logging.getLogger("flowfabric.worker")

MAX_REASON_CHARS = 8_192
MAX_BATCH = 256

_FINAL: tuple[tuple[type[BaseException], str], ...] = (
    (PayloadError, "bad_payload"),
    (StepError, "step_mismatch"),
    (ChildFailed, "child_failed"),
    (Rejected, "rejected"),
    (BudgetExceeded, "budget_hard_breach"),
    (UnknownBudget, "unknown_budget"),
    (asyncio.CancelledError, "cancelled"),
)
"""The categories of exceptions that no retry policy applies to."""


class Unreported(EngineError):
    """A report failed with an unexpected error. It is repeated; the fence makes that safe."""

    code = "untold"
    error_class = ErrorClass.RETRYABLE

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {_text_of(error)}")


CompleteMany = Callable[
    [Sequence[tuple[Handle, bytes | None]]], Awaitable[Sequence[EngineError | None]]
]
_Completion = tuple[Handle, bytes | None, asyncio.Future[EngineError | None]]


class Reporter:
    """Completions that come while a call is in flight are reported together by the next call."""

    def __init__(self, engine: EngineProtocol, complete_many: CompleteMany) -> None:
        self._engine, self._complete_many = engine, complete_many
        self._completions: list[_Completion] = []
        self._sender: asyncio.Task[None] | None = None

    async def completed(self, work: Work, retry: Retry | None, result: bytes | None) -> None:
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
            reason = f"task {work.execution_kind}: its result cannot be stored: {refused}"
            await self.failed(work, retry, PayloadError(reason))

    async def _complete(self, handle: Handle, result: bytes | None) -> None:
        answered: asyncio.Future[EngineError | None] = asyncio.get_running_loop().create_future()
        self._completions.append((handle, result, answered))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send(), name="flowfabric-completions")
        error = await answered
        if error is not None:
            raise error

    async def _send(self) -> None:
        try:
            while self._completions:
                batch = self._completions[:MAX_BATCH]
                self._completions = self._completions[MAX_BATCH:]
                for (_, _, answered), answer in zip(batch, await self._answers(batch), strict=True):
                    if not answered.done():
                        answered.set_result(answer)
        finally:
            self._sender = None

    async def _answers(self, batch: Sequence[_Completion]) -> Sequence[EngineError | None]:
        """One answer per completion. After an unexpected error each is reported on its own."""
        try:
            answers = await self._complete_many([(handle, result) for handle, result, _ in batch])
            if len(answers) == len(batch):
                return answers
            raise AssertionError(f"{len(batch)} completions, {len(answers)} answers")
        except EngineError as error:
            return [error] * len(batch)
        except Exception as error:
            log.exception(
                "completions could not be reported; trying again", extra={"count": len(batch)}
            )
            if len(batch) == 1:
                return [Unreported(error)]
        return [(await self._answers([each]))[0] for each in batch]

    async def failed(self, work: Work, retry: Retry | None, error: BaseException) -> None:
        """The exception decides: final, to be retried by the task's policy, or cancelled."""
        if isinstance(error, CancelRun):
            reason = _storable(_text_of(error))
            await self._report(work, lambda: self._engine.cancel(work.handle, reason))
            return
        category, retried, after_ms = _judged(error, retry)
        fields = {**_fields(work), "task": work.execution_kind, "attempt": work.attempt_index}
        failure = FailureReason(_message(error), category.encode())
        kind = FailureClass.TRANSIENT if retried else FailureClass.PERMANENT
        outcomes: list[FailOutcome] = []

        async def fail() -> None:
            outcomes.append(
                await self._engine.fail(work.handle, failure, kind, retry_after_ms=after_ms)
            )

        await self._report(work, fail)
        extra = {**fields, "category": category}
        if any(isinstance(outcome, RetryScheduled) for outcome in outcomes):
            log.warning(
                "a task failed and is retried: %s", _first_line(failure.message), extra=extra
            )
        else:
            log.warning("a task failed", exc_info=error, extra=extra)

    async def give_back(self, work: Work, after_ms: int = 0) -> None:
        """Makes the run claimable again, at once or after this time."""

        async def delay() -> None:
            await self._engine.delay(work.handle, await self._engine.server_time_ms() + after_ms)

        await self._report(work, delay)

    async def _report(self, work: Work, report: Callable[[], Awaitable[object]]) -> None:
        """A report may be repeated: the fence refuses the second one."""

        async def guarded() -> None:
            try:
                await report()
            except EngineError:
                raise
            except Exception as error:
                log.exception(
                    "the outcome of a run could not be reported; trying again", extra=_fields(work)
                )
                raise Unreported(error) from error

        try:
            await persist(guarded)
        except EngineError as error:
            _log_refusal(work, error)


def _fields(work: Work) -> dict[str, str | int]:
    return {"execution_id": str(work.execution_id)}


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0]


def _log_refusal(work: Work, error: EngineError) -> None:
    log.warning("the outcome of a run was refused", extra={**_fields(work), "reason": str(error)})


def _judged(error: BaseException, policy: Retry | None) -> tuple[str, bool, int | None]:
    """The category, whether a retry may follow, and the least pause before it in milliseconds."""
    match error:
        case Fatal():
            return error.category, False, None
        case Retry():
            return "transient", True, error.after_ms
        case AttemptTimedOut():
            return ATTEMPT_TIMEOUT, True, None
    for kind, category in _FINAL:
        if isinstance(error, kind):
            return category, False, None
    retried = policy is not None and isinstance(error, policy.on)
    return ("timeout" if isinstance(error, TimeoutError) else "handler_error"), retried, None


def _message(error: BaseException) -> str:
    """The chain of causes in one line, without what a timeout interrupted."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 10:
        text = _text_of(cause)
        parts.append(f"{type(cause).__name__}: {text}" if text else type(cause).__name__)
        cause = None if isinstance(cause, AttemptTimedOut) else cause.__cause__
    return _storable(": ".join(parts))


def _text_of(error: BaseException) -> str:
    """`__str__` of an exception is the user's code and may fail itself."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text cannot be read: {type(failure).__name__})"


def _storable(text: str) -> str:
    """Without what some stores refuse: null characters and lone surrogates."""
    return text.replace("\0", "").encode(errors="replace").decode()[:MAX_REASON_CHARS]
