"""What operators do with an execution: cancel, change its priority, promote it and tag it."""

from __future__ import annotations

from flowfabric import errors
from flowfabric.ids import INSTANCE_TAG_KEY
from flowfabric.model import execution as model
from flowfabric.model.bulk import Why
from flowfabric.model.state import OPERATOR_OVERRIDE
from flowfabric.plan import Add, After, Arg, Cond, Form, Insert, Now, Once, Pick, Plan, Update, Wake
from flowfabric.rules import fragments as f
from flowfabric.rules.columns import from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return, Snapshot, first_of
from flowfabric.rules.executions.create import clamp_priority, encode_tags
from flowfabric.rules.executions.termination import Endings, end_forms
from flowfabric.rules.states import entering, is_ended

_CANCELLED: f.Columns = {
    **f.ended("cancelled", f.MOVED_AT_ARG),
    "delay_until_ms": None,
    "terminal_at_ms": Once(Arg("now")),
    "cancellation_reason": Once(Arg("reason")),
    "cancelled_by": Once(Arg("source")),
    **f.CLOSED_LEASE,
}
_CLOSED = (
    f.close_attempt(
        "ended_cancelled",
        "cancelled",
        at=Arg("now"),
        failure_reason=Arg("attempt_reason"),
        worker_instance_id=None,
        lease_epoch=After("lease_epoch"),
    ),
    *f.close_waits("cancelled", Arg("now")),
)
_REVOKED = f.held_event("revoked", "cancelled", at=Arg("now"))


def _cancel_forms(
    names: tuple[str, str, str], *events: Insert, leased: str = "cancel_leased"
) -> Endings:
    done = (*events, f.completion_event("cancelled", at=Arg("now")))
    raised: f.Columns = {"lease_epoch": Add(1)}
    return end_forms((leased, *names), _CANCELLED, _CLOSED, _REVOKED, done, raised=raised)


CANCEL = _cancel_forms(("cancel_interrupted", "cancel_between_attempts", "cancel_pending"))
CANCEL_MEMBER = _cancel_forms(
    ("cancel_interrupted_member", "cancel_member_between_attempts", "cancel_pending_member"),
    _REVOKED,
)._replace(leased=CANCEL.leased)
CANCEL_BY_JOB = _cancel_forms(
    ("job_cancel_interrupted", "job_cancel_between_attempts", "job_cancel_pending"),
    f.operator_event("cancelled", Arg("details")),
    leased="job_cancel_leased",
)
"""With an operator event that names the bulk job."""


def cancel(snapshot: Snapshot, args: model.CancelExecutionArgs) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution", args.execution_id))
    if is_ended(execution):
        if execution.terminal_outcome == "cancelled":
            return Return(model.Cancelled(execution.id))
        detail = (
            f"cancel_execution: execution_id={execution.id}: "
            f"already terminal in state '{execution.public_state}'"
        )
        return Reject(
            errors.ValidationError(
                errors.ValidationKind.INVALID_INPUT, detail, already_terminal=True
            )
        )
    if execution.ownership_state == "leased" and args.source != OPERATOR_OVERRIDE:
        stale = _stale(execution, args)
        if stale is not None:
            return Reject(stale)
    now = snapshot.now_ms if args.now is None else args.now
    plan = cancel_plan(execution, args.reason, args.source, now)
    return Commit(plan, model.Cancelled(execution.id))


def cancel_plan(
    execution: model.Execution, reason: str, by: str, now_ms: int, *, always_revoked: bool = False
) -> Plan:
    """Cancels an execution that has not ended.

    `always_revoked`: the event of a revoked lease is written without a lease too.
    """
    form = (CANCEL_MEMBER if always_revoked else CANCEL).form(execution)
    return form(**_cancel_values(execution, reason, by, now_ms))


def cancel_by_job(execution: model.Execution, reason: str, details: str, now_ms: int) -> Decision:
    """Cancels an execution that has not ended. `details`: of the operator event."""
    if is_ended(execution):
        return Return()
    form = CANCEL_BY_JOB.form(execution)
    values = _cancel_values(execution, reason, OPERATOR_OVERRIDE, now_ms)
    values["details"] = details
    return Commit(form.given(values))


