"""Searches over executions: the filter, and what is shown of each."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import stored_tags
from flowfabric.model.state import PublicState

MAX_PAGE = 1_000


class ExecutionFilter(Struct, frozen=True, kw_only=True):
    """All conditions must hold; one that is not given holds for every execution.

    - `state`: one of several public states.
    - `task`: the name of the task, which is the execution kind.
    - `lanes`: one of several lanes, such as those of a token.
    - `tag`: a key, or `key=value`. The key ends at the first `=`.
    - `worker`: the id of the worker or of its instance that holds the lease.
    - `created_from` to `ended_before`: times in milliseconds; the upper ones are excluded.
    - `error`: the type of the exception, or the beginning of the message, of the last failure.
    - `key`: the idempotency key.
    """

    state: tuple[PublicState, ...] = ()
    task: str | None = None
    lane: str | None = None
    lanes: tuple[str, ...] = ()
    tag: str | None = None
    namespace: str | None = None
    parent: ExecutionId | None = None
    flow: UUID | None = None
    worker: str | None = None
    created_from: int | None = None
    created_before: int | None = None
    ended_from: int | None = None
    ended_before: int | None = None
    error: str | None = None
    key: str | None = None


class ExecutionSummary(Struct, frozen=True):
    """One line of a listing, column by column of `ff_exec_core`."""

    partition_key: int
    execution_uuid: UUID
    namespace: str
    lane_id: str
    task: str
    public_state: str
    priority: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    delayed_until: int | None
    flow_id: UUID | None
    attempts: int
    retries: int
    worker_instance_id: str | None
    failure_reason: str | None
    last_failure_message: str | None
    cancellation_reason: str | None
    blocking_reason: str
    progress_pct: int | None
    progress_message: str | None
    progress_updated_at: int | None
    idempotency_key: str | None
    stored_tags: str
    lease_acquired_at: int | None
    lease_expires_at: int | None

    @property
    def id(self) -> ExecutionId:
        return ExecutionId.of(self.partition_key, self.execution_uuid)

    @property
    def tags(self) -> dict[str, str]:
        return stored_tags(self.stored_tags, self.id)


SUMMARY_COLUMNS = (
    "partition_key",
    "execution_id",
    "namespace",
    "lane_id",
    "execution_kind",
    "public_state",
    "priority",
    "created_at_ms",
    "started_at_ms",
    "terminal_at_ms",
    "delay_until_ms",
    "flow_id",
    "total_attempt_count",
    "retry_count",
    "current_worker_instance_id",
    "failure_reason",
    "last_failure_message",
    "cancellation_reason",
    "blocking_reason",
    "progress_pct",
    "progress_message",
    "progress_updated_at",
    "idempotency_key",
    "tags",
    "lease_acquired_at",
    "lease_expires_at_ms",
)


class ExecutionCounts(Struct, frozen=True):
    """How many executions share a state, a task and a lane, as counted at a time."""

    namespace: str
    lane_id: str
    task: str
    public_state: str
    count: int


class Counted(Struct, frozen=True):
    counted_at: int
    counts: list[ExecutionCounts]
