"""What `flowfabric top` shows, at one time. Texts are as they are stored, not cleaned."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.deployment import BudgetUse, OverdueTimers

OUTCOMES = ("completed", "failed", "cancelled", "other")


class Rates(Struct, frozen=True):
    """Executions per second. `is_sampled`: there are more events than are read."""

    created: float = 0.0
    ended: dict[str, float] = {}
    is_sampled: bool = False

    @property
    def ended_in_all(self) -> float:
        return sum(self.ended.values())


class LaneRow(Struct, frozen=True):
    """Executions of a lane that have not ended, and the age of the oldest claimable one."""

    lane: str
    state: str
    waiting: int
    active: int
    delayed: int
    blocked: int
    suspended: int
    oldest_ms: int


class RunRow(Struct, frozen=True):
    """A running execution. `lease_left_ms` is negative for a lease that has expired."""

    execution_id: ExecutionId
    task: str
    lane: str
    worker: str
    since_ms: int | None
    lease_left_ms: int | None
    attempts: int
    progress_pct: int | None
    progress: str


class FailingRow(Struct, frozen=True):
    """Failures of a task with one type of error. `retrying` ones wait for their next attempt."""

    task: str
    error: str
    failed: int
    retrying: int
    last_at: int | None
    last: ExecutionId


class WorkerRow(Struct, frozen=True):
    """A live worker, its lanes, and what it holds."""

    instance: str
    worker: str
    namespace: str
    lanes: tuple[str, ...]
    held: int
    tasks: dict[str, int]
    heartbeat_age_ms: int


class StuckRow(Struct, frozen=True):
    """An execution that has not moved for long. `code` is empty while it is not yet explained."""

    execution_id: ExecutionId
    task: str
    lane: str
    state: str
    for_ms: int
    code: str
    says: str
    hint: str


class Overview(Struct, frozen=True):
    """One refresh. `history` holds the rates of earlier refreshes, the last one included."""

    as_of: int
    took_ms: int
    namespace: str | None
    rates: Rates
    history: tuple[Rates, ...]
    states: dict[str, int]
    lanes: tuple[LaneRow, ...]
    runs: tuple[RunRow, ...]
    failing: tuple[FailingRow, ...]
    workers: tuple[WorkerRow, ...]
    stuck: tuple[StuckRow, ...]
    budgets: tuple[BudgetUse, ...]
    timers: tuple[OverdueTimers, ...]