def _cancel_values(
    execution: model.Execution, reason: str, by: str, now_ms: int
) -> dict[str, object]:
    return {
        **f.named(execution),
        **f.lease_of(execution),
        "now": now_ms,
        "reason": reason,
        "source": by,
        "lease_epoch": execution.lease_epoch,
        "attempt_index": execution.attempt_index,
        "attempt_reason": f"cancelled: {reason}",
    }


def _stale(
    execution: model.Execution, args: model.CancelExecutionArgs
) -> errors.EngineError | None:
    if args.lease_epoch is None:
        detail = (
            f"cancel_execution: execution_id={execution.id}: "
            "lease_epoch required when source != operator_override and execution is active"
        )
        return errors.bad_input(detail)
    if args.lease_epoch != execution.lease_epoch or (
        args.lease_id is not None and args.lease_id != execution.current_lease_id
    ):
        return errors.StateError(errors.StateKind.STALE_LEASE)
    return None


_NOT_TOLD = Why()
CHANGE_PRIORITY = Form(
    "change_priority",
    Update(
        f.EXEC,
        f.UNCHANGED,
        {"version": Add(1), "last_mutation_at": Arg("now"), "priority": Arg("priority")},
    ),
    f.operator_event("priority_changed", Arg("details")),
)
_PROMOTE = {**f.MOVED, **entering("READY"), "delay_until_ms": None}
PROMOTE = Form(
    "promote",
    Update(
        f.EXEC,
        f.UNCHANGED,
        {**_PROMOTE, "last_mutation_at": Arg("now"), "last_transition_at": Arg("now")},
    ),
    Wake("ready", After("lane_id")),
)
SWEEP_DELAYED = Form(
    "sweep_delayed",
    Update(f.EXEC, (Cond("eligibility_state", "=", "not_eligible_until_time"),), _PROMOTE),
    Wake("ready", After("lane_id")),
    pick=Pick("delayed", upto=Now()),
    returning=("partition_key", "execution_id"),
)


def change_priority(
    snapshot: Snapshot, new_priority: int, now_ms: int | None, why: Why = _NOT_TOLD
) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution"))
    if execution.lifecycle_phase != "runnable" or execution.eligibility_state != "eligible_now":
        return Reject(errors.Contention(errors.ContentionKind.EXECUTION_NOT_ELIGIBLE))
    priority = clamp_priority(new_priority)
    details = f.details(why, old_priority=execution.priority, new_priority=priority)
    now = snapshot.now_ms if now_ms is None else now_ms
    plan = CHANGE_PRIORITY(**f.named(execution), priority=priority, details=details, now=now)
    return Commit(plan, model.Changed(execution.id))


def promote(snapshot: Snapshot, now_ms: int | None) -> Decision:
    """Makes a delayed execution claimable. Every other state is an answer, never an error."""
    execution = snapshot.execution
    now = snapshot.now_ms if now_ms is None else now_ms
    if execution is None:
        return Return("not_found_cleaned")
    done = first_of(
        (execution.lifecycle_phase != "runnable", "not_runnable_cleaned"),
        (execution.eligibility_state != "not_eligible_until_time", "not_delayed_cleaned"),
        (execution.delay_until_ms is not None and execution.delay_until_ms > now, "not_yet_due"),
    )
    return Return(done) if done else Commit(PROMOTE(**f.named(execution), now=now), "promoted")


SET_TAGS = Form(
    "set_tags",
    Update(f.EXEC, f.UNCHANGED, {**f.MUTATED, **from_args("tags", "instance_tag")}),
)


def set_tags(snapshot: Snapshot, tags: dict[str, str]) -> Decision:
    execution = snapshot.execution
    if execution is None:
        return Reject(errors.NotFound("execution"))
    merged = {**model.stored_tags(execution.tags, execution.id), **tags}
    size = sum(len(k.encode()) + len(v.encode()) for k, v in merged.items())
    if len(merged) > model.MAX_TAGS or size > model.MAX_TAGS_BYTES:
        accepted = (
            f"at most {model.MAX_TAGS} tags and {model.MAX_TAGS_BYTES} bytes, with the stored ones"
        )
        return Reject(errors.invalid("tags", accepted))
    plan = SET_TAGS(
        **f.named(execution),
        tags=encode_tags(merged),
        instance_tag=merged.get(INSTANCE_TAG_KEY),
    )
    return Commit(plan, len(tags))
