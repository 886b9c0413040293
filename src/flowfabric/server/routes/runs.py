"""Routes of runs: searches over executions, and counts of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from flowfabric.errors import Corruption, invalid
from flowfabric.ids import ExecutionId, parse_uuid
from flowfabric.model.search import MAX_PAGE, ExecutionCounts, ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState
from flowfabric.server import route
from flowfabric.server.route import ApiRequest, RouteGroup
from flowfabric.server.tenancy import lanes_of, narrow_search
from flowfabric.wire.operations import Bound, Role

routes = RouteGroup(tag="runs", role=Role.READ, bound=Bound.OWN)
MAX_TIME_TEXT = 40
_SPACE_BEFORE_OFFSET = re.compile(r" (?=\d\d:?\d\d\Z)")
"""A plus sign that was not escaped."""


class RunsQuery(Struct, frozen=True, kw_only=True):
    """All conditions must hold. `state` may be repeated, or name several, separated by commas.

    Times are milliseconds since the epoch, or ISO 8601; the upper ones are excluded. `error` is the
    type of an exception, or the beginning of its message; `tag` a key, or key=value.
    """

    state: list[PublicState] = []
    task: str | None = None
    lane: str | None = None
    tag: str | None = None
    namespace: str | None = None
    parent: str | None = None
    flow: str | None = None
    worker: str | None = None
    created_from: str | None = None
    created_before: str | None = None
    ended_from: str | None = None
    ended_before: str | None = None
    error: str | None = None
    key: str | None = None
    limit: Annotated[int, Meta(ge=0, le=MAX_PAGE)] = 50
    cursor: str | None = None
    order: Literal["newest", "oldest"] = "newest"


class Run(Struct, frozen=True):
    """One execution. Times are milliseconds since the epoch. Tags that cannot be read are null."""

    id: str
    execution_id: str
    namespace: str
    lane: str
    task: str
    state: str
    priority: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    delayed_until: int | None
    flow_id: str | None
    attempts: int
    retries: int
    worker: str | None
    error: str | None
    cancellation_reason: str | None
    blocking_reason: str
    progress_pct: int | None
    progress_message: str | None
    key: str | None
    tags: dict[str, str] | None


class Runs(Struct, frozen=True):
    """A page may hold fewer runs than `limit`; there are more as long as it has a cursor."""

    runs: list[Run]
    next_cursor: str | None


@routes("GET", "/v1/runs", answers={200: Runs})
async def listed(request: ApiRequest, query: RunsQuery) -> Runs:
    """Lists the executions that meet all conditions, the newest first."""
    parent = None if query.parent is None else await _parent(request, query.parent)
    where = narrow_search(filter_of(query, parent), request.caller)
    page = await request.engine.find_executions(
        where, query.limit, query.cursor, oldest_first=query.order == "oldest"
    )
    return Runs([_run(each) for each in page.items], page.next_cursor)


def filter_of(query: RunsQuery, parent: ExecutionId | None) -> ExecutionFilter:
    return ExecutionFilter(
        state=tuple(query.state),
        task=query.task,
        lane=query.lane,
        tag=query.tag,
        namespace=query.namespace,
        parent=parent,
        flow=None if query.flow is None else _flow(query.flow),
        worker=query.worker,
        created_from=_time(query.created_from, "created_from"),
        created_before=_time(query.created_before, "created_before"),
        ended_from=_time(query.ended_from, "ended_from"),
        ended_before=_time(query.ended_before, "ended_before"),
        error=query.error,
        key=query.key,
    )


async def _parent(request: ApiRequest, text: str) -> ExecutionId:
    """A uuid is looked up, in the namespace of the caller's token."""
    try:
        if text.startswith("{"):
            return ExecutionId(text)
        parse_uuid(text)
    except ValueError:
        accepted = "a uuid or an id of the form {fp:N}:<uuid>"
        raise route.bad_request(f"invalid parent: {accepted}, got {text[:80]!r}") from None
    return await request.engine.resolve_execution(text, request.caller.namespace)


def _flow(text: str) -> UUID:
    try:
        return parse_uuid(text)
    except ValueError:
        raise route.bad_request(f"invalid flow: a uuid, got {text[:80]!r}") from None


def _time(text: str | None, field: str) -> int | None:
    """A time without an offset is UTC."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 16:
        return int(text)
    try:
        if len(text) > MAX_TIME_TEXT:
            raise ValueError(text)
        found = datetime.fromisoformat(_SPACE_BEFORE_OFFSET.sub("+", text))
        known = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return int(known.timestamp() * 1_000)
    except (ValueError, OverflowError):
        accepted = "milliseconds since the epoch, or ISO 8601 such as 2026-01-31T12:00:00Z"
        raise invalid(field, accepted, text) from None


def _run(found: ExecutionSummary) -> Run:
    return Run(
        id=str(found.execution_uuid),
        execution_id=str(found.id),
        namespace=found.namespace,
        lane=found.lane_id,
        task=found.task,
        state=found.public_state,
        priority=found.priority,
        created_at=found.created_at,
        started_at=found.started_at,
        ended_at=found.ended_at,
        delayed_until=found.delayed_until,
        flow_id=None if found.flow_id is None else str(found.flow_id),
        attempts=found.attempts,
        retries=found.retries,
        worker=found.worker_instance_id,
        error=found.failure_reason or found.last_failure_message,
        cancellation_reason=found.cancellation_reason,
        blocking_reason=found.blocking_reason,
        progress_pct=found.progress_pct,
        progress_message=found.progress_message,
        key=found.idempotency_key,
        tags=_tags(found),
    )


def _tags(found: ExecutionSummary) -> dict[str, str] | None:
    try:
        return found.tags
    except Corruption:
        return None


# ---- counts

Group = Literal["state", "task", "lane", "namespace"]
_COLUMNS: dict[Group, str] = {
    "state": "public_state",
    "task": "task",
    "lane": "lane_id",
    "namespace": "namespace",
}


class CountsQuery(Struct, frozen=True):
    """`by` may be repeated, or name several, separated by commas. Without it, counts by state."""

    by: list[Group] = []
    namespace: str | None = None


class RunCount(Struct, frozen=True, omit_defaults=True):
    count: int
    state: str | None = None
    task: str | None = None
    lane: str | None = None
    namespace: str | None = None


class RunCounts(Struct, frozen=True):
    """The counts as of a time, in milliseconds since the epoch."""

    counted_at: int
    counts: list[RunCount]


@routes("GET", "/v1/runs/counts", answers={200: RunCounts})
async def counts(request: ApiRequest, query: CountsQuery) -> RunCounts:
    """Counts all executions by state, task, lane or namespace, as of two seconds ago at most."""
    caller = request.caller
    namespace = query.namespace if caller.namespace is None else caller.namespace
    counted = await request.engine.count_executions(namespace, lanes_of(caller))
    return RunCounts(counted.counted_at, _grouped(counted.counts, query.by or ["state"]))


def _grouped(counted: Sequence[ExecutionCounts], by: Sequence[Group]) -> list[RunCount]:
    names = [name for name in _COLUMNS if name in by]
    totals: Counter[tuple[str, ...]] = Counter()
    for each in counted:
        totals[tuple(getattr(each, _COLUMNS[name]) for name in names)] += each.count
    return [
        RunCount(count, **dict(zip(names, values, strict=True)))
        for values, count in sorted(totals.items())
    ]
