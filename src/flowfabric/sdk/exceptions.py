"""How a task fails, how it is tried again, and what a caller is told of it."""

from __future__ import annotations

from typing import Any, Literal

from flowfabric.errors import ConfigError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.model.policy import RetryPolicy
from flowfabric.sdk.durations import Span, millis

MAX_RETRIES = 1_000_000


class Rejected(FlowFabricError):
    """An approval was answered with no; the run fails for good unless the task catches it. `decision` says by whom and why."""

    def __init__(self, name: str, decision: Any) -> None:
        self.decision = decision
        by, comment = decision.by, decision.comment
        super().__init__(
            f"{name!r} was rejected{f' by {by}' if by else ''}{f': {comment}' if comment else ''}"
        )


class Retry(Exception):
    """How a task is tried again: given to `@app.task(retry=...)`. Raised inside a task, it asks for another try, `after` a while.

    `on` names the exceptions that are worth another try; all others are final.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        max: int = 3,
        backoff: Literal["exponential", "fixed"] = "exponential",
        base: Span = "1s",
        cap: Span = "1m",
        jitter: bool = True,
        on: type[Exception] | tuple[type[Exception], ...] = (Exception,),
        after: Span | None = None,
    ) -> None:
        super().__init__(reason)
        if not isinstance(max, int) or isinstance(max, bool) or not 0 <= max <= MAX_RETRIES:
            raise ConfigError(f"retry.max: a whole number from 0 to {MAX_RETRIES}, got {max!r:.80}")
        if backoff not in ("exponential", "fixed"):
            raise ConfigError(f'retry.backoff: "exponential" or "fixed", got {backoff!r:.80}')
        self.on = on if isinstance(on, tuple) else (on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in self.on):
            raise ConfigError(f"retry.on: exception classes, got {on!r:.80}")
        self.max, self.backoff, self.jitter = max, backoff, jitter
        self.base_ms, self.cap_ms = millis(base, "retry.base"), millis(cap, "retry.cap")
        self.after_ms = None if after is None else millis(after, "retry.after")

    def policy(self) -> RetryPolicy:
        if self.backoff == "fixed":
            return RetryPolicy(
                max_retries=self.max, backoff={"type": "fixed", "delay_ms": self.base_ms}
            )
        backoff = {
            "type": "exponential",
            "initial_delay_ms": self.base_ms,
            "max_delay_ms": self.cap_ms,
            "multiplier": 2.0,
        }
        return RetryPolicy(max_retries=self.max, backoff={**backoff, "jitter": self.jitter})


class AttemptTimedOut(TimeoutError):
    """The task ran for longer than its `timeout`."""


class Fatal(Exception):
    """Raised inside a task: it has failed for good, whatever its policy says."""

    def __init__(self, reason: str = "", *, category: str = "permanent") -> None:
        super().__init__(reason)
        self.category = category


class CancelRun(Exception):
    """Raised inside a task: it gives itself up, and counts as cancelled."""


class StepError(FlowFabricError):
    """A task does not reach its steps as it did before, or not as steps may be reached."""


class BudgetExceeded(FlowFabricError):
    """What a task spent would go over a hard limit; nothing was counted."""


class UnknownBudget(FlowFabricError):
    """A task spent from a budget that nobody has made; nothing was counted."""


class PayloadError(FlowFabricError):
    """An argument or a result cannot be carried, or is not what the task says it is."""


class UnknownTask(FlowFabricError):
    """No task of that name is known here."""


class IdempotencyConflict(FlowFabricError):
    """The key belongs to a run with other arguments, `run_id`. Use another key, or submit the same arguments."""

    def __init__(self, task: str, key: str, run_id: ExecutionId) -> None:
        self.run_id = run_id
        super().__init__(
            f"task {task}: key {key!r} belongs to run {run_id}, which has other arguments"
        )


class RunError(FlowFabricError):
    """A run that ended otherwise than with a result."""

    def __init__(self, run: str, reason: str) -> None:
        self.run, self.reason = run, reason
        super().__init__(f"{run}: {reason}" if reason else run)


class RunFailed(RunError):
    pass


class RunCancelled(RunError):
    pass


class RunExpired(RunError):
    """Its deadline or its last attempt's time ran out."""


class RunSkipped(RunError):
    """What it was to come after can never be."""


class ChildFailed(RunError):
    """A task that `ctx.children(...)` waited for has not succeeded. `end` is failed, cancelled, expired or skipped."""

    def __init__(self, run: str, task: str, end: str, reason: str) -> None:
        super().__init__(
            run, f"child of task {task} {_ENDED_AS.get(end, end)}{f': {reason}' if reason else ''}"
        )
        self.task, self.end = task, end


_ENDED_AS = {"cancelled": "was cancelled", "expired": "ran out of time", "skipped": "was skipped"}


class Parked(BaseException):
    """Unwinds a task that waits: its slot is free, and it is run again from the top when it can go on."""
