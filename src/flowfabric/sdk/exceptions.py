"""Exceptions that tasks raise, and that callers of runs receive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from flowfabric.errors import ConfigError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.model.policy import RetryPolicy
from flowfabric.sdk.durations import Span, millis

if TYPE_CHECKING:
    from flowfabric.sdk.waits import Decision

MAX_RETRIES = 1_000_000
SHOWN = 5
"""An error of a flow shows so many of its members."""


class Rejected(FlowFabricError):
    """An approval was rejected. The run fails without a retry unless the task catches this.

    `decision` is the Decision, with `by` and `comment`.
    """

    def __init__(self, name: str, decision: Decision) -> None:
        self.decision = decision
        by, comment = decision.by, decision.comment
        super().__init__(
            f"{name!r} was rejected{f' by {by}' if by else ''}{f': {comment}' if comment else ''}"
        )


class Retry(Exception):
    """A retry policy for `@app.task(retry=...)`. Raised inside a task, it asks for a retry.

    - `max`: how many retries follow the first attempt, default 3.
    - `backoff`: `"exponential"` (default) doubles the pause each time, `"fixed"` keeps it.
    - `base`: the first pause, default `"1s"`.
    - `cap`: the longest pause, default `"1m"`.
    - `jitter`: varies the pause at random, default True; exponential only.
    - `on`: the exception classes that are retried, default all; others are final.

    `raise Retry("busy", after="10s")` asks for a retry, after 10 seconds at the earliest.
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
    """Raised inside a task: the run fails, whatever its retry policy.

    `category` is recorded with the failure, default `"permanent"`.
    """

    def __init__(self, reason: str = "", *, category: str = "permanent") -> None:
        super().__init__(reason)
        self.category = category


class CancelRun(Exception):
    """Raised inside a task: the run ends as cancelled."""


class StepError(FlowFabricError):
    """A task reaches its steps in another order than before, or in a way that has no order."""


class BudgetExceeded(FlowFabricError):
    """A report of usage would exceed a hard limit. Nothing was counted."""


class UnknownBudget(FlowFabricError):
    """The budget does not exist. Nothing was counted."""


class PayloadError(FlowFabricError):
    """An argument or a result cannot be stored, or does not fit its type hint."""


class UnknownTask(FlowFabricError):
    """The app declares no task of that name."""


class IdempotencyConflict(FlowFabricError):
    """The key belongs to the run `run_id`, which has other arguments. Use another key."""

    def __init__(self, task: str, key: str, run_id: ExecutionId) -> None:
        self.run_id = run_id
        super().__init__(
            f"task {task}: key {key!r} belongs to run {run_id.uuid}, which has other arguments; "
            "use another key, or submit the same arguments"
        )


class RunError(FlowFabricError):
    """A run ended without a result. `run` is its id, `reason` the recorded reason."""

    def __init__(self, run: str, reason: str) -> None:
        self.run, self.reason = run, reason
        shown = f"run {run.rpartition(':')[2]}"
        super().__init__(f"{shown}: {reason}" if reason else shown)


class RunFailed(RunError):
    """The run failed and has no retry left."""


class RunCancelled(RunError):
    """The run was cancelled."""


class RunExpired(RunError):
    """The run's deadline, or the timeout of its last attempt, was exceeded."""


class RunSkipped(RunError):
    """The run was skipped: a run of its flow that it depends on has not succeeded."""


class FlowFailed(FlowFabricError):
    """A flow has failed or was cancelled.

    `flow` is its id, `state` failed or cancelled, and `errors` the RunError of each member that
    failed, expired or was cancelled, by the name of its node.
    """

    def __init__(self, flow: UUID, state: str, errors: Mapping[str, RunError]) -> None:
        self.flow, self.state, self.errors = flow, state, dict(errors)
        shown = "; ".join(f"{name}: {error}" for name, error in list(self.errors.items())[:SHOWN])
        more = f"; and {len(self.errors) - SHOWN} more" if len(self.errors) > SHOWN else ""
        super().__init__(f"flow {flow} is {state}{': ' if shown else ''}{shown}{more}")


class ChildFailed(RunError):
    """A child of `ctx.children(...)` has not succeeded.

    `task` is its task's name, and `end` is failed, cancelled, expired or skipped.
    """

    def __init__(self, run: str, task: str, end: str, reason: str) -> None:
        super().__init__(
            run, f"child of task {task} {_ENDED_AS.get(end, end)}{f': {reason}' if reason else ''}"
        )
        self.task, self.end = task, end


_ENDED_AS = {"cancelled": "was cancelled", "expired": "ran out of time", "skipped": "was skipped"}


class Parked(BaseException):
    """Unwinds a task that waits. The task runs again from the top when its wait is over."""
