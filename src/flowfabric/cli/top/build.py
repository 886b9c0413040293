"""Builds the rows of an overview from what was read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from flowfabric.cli.top.model import FailingRow, LaneRow, RunRow, StuckRow, WorkerRow
from flowfabric.ids import ExecutionId
from flowfabric.model.deployment import DeploymentStatus, Stalled
from flowfabric.model.explanation import Explanation
from flowfabric.model.search import ExecutionCounts, ExecutionSummary
from flowfabric.model.state import PublicState
from flowfabric.model.worker import WorkerInfo

MAX_ERROR = 60
_BLOCKED = (PublicState.RATE_LIMITED, PublicState.WAITING_CHILDREN)
_SUSPENDED = (PublicState.SUSPENDED, PublicState.RESUMABLE)


def states(counts: Iterable[ExecutionCounts]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in counts:
        found[each.public_state] += each.count
    return {state.value: found[state.value] for state in PublicState if found[state.value]}


def lanes(status: DeploymentStatus) -> tuple[LaneRow, ...]:
    by_lane: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in status.counts:
        by_lane[each.lane_id][each.public_state] += each.count
    rows = []
    for lane in status.lanes:
        found = by_lane[lane.lane]
        rows.append(
            LaneRow(
                lane.lane,
                lane.state,
                found[PublicState.WAITING],
                found[PublicState.ACTIVE],
                found[PublicState.DELAYED],
                sum(found[state] for state in _BLOCKED),
                sum(found[state] for state in _SUSPENDED),
                lane.oldest_ready_ms,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.waiting, -row.active, row.lane)))


def runs(active: Iterable[ExecutionSummary], now_ms: int) -> tuple[RunRow, ...]:
    """Those that run for the longest time come first."""
    rows = [_run(each, now_ms) for each in active]
    return tuple(sorted(rows, key=lambda row: (-(row.since_ms or 0), str(row.execution_id))))


def _run(found: ExecutionSummary, now_ms: int) -> RunRow:
    since, until = found.lease_acquired_at, found.lease_expires_at
    return RunRow(
        found.id,
        found.task,
        found.lane_id,
        found.worker_instance_id or "",
        None if since is None else max(now_ms - since, 0),
        None if until is None else until - now_ms,
        found.attempts,
        found.progress_pct,
        found.progress_message or "",
    )


def error_type(found: ExecutionSummary) -> str:
    """The type of the exception, or the beginning of the failure's text."""
    text = found.failure_reason or found.last_failure_message or found.public_state
    return text.partition(": ")[0].strip()[:MAX_ERROR]


def failing(
    failed: Iterable[ExecutionSummary], delayed: Iterable[ExecutionSummary]
) -> tuple[FailingRow, ...]:
    """Failures by task and type of error, the most frequent first."""
    ended: defaultdict[tuple[str, str], list[ExecutionSummary]] = defaultdict(list)
    retrying: defaultdict[tuple[str, str], list[ExecutionSummary]] = defaultdict(list)
    for each in failed:
        ended[each.task, error_type(each)].append(each)
    for each in delayed:
        if each.retries and (each.failure_reason or each.last_failure_message):
            retrying[each.task, error_type(each)].append(each)
    rows = []
    for task, error in {**ended, **retrying}:
        over, again = ended[task, error], retrying[task, error]
        last = max(over, key=lambda each: each.ended_at or 0, default=None)
        rows.append(
            FailingRow(
                task,
                error,
                len(over),
                len(again),
                None if last is None else last.ended_at,
                (last or again[0]).id,
            )
        )
    return tuple(sorted(rows, key=lambda r: (-(r.failed + r.retrying), r.task, r.error)))


def workers(
    live: Sequence[WorkerInfo],
    held: Mapping[str, int],
    active: Iterable[ExecutionSummary],
    now_ms: int,
) -> tuple[WorkerRow, ...]:
    tasks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in active:
        tasks[each.worker_instance_id or ""][each.task] += 1
    return tuple(
        WorkerRow(
            each.worker_instance_id,
            each.worker_id,
            each.namespace,
            tuple(sorted(each.lanes)),
            held.get(each.worker_instance_id, 0),
            dict(tasks[each.worker_instance_id].most_common()),
            max(now_ms - each.last_heartbeat_ms, 0),
        )
        for each in live
    )


def stuck(
    stalled: Iterable[Stalled], explained: Mapping[ExecutionId, Explanation], now_ms: int
) -> tuple[StuckRow, ...]:
    return tuple(_stuck(each, explained.get(each.execution_id), now_ms) for each in stalled)


def _stuck(found: Stalled, explained: Explanation | None, now_ms: int) -> StuckRow:
    reason = None if explained is None else explained.reasons[0]
    return StuckRow(
        found.execution_id,
        found.task,
        found.lane,
        found.public_state,
        max(now_ms - found.since_ms, 0),
        "" if reason is None else reason.code.value,
        "" if reason is None else reason.says,
        "" if reason is None else reason.hint,
    )
