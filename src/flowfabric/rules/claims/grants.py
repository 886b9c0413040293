"""Grants that reserve an execution for a worker, and blocking of executions."""

from __future__ import annotations

from collections.abc import Iterable

from flowfabric.errors import (
    Contention,
    ContentionKind,
    NotFound,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.model.execution import Blocked, Execution, LuaRejected
from flowfabric.model.lease import Granted, IssueGrantArgs
from flowfabric.model.policy import MAX_CAPABILITIES, MAX_CAPABILITY_BYTES
from flowfabric.plan import After, Arg, Form, Now, Plan, Update, Upsert, Wake
from flowfabric.rules.columns import from_row
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.fence import not_active
from flowfabric.rules.fragments import EXEC, GRANT, MOVED_AT_ARG, MUTATED, UNCHANGED, named
from flowfabric.rules.states import VECTORS, canonical, entering, is_ended

GRANT_RETURNS = ("reserved_until_ms",)
_GRANT_COLUMNS = (
    "grant_id",
    "kind",
    "worker_id",
    "worker_instance_id",
    "lane_id",
    "capability_hash",
    "worker_capabilities",
    "route_snapshot_json",
    "admission_summary",
    "grant_ttl_ms",
)
_GRANTED = {
    **{c: Arg(c) for c in _GRANT_COLUMNS},
    "issued_at_ms": Now(),
    "expires_at_ms": Now(Arg("grant_ttl_ms")),
}

ISSUE_GRANT = Form(
    "issue_grant",
    Update(
        EXEC,
        UNCHANGED,
        {
            **MUTATED,
            "reserved_for": Arg("worker_id"),
            "reserved_until_ms": Now(Arg("grant_ttl_ms")),
        },
    ),
    Upsert(GRANT, {**from_row("partition_key", "execution_id"), **_GRANTED}, _GRANTED),
    Wake("leased", at=After("reserved_until_ms")),
    returning=GRANT_RETURNS,
)
NOTE_MISMATCH = Form(
    "note_mismatch", Update(EXEC, UNCHANGED, {**MUTATED, "last_capability_mismatch_at": Now()})
)


def missing_capabilities(execution: Execution, offered: Iterable[str]) -> str:
    """The required capabilities that are not offered, as sorted text."""
    return ",".join(sorted(set(execution.required_capabilities) - set(offered)))


def mismatch_plan(execution: Execution) -> Plan:
    return NOTE_MISMATCH(**named(execution))


def grant_plan(execution: Execution, args: IssueGrantArgs, *, kind: str, grant_id: str) -> Plan:
    offered = tuple(sorted(args.worker_capabilities))
    named_grant = {"kind": kind, "grant_id": grant_id, "worker_capabilities": offered}
    return ISSUE_GRANT.of(execution, args, **named_grant)


def issue_claim_grant(snapshot: Snapshot, args: IssueGrantArgs, *, grant_id: str) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    if (
        execution.lifecycle_phase != "runnable"
        or execution.eligibility_state != "eligible_now"
        or snapshot.lane_is_held
    ):
        return Reject(Contention(ContentionKind.EXECUTION_NOT_ELIGIBLE))
    if snapshot.live_grant is not None:
        return Reject(StateError(StateKind.GRANT_ALREADY_EXISTS))
    if len(args.worker_capabilities) > MAX_CAPABILITIES:
        return Reject(
            ValidationError(ValidationKind.INVALID_CAPABILITIES, "worker:too_many_tokens")
        )
    if len(",".join(args.worker_capabilities).encode()) > MAX_CAPABILITY_BYTES:
        return Reject(ValidationError(ValidationKind.INVALID_CAPABILITIES, "worker:too_many_bytes"))
    missing = missing_capabilities(execution, args.worker_capabilities)
    if missing:
        return Reject(
            ValidationError(ValidationKind.CAPABILITY_MISMATCH, missing), mismatch_plan(execution)
        )
    return Commit(
        grant_plan(execution, args, kind="claim", grant_id=grant_id), Granted(execution.id)
    )


_BLOCKED_VECTORS = {
    "waiting_for_budget": "BUDGET",
    "waiting_for_quota": "QUOTA",
    "waiting_for_capable_worker": "ROUTE",
    "paused_by_operator": "OPBLOCK",
    "paused_by_policy": "LANEBLOCK",
}


def _block_form(reason: str, vector: str) -> Form:
    return Form(
        f"block_{vector.lower()}",
        Update(
            EXEC,
            UNCHANGED,
            {
                **MOVED_AT_ARG,
                **entering(vector, reason=reason, detail=Arg("detail")),
                "blocked_on": Arg("blocked_on"),
            },
        ),
    )


BLOCK = {reason: _block_form(reason, vector) for reason, vector in _BLOCKED_VECTORS.items()}
UNBLOCK = Form(
    "unblock",
    Update(EXEC, UNCHANGED, {**MOVED_AT_ARG, **entering("READY"), "blocked_on": None}),
    Wake("ready", After("lane_id")),
)


def check_blocking_reason(reason: str) -> ValidationError | None:
    if reason in _BLOCKED_VECTORS:
        return None
    return ValidationError(
        ValidationKind.INVALID_BLOCKING_REASON,
        f"{reason!r:.60} (accepted: {', '.join(_BLOCKED_VECTORS)})",
    )


def block(
    snapshot: Snapshot, reason: str, detail: str, now_ms: int | None, blocked_on: str | None = None
) -> Decision:
    """A rejection by state is an answer. By default, a wait for a quota is for its own."""
    bad = check_blocking_reason(reason)
    if bad is not None:
        return Reject(bad)
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution"))
    if is_ended(execution):
        return Return(LuaRejected(not_active(execution).code))
    if execution.lifecycle_phase != "runnable":
        return Return(LuaRejected(ContentionKind.EXECUTION_NOT_ELIGIBLE.value))
    eligibility = canonical("eligibility_state", execution.eligibility_state)
    same = (
        eligibility == VECTORS[_BLOCKED_VECTORS[reason]].eligibility_state
        and execution.blocking_reason == reason
    )
    if eligibility != "eligible_now" and not same:
        return Return(LuaRejected(ContentionKind.EXECUTION_NOT_ELIGIBLE.value))
    now = snapshot.now_ms if now_ms is None else now_ms
    if blocked_on is None and same:
        blocked_on = execution.blocked_on
    quota = execution.quota_policy_id
    if blocked_on is None and reason == "waiting_for_quota" and quota is not None:
        blocked_on = f"quota:{quota}"
    plan = BLOCK[reason](**named(execution), detail=detail, blocked_on=blocked_on, now=now)
    return Commit(plan, Blocked(execution.id, reason))


_UNBLOCKABLE = {VECTORS[v].eligibility_state for v in _BLOCKED_VECTORS.values()}


def unblock(snapshot: Snapshot, expected_reason: str, now_ms: int | None) -> Decision:
    if expected_reason:
        bad = check_blocking_reason(expected_reason)
        if bad is not None:
            return Reject(bad)
    execution = snapshot.execution
    if (
        execution is None
        or execution.lifecycle_phase != "runnable"
        or execution.eligibility_state not in _UNBLOCKABLE
        or execution.blocking_reason == "paused_by_flow_cancel"
        or (expected_reason and expected_reason != execution.blocking_reason)
    ):
        return Reject(Contention(ContentionKind.EXECUTION_NOT_ELIGIBLE))
    now = snapshot.now_ms if now_ms is None else now_ms
    return Commit(UNBLOCK(**named(execution), now=now))
