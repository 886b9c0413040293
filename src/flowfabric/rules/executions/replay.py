"""Replay: an ended execution starts again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import Corruption, EngineError, NotFound, StateError, StateKind, invalid
from flowfabric.model.bulk import Restarted, Why
from flowfabric.model.execution import Execution, Replayed
from flowfabric.model.policy import stored_policy
from flowfabric.model.state import PublicState
from flowfabric.plan import (
    Add,
    After,
    Arg,
    Before,
    Cond,
    Delete,
    Form,
    Update,
    UpdateMany,
    Wake,
)
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import by_row, from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot
from flowfabric.rules.flows.flow_forms import FLOW
from flowfabric.rules.flows.wait_children import reset_groups
from flowfabric.rules.states import entering, is_ended
from flowfabric.rules.workers.steps import STEP

DEFAULT_MAX_REPLAYS = 10
MAX_SHOWN = 10

_RESTART: f.Columns = {
    **f.MOVED_AT_ARG,
    "attempt_state": "pending_replay_attempt",
    "replay_count": Add(1),
    "lease_epoch": Add(1),
    "current_attempt_id": Arg("attempt_id"),
    "attempt_timeout_remaining_ms": Before("attempt_timeout_ms"),
    "pending_replay_reason": Arg("replay_reason"),
    "pending_replay_requested_by": Arg("replay_requested_by"),
    "pending_previous_attempt_index": Before("attempt_index"),
    **from_args("deadline_at_ms", "deadline_origin", "raw_fields"),
    **dict.fromkeys(
        (
            "terminal_at_ms",
            "retain_until_ms",
            "result",
            "result_encoding",
            "cancellation_reason",
            "cancelled_by",
            "failure_reason",
            "closing_epoch",
            "closing_attempt_index",
            "interrupt_cause",
            "pending_retry_reason",
            "blocked_on",
        )
    ),
}
_REOPEN_ATTEMPT = UpdateMany(
    f.ATTEMPT,
    f.THIS_ATTEMPT,
    {
        "attempt_state": "created",
        "attempt_type": "replay",
        "attempt_id": Arg("attempt_id"),
        "lease_epoch": After("lease_epoch"),
        **from_args("replay_reason", "replay_requested_by"),
        "replayed_from_attempt_index": After("attempt_index"),
        **dict.fromkeys(("outcome", "terminal_at_ms", "failure_reason", "failure_category")),
        **dict.fromkeys(("worker_id", "worker_instance_id", "lease_expires_at_ms")),
    },
)
_REOPEN_FLOW = UpdateMany(
    FLOW,
    by_row("partition_key", "flow_id"),
    {"settled_at_ms": None, "version": Add(1)},
)
REPLAY = Form(
    "replay",
    Update(f.EXEC, f.UNCHANGED, {**_RESTART, **entering("READY")}),
    _REOPEN_ATTEMPT,
    _REOPEN_FLOW,
    f.operator_event("replayed", Arg("details")),
    Wake("ready", After("lane_id")),
    Wake("deadline", at=After("deadline_at_ms")),
)
REPLAY_SKIPPED = Form(
    "replay_skipped_member",
    Update(f.EXEC, f.UNCHANGED, {**_RESTART, **entering("DEPS", detail=Arg("blocking_detail"))}),
    _REOPEN_ATTEMPT,
    _REOPEN_FLOW,
    f.operator_event("replayed", Arg("details")),
    Wake("deadline", at=After("deadline_at_ms")),
)


def replay(
    snapshot: Snapshot,
    *,
    attempt_id: UUID,
    now_ms: int | None,
    reason: str | None = None,
    requested_by: str | None = None,
    job_id: UUID | None = None,
) -> Decision:
    """`job_id`: a bulk job, which the operator event names with its requester and reason."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    refused = _not_replayable(execution)
    if refused is not None:
        return Reject(refused)
    why = Why() if job_id is None else Why(requested_by or "", reason or "", job_id)
    now = snapshot.now_ms if now_ms is None else now_ms
    values = _values(snapshot, execution, attempt_id, now) | {
        "replay_reason": reason,
        "replay_requested_by": requested_by,
    }
    if not _was_skipped(snapshot, execution):
        plan = REPLAY(**values, details=f.details(why, branch="normal"))
        return Commit(plan, Replayed(PublicState.WAITING))
    reset, unsatisfied = reset_groups(snapshot.edge_groups, snapshot.edges, now)
    details = f.details(why, branch="skipped_flow_member", groups_reset=len(reset))
    detail = f"{unsatisfied} dep(s) unsatisfied after replay"
    plan = REPLAY_SKIPPED(**values, details=details, blocking_detail=detail)
    return Commit(plan, Replayed(PublicState.WAITING_CHILDREN), first=reset)


