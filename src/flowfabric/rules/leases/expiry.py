"""The loss of a lease: revocation, expiry, and the return of the execution to its lane."""

from __future__ import annotations

from flowfabric.errors import NotFound
from flowfabric.ids import lease_mark
from flowfabric.model import lease as model
from flowfabric.model.execution import Execution
from flowfabric.plan import Add, After, Arg, Cond, Form, Now, Update, Wake
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import by_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot, first_of
from flowfabric.rules.fence import mark_expired
from flowfabric.rules.states import entering

NO_POLICY_RECLAIM_LIMIT = 1_000

REVOKE = Form(
    "revoke",
    f.interrupt(
        (*f.UNCHANGED, *by_args("lease_epoch"), Cond("ownership_state", "=", "leased")),
        entering("READY", detail=Arg("blocking_detail")),
        {"interrupt_cause": "lease_revoked", "lease_epoch": Add(1), **f.TIMEOUT_RESET},
    ),
    f.suspend_attempt({"worker_instance_id": None}, lease_epoch=After("lease_epoch")),
    f.lease_event("revoked", "lease_revoked"),
    Wake("ready", After("lane_id")),
)


def revoke(
    snapshot: Snapshot, args: model.RevokeLeaseArgs, label: str, seen_epoch: int | None = None
) -> Decision:
    """`seen_epoch` is the epoch of the first read; a lease granted since then does not expire."""
    execution = snapshot.execution
    if execution is None:
        return Reject(NotFound("execution", args.execution_id))
    state, epoch = execution.ownership_state, execution.lease_epoch
    composite = f"{label}:{execution.execution_id}:{execution.attempt_index}:{epoch}"
    lease, wanted = execution.current_lease_id, args.expected_lease_id
    instances = ("", execution.current_worker_instance_id)
    known = (str(lease), str(lease_mark(lease)), composite)
    done = first_of(
        (state == "lease_expired_reclaimable", "already_expired"),
        (state != "leased", "no_active_lease"),
        (seen_epoch is not None and seen_epoch != epoch, "epoch_moved"),
        (args.worker_instance_id not in instances, "different_worker_instance_id"),
        (bool(wanted) and str(wanted) not in known, "lease_id_mismatch"),
    )
    if done is not None:
        return Return(model.AlreadySatisfied(done))
    plan = REVOKE(
        **f.named(execution),
        lease_epoch=epoch,
        blocking_detail=f"lease revoked: {args.reason}",
    )
    return Commit(plan, model.Revoked(composite, str(epoch + 1)))


def mark_if_due(snapshot: Snapshot) -> Decision:
    """Marks an expired lease. Every other state is an answer, never an error."""
    execution = snapshot.execution
    if execution is None:
        return Return(model.AlreadySatisfied("execution_not_found"))
    state, expires = execution.ownership_state, execution.lease_expires_at_ms
    done = first_of(
        (execution.lifecycle_phase != "active", "not_active"),
        (state == "lease_expired_reclaimable", "already_expired"),
        (state == "lease_revoked", "already_revoked"),
        (state != "leased" or expires is None, "unowned"),
        (expires is not None and expires > snapshot.now_ms, "not_yet_expired"),
    )
    if done is not None:
        return Return(model.AlreadySatisfied(done))
    return Commit(mark_expired(execution), model.MarkedExpired())


TOO_MANY_LOSSES = Form(
    "too_many_losses",
    Update(
        f.EXEC,
        (*f.UNCHANGED, f.LEASE_IS_OVER),
        {
            **f.ended("failed"),
            "attempt_state": "attempt_terminal",
            "failure_reason": "max_reclaims_exceeded",
            "terminal_at_ms": Now(),
            **f.CLOSED_LEASE,
        },
    ),
    f.close_attempt("interrupted_reclaimed", "interrupted_reclaimed"),
    f.drop_grant(),
    f.lease_event("revoked", "max_reclaims_exceeded"),
    f.completion_event("failed"),
)


def reclaim_limit(execution: Execution, requested: int | None = None) -> int:
    """The limit of the stored policy, else the caller's, else the engine's."""
    if execution.max_reclaim_count is not None:
        return execution.max_reclaim_count
    return NO_POLICY_RECLAIM_LIMIT if requested is None else requested


def over_limit(execution: Execution, requested: int | None = None) -> bool:
    return execution.lease_reclaim_count >= reclaim_limit(execution, requested)


def fail_over_limit(execution: Execution) -> Commit:
    plan = TOO_MANY_LOSSES(
        **f.named(execution),
        lease_epoch=execution.lease_epoch,
        attempt_index=execution.attempt_index,
    )
    return Commit(plan, model.ReclaimCapExceeded(execution.id, execution.lease_reclaim_count))


REQUEUE = Form(
    "requeue",
    f.interrupt(
        (*f.UNCHANGED, Cond("ownership_state", "=", "lease_expired_reclaimable")),
        entering("READY"),
        f.TIMEOUT_RESET,
    ),
    f.suspend_attempt(outcome=None),
    Wake("ready", After("lane_id")),
)


def requeue(snapshot: Snapshot, grace_ms: int) -> Decision:
    """Returns an execution to its lane after the grace period; its attempt continues."""
    execution = snapshot.execution
    if (
        execution is None
        or execution.ownership_state != "lease_expired_reclaimable"
        or execution.lease_expired_at is None
    ):
        return Return("not_lost")
    if execution.lease_expired_at + grace_ms > snapshot.now_ms:
        return Return("not_yet_due")
    if snapshot.live_grant is not None:
        return Return("granted")
    if over_limit(execution):
        return fail_over_limit(execution)
    return Commit(REQUEUE(**f.named(execution)), "requeued")
