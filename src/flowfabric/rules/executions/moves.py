"""Moves of a waiting execution to another lane, and releases of delays and holds."""

from __future__ import annotations

from flowfabric.errors import NotFound, StateError, StateKind
from flowfabric.model.bulk import Why
from flowfabric.model.execution import Changed, Execution
from flowfabric.model.quota import Attached
from flowfabric.plan import After, Arg, Form, Guard, Update, Wake
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.executions.create import LANE_IS_OPEN
from flowfabric.rules.states import VECTORS, canonical, entering

_LIMITS = ("budget_ids", "quota_policy_id", "gate")
_MOVED: f.Columns = {**f.UNRESERVED, **from_args("lane_id", *_LIMITS)}
_INTO_AN_OPEN_LANE: tuple[Guard, ...] = (*f.UNCHANGED, *LANE_IS_OPEN)
MOVE = Form(
    "move_execution",
    Update(
        f.EXEC,
        _INTO_AN_OPEN_LANE,
        {
            **_MOVED,
            "version": f.MOVED_AT_ARG["version"],
            "last_mutation_at": Arg("now"),
        },
    ),
    f.drop_grant(),
    f.operator_event("moved", Arg("details")),
)
MOVE_READY = Form(
    "move_ready_execution",
    Update(
        f.EXEC,
        _INTO_AN_OPEN_LANE,
        {**_MOVED, **f.MOVED_AT_ARG, **entering("READY"), "blocked_on": None},
    ),
    f.drop_grant(),
    f.operator_event("moved", Arg("details")),
    Wake("ready", After("lane_id")),
)
RELEASE = Form(
    "release_execution",
    Update(
        f.EXEC,
        f.UNCHANGED,
        {**f.MOVED_AT_ARG, **entering("READY"), "delay_until_ms": None, "blocked_on": None},
    ),
    f.operator_event("released", Arg("details")),
    Wake("ready", After("lane_id")),
)

_CLAIMED_ANEW = {VECTORS[v].eligibility_state for v in ("READY", "BUDGET", "QUOTA", "ROUTE")}
"""The next claim decides again whether these can run."""
_PARKED = {VECTORS[v].eligibility_state for v in ("DELAYED", "DEPS", "OPBLOCK", "LANEBLOCK")}
RELEASABLE = tuple(VECTORS[v].eligibility_state for v in ("DELAYED", "OPBLOCK", "LANEBLOCK"))
_BY_FLOW_CANCEL = "paused_by_flow_cancel"


def move(
    snapshot: Snapshot, lane: str, limits: Attached, why: Why, now_ms: int | None = None
) -> Decision:
    """Moves an execution that waits for anything. `limits` are those that it has in the new lane.

    A run under a limit or without a capable worker becomes claimable: the new lane decides.
    """
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    if execution.lane_id == lane:
        return Return(Changed(execution.id))
    eligibility = canonical("eligibility_state", execution.eligibility_state)
    is_ready = execution.lifecycle_phase == "runnable" and eligibility in _CLAIMED_ANEW
    is_parked = execution.lifecycle_phase == "suspended" or (
        execution.lifecycle_phase == "runnable" and eligibility in _PARKED
    )
    if not is_ready and not is_parked:
        detail = f"the execution is {execution.public_state}"
        return Reject(StateError(StateKind.NOT_MOVABLE, detail))
    if _is_granted(execution, snapshot.now_ms):
        return Reject(StateError(StateKind.GRANT_ALREADY_EXISTS))
    if snapshot.lane is not None and snapshot.lane.is_closed:
        detail = f"lane {lane!r} is {snapshot.lane.state}"
        return Reject(StateError(StateKind.LANE_CLOSED, detail))
    plan = (MOVE_READY if is_ready else MOVE)(
        **f.named(execution),
        now=snapshot.now_ms if now_ms is None else now_ms,
        lane_id=lane,
        budget_ids=limits.budget_ids,
        quota_policy_id=limits.quota_policy_id,
        gate=limits.gate,
        details=f.details(why, from_lane=execution.lane_id, to_lane=lane),
    )
    return Commit(plan, Changed(execution.id))


def _is_granted(execution: Execution, now: int) -> bool:
    """Whether a worker has been promised this execution in its present lane."""
    return execution.reserved_until_ms is not None and execution.reserved_until_ms >= now


def release(snapshot: Snapshot, why: Why, now_ms: int | None = None) -> Decision:
    """Ends a delay or a hold of an operator now. Limits, upstreams and signals still count."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    if execution.lifecycle_phase == "runnable" and execution.eligibility_state == "eligible_now":
        return Return(Changed(execution.id))
    if (
        execution.lifecycle_phase != "runnable"
        or execution.eligibility_state not in RELEASABLE
        or execution.blocking_reason == _BY_FLOW_CANCEL
    ):
        detail = f"the execution is {execution.public_state}, {execution.blocking_reason}"
        return Reject(StateError(StateKind.NOT_HELD, detail))
    facts = {"delay_until_ms": execution.delay_until_ms} if execution.delay_until_ms else {}
    plan = RELEASE(
        **f.named(execution),
        now=snapshot.now_ms if now_ms is None else now_ms,
        details=f.details(why, held=execution.blocking_reason, **facts),
    )
    return Commit(plan, Changed(execution.id))
