"""What a listing shows of a run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.state import PublicState

if TYPE_CHECKING:
    from flowfabric.model.search import Counted, ExecutionSummary
    from flowfabric.sdk.run import Run


_ENDED_WITHOUT_ERROR = (PublicState.COMPLETED, PublicState.CANCELLED, PublicState.SKIPPED)
Info = TypeVar("Info", bound="RunFields")


class Progress(Struct, frozen=True):
    """What a task reported last with `ctx.progress(...)`, and when."""

    percent: int | None
    message: str | None
    at: datetime


class RunFields(Struct, frozen=True, kw_only=True):
    """The facts of a run at the time of the read. Times are in UTC.

    - `state`: as `run.state()` returns it, such as `"waiting"`, `"active"` or `"failed"`.
    - `attempts`: how often it was started; `retries`: how often after a failure.
    - `worker`: the id of the worker's process that runs it now.
    - `error`: why it failed or expired, or why its last attempt failed, if it has not ended.
    - `cancel_reason`: why it was cancelled.
    - `key`: the `key` it was submitted with.
    - `flow`: the id of its flow.
    """

    id: ExecutionId
    task: str
    state: str
    lane: str
    namespace: str
    priority: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    delayed_until: datetime | None
    attempts: int
    retries: int
    worker: str | None
    error: str | None
    cancel_reason: str | None
    progress: Progress | None
    tags: dict[str, str]
    key: str | None
    flow: UUID | None

    @classmethod
    def of(cls, found: ExecutionSummary, **more: Any) -> Self:
        return cls(
            id=found.id,
            task=found.task,
            state=found.public_state,
            lane=found.lane_id,
            namespace=found.namespace,
            priority=found.priority,
            created_at=time_of(found.created_at),
            started_at=_optional_time(found.started_at),
            ended_at=_optional_time(found.ended_at),
            delayed_until=_optional_time(found.delayed_until),
            attempts=found.attempts,
            retries=found.retries,
            worker=found.worker_instance_id,
            error=_error_of(found),
            cancel_reason=found.cancellation_reason,
            progress=progress_of(found),
            tags=found.tags,
            key=_key_of(found),
            flow=found.flow_id,
            **more,
        )


class RunInfo(RunFields, frozen=True, kw_only=True):
    """One run of a listing. `run` is the handle to it."""

    run: Run[Any]

    @classmethod
    def read(cls, run: Run[Any], found: ExecutionSummary) -> RunInfo:
        return cls.of(found, run=run)


class RunPage(Struct, Generic[Info], frozen=True):
    """One page of runs. It may hold fewer than asked for although `next_cursor` leads to more."""

    items: list[Info]
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[Info]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class RunCount(Struct, frozen=True):
    """How many runs share a state, a task and a lane."""

    state: str
    task: str
    lane: str
    count: int


class RunCounts(Struct, frozen=True):
    """How many runs there were at a time."""

    counted_at: datetime
    rows: tuple[RunCount, ...]

    @property
    def total(self) -> int:
        return sum(row.count for row in self.rows)

    @property
    def by_state(self) -> dict[str, int]:
        return self._by("state")

    @property
    def by_task(self) -> dict[str, int]:
        return self._by("task")

    @property
    def by_lane(self) -> dict[str, int]:
        return self._by("lane")

    def _by(self, field: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.rows:
            name = getattr(row, field)
            found[name] = found.get(name, 0) + row.count
        return dict(sorted(found.items()))


def counts_of(counted: Counted) -> RunCounts:
    """Counts of several namespaces are added up."""
    sums: dict[tuple[str, str, str], int] = {}
    for each in counted.counts:
        key = (each.public_state, each.task, each.lane_id)
        sums[key] = sums.get(key, 0) + each.count
    rows = tuple(RunCount(*key, count) for key, count in sorted(sums.items()))
    return RunCounts(time_of(counted.counted_at), rows)


def progress_of(found: ExecutionSummary) -> Progress | None:
    at = found.progress_updated_at
    return None if at is None else Progress(found.progress_pct, found.progress_message, time_of(at))


def time_of(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


def _optional_time(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else time_of(at_ms)


def _error_of(found: ExecutionSummary) -> str | None:
    """The failure of an attempt says nothing about a run that then ended in another way."""
    if found.public_state in _ENDED_WITHOUT_ERROR:
        return None
    return found.failure_reason or found.last_failure_message


def _key_of(found: ExecutionSummary) -> str | None:
    """The SDK stores a key behind the name of its task."""
    key = found.idempotency_key
    return None if key is None else key.removeprefix(f"{found.task}:")