RESTART = Form(
    "restart_from_step",
    Update(f.EXEC, f.UNCHANGED, {**_RESTART, **entering("READY")}),
    _REOPEN_ATTEMPT,
    _REOPEN_FLOW,
    Delete(STEP, (*f.THIS_ROW, Cond("position", ">=", Arg("position")))),
    f.operator_event("replayed", Arg("details")),
    Wake("ready", After("lane_id")),
    Wake("deadline", at=After("deadline_at_ms")),
)


class RestartSnapshot(Struct, frozen=True):
    """An execution, and the positions and names of its recorded steps.

    The steps cannot change before the commit: they are recorded under a lease, and the execution
    has ended.
    """

    snapshot: Snapshot
    steps: Sequence[tuple[int, str]]


def restart(
    found_rows: RestartSnapshot, step: str | int, *, attempt_id: UUID, why: Why
) -> Decision:
    """Replays an execution whose steps from one step on run again."""
    snapshot, steps = found_rows.snapshot, found_rows.steps
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    refused = _not_replayable(execution)
    if refused is not None:
        return Reject(refused)
    found = [each for each in steps if step in each]
    if not found:
        return Reject(NotFound("step", repr(step)))
    if len(found) > 1:
        positions = ", ".join(str(position) for position, _ in found[:MAX_SHOWN])
        return Reject(invalid("step", f"one of the positions of {step!r}: {positions}", step))
    ((position, name),) = found
    dropped = sum(each >= position for each, _ in steps)
    values = _values(snapshot, execution, attempt_id, snapshot.now_ms) | {
        "replay_reason": why.reason or None,
        "replay_requested_by": why.requested_by or None,
    }
    facts = {"from_step": name, "from_position": position, "dropped_steps": dropped}
    details = f.details(why, branch="restart", **facts)
    plan = RESTART(**values, position=position, details=details)
    return Commit(plan, Restarted(execution.id, position, dropped))


def _was_skipped(snapshot: Snapshot, execution: Execution) -> bool:
    return execution.flow_id is not None and (
        execution.terminal_outcome == "skipped"
        or (snapshot.attempt is not None and snapshot.attempt.outcome == "skipped")
    )


def _values(
    snapshot: Snapshot, execution: Execution, attempt_id: UUID, now: int
) -> dict[str, object]:
    deadline, origin = _rearmed(execution, now)
    return {
        **f.named(execution),
        "now": now,
        "attempt_id": None if snapshot.attempt is None else attempt_id,
        "deadline_at_ms": deadline,
        "deadline_origin": origin,
        "raw_fields": _counted(execution),
    }


def _not_replayable(execution: Execution) -> StateError | None:
    if not is_ended(execution):
        state = f"the execution is {execution.public_state}"
        return StateError(StateKind.EXECUTION_NOT_TERMINAL, state)
    policy = stored_policy(execution.policy, execution.id)
    limit = DEFAULT_MAX_REPLAYS if policy is None else policy.max_replay_count
    if execution.replay_count >= limit:
        return StateError(StateKind.MAX_REPLAYS_EXHAUSTED, f"{limit} replays")
    return None


def check_upstreams(upstreams: Iterable[UUID], kept: Collection[UUID]) -> EngineError | None:
    """The error for a member that would wait for, or read, an upstream member that was removed."""
    removed = next((each for each in upstreams if each not in kept), None)
    if removed is None:
        return None
    detail = f"retention has removed upstream member {removed}; submit the flow again"
    return StateError(StateKind.DEPS_NOT_SATISFIED, detail)


def _rearmed(execution: Execution, now: int) -> tuple[int | None, str | None]:
    """A deadline from the policy restarts. A deadline given as a time is dropped once passed."""
    if execution.deadline_origin == "policy":
        policy = stored_policy(execution.policy, execution.id)
        duration = policy.execution_deadline_ms if policy else None
        return (now + duration, "policy") if duration else (None, None)
    if execution.deadline_at_ms is not None and execution.deadline_at_ms > now:
        return execution.deadline_at_ms, execution.deadline_origin
    return None, None


def _counted(execution: Execution) -> str:
    try:
        raw = {**json.loads(execution.raw_fields), "replay_count": execution.replay_count + 1}
    except (ValueError, TypeError):
        raise Corruption("raw_fields cannot be read", execution.id) from None
    return json.dumps(raw, separators=(",", ":"))
