"""Every operation on one execution in one shape: what it decides from a snapshot, and which errors it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.budget import HardBreach
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import (
    BackendTag,
    ClaimExecutionArgs,
    ClaimResumedArgs,
    HandleFields,
    IssueGrantArgs,
    LeaseFence,
    ReclaimExecutionArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.model.policy import RetryPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.plan import Plan
from flowfabric.rules.claims import claims, grants
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot
from flowfabric.rules.executions import operator_actions, replay, time_limits
from flowfabric.rules.executions.skip import skip
from flowfabric.rules.fence import SWEEP_EXPIRED, check_fence
from flowfabric.rules.flows import edges, wait_children
from flowfabric.rules.flows.flows import member_of
from flowfabric.rules.leases import attempts, recovery
from flowfabric.rules.limits import breach_actions
from flowfabric.rules.states import is_ended
from flowfabric.rules.waits import signals, suspend, suspension_timeouts, waitpoints
from flowfabric.rules.workers import retention

from .factory import FLOW_ID, IDENT, NOW, TTL, WORKER
from .wait_factory import KEY, around, bound_to, suspend_args, suspension

MISSING = "execution_not_found"
_FENCED = {
    MISSING,
    "attempt_not_found",
    "lease_conflict",
    "execution_not_active",
    "lease_revoked",
    "lease_expired",
}
_TYPED = {
    MISSING,
    "invalid_input",
    "execution_not_active",
    "lease_revoked",
    "lease_expired",
    "stale_lease",
}


class Shown(Struct, frozen=True):
    """What a caller shows of the lease it believes to hold."""

    handle: HandleFields
    fence: LeaseFence | None


class Op(Struct, frozen=True):
    """An operation that loads, decides and commits."""

    decide: Callable[[Snapshot, Shown], Decision]
    declared: frozenset[str] = frozenset()
    fenced: bool = False


class HolderOp(Struct, frozen=True):
    """An operation of a lease holder: it commits under its fence at once and asks only when refused."""

    plan: Callable[[HandleFields], Plan]
    outcome: str | None = None
    declared: frozenset[str] = frozenset(_FENCED)
    repeatable: bool = False


class SweepOp(Struct, frozen=True):
    plan: Plan


def _op(rule: Callable[[Snapshot], Decision], *codes: str) -> Op:
    return Op(lambda snapshot, _: rule(snapshot), frozenset(codes))


def _new(rule: Callable[..., Decision], args: Any) -> Callable[[Snapshot], Decision]:
    """Each claim brings ids of its own."""
    made = iter(range(0x1000, 10**9))
    return lambda snapshot: rule(
        snapshot, args, lease_id=UUID(int=next(made)), attempt_id=UUID(int=next(made))
    )


_WORKER: dict[str, Any] = {"execution_id": IDENT, "worker_id": WORKER, "worker_instance_id": "i-2"}
_ISSUE = IssueGrantArgs(**_WORKER, grant_ttl_ms=900)
_TOKEN = ResumeToken(ResumeGrant(IDENT, "{fp:7}", "g", NOW + 60_000, "default"), WORKER, "i-2", TTL)


def _cancel(snapshot: Snapshot, shown: Shown) -> Decision:
    fence = shown.fence
    epoch, lease = (None, None) if fence is None else (fence.lease_epoch, fence.lease_id)
    args = CancelExecutionArgs(
        execution_id=IDENT, reason="r", source="lease_holder", lease_epoch=epoch, lease_id=lease
    )
    return operator_actions.cancel(snapshot, args)


def _typed(ending: Callable[[HandleFields], Commit], source: str | None) -> Op:
    def decide(snapshot: Snapshot, shown: Shown) -> Decision:
        refused = check_fence(snapshot, shown.fence, shown.handle.attempt_index, source)
        if refused is not None:
            return refused
        assert snapshot.execution is not None
        return ending(attempts.holder(snapshot.execution, BackendTag.SQLITE, TTL))

    return Op(decide, frozenset(_TYPED), fenced=True)


def _park(snapshot: Snapshot, shown: Shown) -> Decision:
    refused = check_fence(snapshot, shown.fence, shown.handle.attempt_index, "operator_override")
    if refused is not None:
        return refused
    assert snapshot.execution is not None
    return wait_children.park(snapshot, attempts.holder(snapshot.execution, BackendTag.SQLITE, TTL))


def _trim(snapshot: Snapshot) -> Decision:
    execution = snapshot.execution
    if execution is None or not is_ended(execution):
        return Return("kept")
    return Commit(retention.trim(execution), "trimmed")


def _replay(snapshot: Snapshot) -> Decision:
    return replay.replay(snapshot, attempt_id=UUID(int=0xE), now_ms=None)


def _replay_member(snapshot: Snapshot) -> Decision:
    return replay.replay(
        snapshot, attempt_id=UUID(int=0xE), now_ms=NOW, reason="r", requested_by=str(FLOW_ID)
    )


def _replay_skipped(snapshot: Snapshot) -> Decision:
    """As if it were a member of a flow; in these worlds nothing is."""
    execution = snapshot.execution
    member = None if execution is None else replace(execution, flow_id=FLOW_ID)
    return replay.replay(replace(snapshot, execution=member), attempt_id=UUID(int=0xE), now_ms=None)


def _skip(snapshot: Snapshot) -> Decision:
    execution = snapshot.execution
    if execution is None or is_ended(execution):
        return Return("over")
    return Commit(skip(member_of(execution)), "skipped")


def _release(snapshot: Snapshot) -> Decision:
    execution = snapshot.execution
    return edges.promote(
        edges.Child(snapshot.now_ms, None if execution is None else member_of(execution), None)
    )


_made = iter(range(0x2000, 10**9))


def _resume(delay_ms: int) -> Callable[[Snapshot], Decision]:
    return lambda snapshot: signals.resume(
        snapshot.execution, suspension(), delay_ms, snapshot.now_ms
    )


def _time_out(behavior: str) -> Op:
    """As if a suspension that is due were stored with the execution; in these worlds it stands alone."""
    due = suspension(timeout_at_ms=NOW, timeout_behavior=behavior)
    return _op(
        lambda s: suspension_timeouts.expire(s.execution, due, s.now_ms, UUID(int=next(_made)))
    )


def _suspend(holder: HandleFields) -> Plan:
    args = suspend_args()
    return suspend.suspend(
        holder, args, around(), bound_to(args, around()), suspend.ConditionState(), KEY.kid
    )[0]


def _ahead(holder: HandleFields) -> Plan:
    return waitpoints.create_waitpoint(
        holder, UUID(int=next(_made)), "a", "k1:x", KEY.kid, NOW, NOW + 5
    )


def _overspend(action: str) -> Callable[[Snapshot], Decision]:
    """A report against a spent budget was refused."""

    def rule(snapshot: Snapshot) -> Decision:
        plan = breach_actions.breach_plan(
            snapshot.execution, action, UUID(int=0xB), HardBreach("t", 1, 1), snapshot.now_ms
        )
        return Return("left alone") if plan is None else Commit(plan, "acted")

    return rule


_CLAIMING = (MISSING, "execution_not_leaseable", "lease_conflict")

NO_RETRIES = RetryPolicy(max_retries=0, backoff={})
ONE_RETRY = RetryPolicy(max_retries=1, backoff={})

RULES: dict[str, Op] = {
    "retry_attempt": _op(
        lambda s: time_limits.expire(s, ExpirePhase.ATTEMPT_TIMEOUT, None, ONE_RETRY, 0.5)
    ),
    "cancel": _op(
        lambda s: operator_actions.cancel(s, CancelExecutionArgs(execution_id=IDENT, reason="r")),
        MISSING,
        "invalid_input",
    ),
    "cancel_fenced": Op(_cancel, frozenset({MISSING, "invalid_input", "stale_lease"}), fenced=True),
    "change_priority": _op(
        lambda s: operator_actions.change_priority(s, 5, None), MISSING, "execution_not_eligible"
    ),
    "promote": _op(lambda s: operator_actions.promote(s, None)),
    "set_tags": _op(lambda s: operator_actions.set_tags(s, {"a.b": "c"}), MISSING, "invalid_input"),
    "replay": _op(_replay, MISSING, "execution_not_terminal", "max_replays_exhausted"),
    "replay_by_request": _op(
        _replay_member, MISSING, "execution_not_terminal", "max_replays_exhausted"
    ),
    "replay_skipped": _op(
        _replay_skipped, MISSING, "execution_not_terminal", "max_replays_exhausted"
    ),
    "skip": _op(_skip),
    "release": _op(_release, MISSING, "not_runnable", "not_blocked_by_deps"),
    "wait_children": Op(
        lambda s, shown: wait_children.wait_children(s, shown.handle),
        frozenset(_FENCED),
        fenced=True,
    ),
    "expire_attempt": _op(
        lambda s: time_limits.expire(s, ExpirePhase.ATTEMPT_TIMEOUT, None, NO_RETRIES, 0.5)
    ),
    "expire_deadline": _op(
        lambda s: time_limits.expire(s, ExpirePhase.EXECUTION_DEADLINE, None, NO_RETRIES, 0.5)
    ),
    "claim_execution": _op(
        _new(claims.claim_execution, ClaimExecutionArgs(**_WORKER, lease_ttl_ms=TTL)),
        *_CLAIMING,
        "active_attempt_exists",
        "use_claim_resumed_execution",
        "invalid_claim_grant",
        "claim_grant_expired",
    ),
    "claim_resumed": _op(
        _new(claims.claim_resumed, ClaimResumedArgs(**_WORKER, lease_ttl_ms=TTL)),
        *_CLAIMING,
        "not_a_resumed_execution",
        "invalid_claim_grant",
        "claim_grant_expired",
    ),
    "issue_grant_and_claim": _op(
        _new(lambda s, lane, **ids: claims.issue_grant_and_claim(s, lane, TTL, **ids), "default"),
        MISSING,
        "invalid_input",
        "lease_conflict",
        "execution_not_eligible",
        "active_attempt_exists",
        "grant_already_exists",
    ),
    "claim_from_resume_grant": _op(
        _new(recovery.claim_from_resume_grant, _TOKEN),
        MISSING,
        "attempt_not_found",
        "claim_grant_expired",
    ),
    "issue_claim_grant": _op(
        lambda s: grants.issue_claim_grant(s, _ISSUE, grant_id="g-2"),
        MISSING,
        "execution_not_eligible",
        "grant_already_exists",
        "invalid_capabilities",
        "capability_mismatch",
    ),
    "block": _op(lambda s: grants.block(s, "waiting_for_budget", "d", None), MISSING),
    "block_route": _op(lambda s: grants.block(s, "waiting_for_capable_worker", "d", None), MISSING),
    "unblock": _op(lambda s: grants.unblock(s, "", None), "execution_not_eligible"),
    "overspend_fails": _op(_overspend("fail_execution")),
    "overspend_holds": _op(_overspend("suspend_execution")),
    "revoke": _op(
        lambda s: recovery.revoke(s, RevokeLeaseArgs(execution_id=IDENT, reason="r"), "sqlite"),
        MISSING,
    ),
    "mark_expired": _op(recovery.mark_if_due),
    "requeue": _op(lambda s: recovery.requeue(s, 0)),
    "issue_reclaim_grant": _op(
        lambda s: recovery.issue_reclaim_grant(s, _ISSUE, grant_id="g-3"),
        MISSING,
        "grant_already_exists",
    ),
    "reclaim": _op(
        _new(recovery.reclaim, ReclaimExecutionArgs(**_WORKER, lease_ttl_ms=TTL)),
        MISSING,
        "invalid_input",
    ),
    "resume": _op(_resume(0), MISSING, "execution_not_suspended"),
    "resume_later": _op(_resume(5), MISSING, "execution_not_suspended"),
    "time_out_failed": _time_out("fail"),
    "time_out_cancelled": _time_out("cancel"),
    "time_out_expired": _time_out("expire"),
    "time_out_resumed": _time_out("auto_resume"),
    "time_out_escalated": _time_out("escalate"),
    "trim": _op(_trim),
    "renew_lease": _typed(attempts.renew, None),
    "complete_execution": _typed(
        lambda h: Commit(attempts.complete(h, b"typed")), "operator_override"
    ),
    "fail_execution": _typed(lambda h: attempts.fail(h, "r", "c", None), "lease_holder"),
    "wait_for_children": Op(_park, frozenset(_TYPED), fenced=True),
    "delay_execution": _typed(lambda h: attempts.delay(h, NOW + 5), "operator_override"),
}
HOLDERS: dict[str, HolderOp] = {
    "renew": HolderOp(lambda h: attempts.renew(h).plan, repeatable=True),
    "progress": HolderOp(lambda h: attempts.progress(h, 5, "m"), repeatable=True),
    "complete": HolderOp(lambda h: attempts.complete(h, b"r"), "success"),
    "fail_for_good": HolderOp(lambda h: attempts.fail(h, "r", "c", None).plan, "failed"),
    "fail_retry_now": HolderOp(lambda h: attempts.fail(h, "r", "c", 0).plan, "failed"),
    "fail_retry_later": HolderOp(lambda h: attempts.fail(h, "r", "c", 9).plan, "failed"),
    "delay": HolderOp(lambda h: attempts.delay(h, NOW + 5).plan),
    "suspend": HolderOp(_suspend),
    "create_waitpoint": HolderOp(_ahead),
    "give_up": HolderOp(lambda h: attempts.give_up(h, "r"), "cancelled"),
}
SWEEPS: dict[str, SweepOp] = {
    "claim": SweepOp(
        claims.claim(
            lane="default",
            namespace="default",
            capabilities=(),
            worker_id=WORKER,
            instance="i-3",
            ttl_ms=TTL,
        )
    ),
    "sweep_delayed": SweepOp(operator_actions.SWEEP_DELAYED()),
    "sweep_expired": SweepOp(SWEEP_EXPIRED()),
}


def why(op: HolderOp, snapshot: Snapshot, shown: Shown) -> Return | Reject | None:
    return attempts.explain(snapshot, shown.handle, op.outcome)
