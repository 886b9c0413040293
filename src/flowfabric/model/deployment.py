"""The state of a deployment at one time, as an operator sees it."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.search import ExecutionCounts

STALLED_MS = 30_000
"""An execution that has not moved for this long is listed as stalled."""


class LaneStatus(Struct, frozen=True):
    """`oldest_ready_ms` is the age of the oldest claimable execution; 0 if there is none."""

    lane: str
    state: str
    oldest_ready_ms: int


class OverdueTimers(Struct, frozen=True):
    """Timers of one kind that are due and have not been carried out.

    Counting stops at a maximum, so a large number may mean that there are more.
    """

    kind: str
    count: int
    oldest_ms: int


class Stalled(Struct, frozen=True):
    """An execution that has not moved for long: ready, blocked, or without a live lease."""

    execution_id: ExecutionId
    lane: str
    task: str
    public_state: str
    since_ms: int


class BudgetUse(Struct, frozen=True):
    """The usage of one dimension. `name` is the name of the budget in the SDK.

    `is_hard`: usage above the limit is refused.
    """

    budget_id: UUID
    name: str
    dimension: str
    used: int
    limit: int
    is_hard: bool
    resets_at: int | None


class DeploymentStatus(Struct, frozen=True):
    """`namespace` is the one that the status is limited to; None for all of them.

    `counts` are as of `counted_at`. `held` counts the leases by the id of the worker's instance.
    """

    as_of: int
    namespace: str | None
    counted_at: int
    counts: list[ExecutionCounts]
    lanes: list[LaneStatus]
    timers: list[OverdueTimers]
    stalled: list[Stalled]
    budgets: list[BudgetUse]
    held: dict[str, int]
