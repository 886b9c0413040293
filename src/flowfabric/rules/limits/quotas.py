"""Quota policies: defining and closing them, manual admission, and the repair of counters."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import Corruption, NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model import quota as model
from flowfabric.model.execution import Execution
from flowfabric.plan import Add, Arg, Cond, Delete, Form, Insert, Now, Plan, Update, Upsert, Wake
from flowfabric.rules.claims import admission
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.limits.breach_actions import REFUSED
from flowfabric.rules.limits.budget_changes import event_details, limit_event
from flowfabric.rules.limits.budgets import DEFAULT_NAMESPACE

ADMITTED = "ff_quota_admitted"
SLOT_GRACE_MS = 30_000
QUOTAS = "quotas"
UPDATED = "quota_policy_updated"
_OPENS = Wake(QUOTAS)
_GIVEN = (
    "quota_policy_id",
    "namespace",
    "requests_per_window_seconds",
    "max_requests_per_window",
    "active_concurrency_cap",
    "jitter_ms",
)
CREATE_QUOTA = Form(
    "create_quota_policy",
    Insert(
        admission.QUOTA,
        {**from_args(*_GIVEN), "created_at_ms": Arg("now"), "updated_at_ms": Arg("now")},
    ),
)
_LIMITS = _GIVEN[2:]
UPDATE_QUOTA = Form(
    "update_quota_policy",
    Update(
        admission.QUOTA,
        admission.UNCHANGED_QUOTA,
        {**from_args(*_LIMITS), "version": Add(1), "changed_at_ms": Now(), "updated_at_ms": Now()},
    ),
    limit_event(UPDATED, "quota_policy_id"),
    _OPENS,
)
SET_CLOSED = Form(
    "set_quota_closed",
    Update(
        admission.QUOTA,
        (admission.THIS_QUOTA,),
        {"version": Add(1), "updated_at_ms": Now(), "closed_until_ms": Arg("until_ms")},
    ),
    _OPENS,
)
_ENTRY = {
    **from_args("quota_policy_id", "dimension"),
    "admitted_at_ms": Now(),
    "execution_id": Arg("execution_uuid"),
}
_SLOT = {**from_args("quota_policy_id", "execution_id"), "admitted_at_ms": Now()}
_COUNT = Upsert(admission.WINDOW, _ENTRY, {"dimension": Arg("dimension")})
ADMIT = Form("admit", Insert(ADMITTED, _SLOT), _COUNT)
RELEASE = Form(
    "release_admission",
    Delete(ADMITTED, by_args("quota_policy_id", "execution_id")),
    _OPENS,
)
FORGET_ENTRY = Form(
    "forget_quota_entry",
    Delete(
        admission.WINDOW, by_args("quota_policy_id", "dimension", "admitted_at_ms", "execution_id")
    ),
)
NOTE_REFUND = Form(
    "note_refund", Update(admission.QUOTA, (admission.THIS_QUOTA,), {"version": Add(1)}), _OPENS
)
SET_ACTIVE = Form(
    "set_quota_active",
    Update(
        admission.QUOTA,
        (admission.THIS_QUOTA, Cond("active_concurrency", "=", Arg("was"))),
        {"active_concurrency": Arg("active")},
    ),
)


class Slot(Struct, frozen=True):
    """A row of `ff_quota_admitted`."""

    quota_policy_id: UUID
    execution_id: str
    admitted_at_ms: int
    expires_at_ms: int | None


class SlotExecution(Struct, frozen=True):
    """The columns of an execution that decide whether its slot is an orphan."""

    partition_key: int
    execution_id: UUID
    lifecycle_phase: str
    reserved_until_ms: int | None


def create(args: model.CreateQuotaPolicyArgs, now_ms: int) -> Plan:
    namespace = args.namespace or DEFAULT_NAMESPACE
    return CREATE_QUOTA.of(args, limits_of_args(args), namespace=namespace, now=now_ms)


def limits_of(quota: model.QuotaPolicy) -> model.QuotaLimits:
    """A stored negative limit is corruption, not no limit."""
    found = {field: getattr(quota, field) for field in model.QuotaLimits.__struct_fields__}
    for field, value in found.items():
        if value < 0:
            raise Corruption(f"{field}: {value} is not a limit", f"quota {quota.quota_policy_id}")
    return model.QuotaLimits(**found)


def limits_of_args(args: model.QuotaLimitsArgs) -> model.QuotaLimits:
    return model.QuotaLimits(
        args.max_requests_per_window, args.window_seconds, args.max_concurrent, args.jitter_ms
    )


def owned_elsewhere(
    existing: model.QuotaPolicy | None, args: model.CreateQuotaPolicyArgs
) -> NotFound | None:
    """A quota of another namespace is not found."""
    is_ours = existing is None or existing.namespace == (args.namespace or DEFAULT_NAMESPACE)
    return None if is_ours else unknown(args.quota_policy_id)


def update(quota: model.QuotaPolicy | None, args: model.UpdateQuotaPolicyArgs) -> Decision:
    """Equal limits write nothing."""
    if quota is None:
        return Reject(unknown(args.quota_policy_id))
    old, new, ident = limits_of(quota), limits_of_args(args), args.quota_policy_id
    if old == new:
        return Return(model.QuotaPolicyUnchanged(ident))
    details = event_details({"quota_policy_id": str(ident)}, old, new, args.by)
    return Commit(
        UPDATE_QUOTA.of(new, quota, details=details), model.QuotaPolicyUpdated(ident, old, new)
    )


def policy_of(args: model.CheckAdmissionArgs) -> model.QuotaPolicy:
    """The limits of the arguments as a policy."""
    window = args.window_seconds or model.DEFAULT_WINDOW_S
    rate, cap = args.rate_limit, args.concurrency_cap
    return model.QuotaPolicy(
        args.quota_policy_id, 0, DEFAULT_NAMESPACE, window, rate, cap, 0, 0, None, None, 0, 0, 0
    )


def check_admission(
    args: model.CheckAdmissionArgs,
    limits: model.LimitState,
    now_ms: int,
    dimension: str,
    jitter_ms: int,
) -> Decision:
    """`limits.quota` is the stored policy, if any; an admission is counted under its version."""
    own = args.execution_id
    holding = admission.slot_holders(limits)
    if own.uuid in holding:
        return Return(model.AlreadyAdmitted())
    left = admission.capacity_of(policy_of(args), len(holding), limits.window, now_ms)
    if left.why == "concurrency":
        return Return(model.ConcurrencyExceeded())
    if left.opens_at_ms is not None:
        return Return(model.RateExceeded(max(left.opens_at_ms - now_ms, 0) + jitter_ms))
    values = {
        "quota_policy_id": args.quota_policy_id,
        "dimension": dimension,
        "execution_id": str(own),
        "execution_uuid": own.uuid,
    }
    first = () if limits.quota is None else (admission.touch(limits.quota),)
    return Commit(ADMIT(**values), model.Admitted(), first)


def release(quota_policy_id: UUID, ident: ExecutionId) -> Plan:
    return RELEASE(quota_policy_id=quota_policy_id, execution_id=str(ident))


def set_closed(quota_policy_id: UUID, until_ms: int | None) -> Plan:
    return SET_CLOSED(quota_policy_id=quota_policy_id, until_ms=until_ms)


def unknown(quota_policy_id: UUID) -> NotFound:
    return NotFound("quota_policy", quota_policy_id)


def forget(quota_policy_id: UUID, dimension: str, admitted_at_ms: int, execution: UUID) -> Plan:
    return FORGET_ENTRY(
        quota_policy_id=quota_policy_id,
        dimension=dimension,
        admitted_at_ms=admitted_at_ms,
        execution_id=execution,
    )


def note_refund(quota_policy_id: UUID) -> Plan:
    """Invalidates cached windows of the quota."""
    return NOTE_REFUND(quota_policy_id=quota_policy_id)


def corrected(quota: model.QuotaPolicy, held: int) -> Plan | None:
    """Corrects the displayed counter; admission does not use it."""
    if quota.active_concurrency == held:
        return None
    return SET_ACTIVE(
        quota_policy_id=quota.quota_policy_id, was=quota.active_concurrency, active=held
    )


def is_orphan(slot: Slot, execution: SlotExecution | None, now_ms: int) -> bool:
    """Whether a manual slot is old, and its execution is neither active nor reserved."""
    if (
        execution is None
        or slot.admitted_at_ms > now_ms - SLOT_GRACE_MS
        or execution.lifecycle_phase == "active"
    ):
        return False
    return execution.reserved_until_ms is None or execution.reserved_until_ms < now_ms


def budgets_of(execution: Execution) -> set[str]:
    """The budgets of an execution, and the one that it waits for."""
    named = (execution.blocked_on or "").removeprefix("budget:")
    try:
        return {*execution.budget_ids, str(UUID(named))}
    except ValueError:
        return set(execution.budget_ids)


def is_lifted(
    execution: Execution, over: Mapping[str, admission.Breach], rooms: dict[UUID, int | None]
) -> bool:
    """Whether to unblock an execution, which then takes a place in `rooms` of its quota."""
    if execution.eligibility_state == "blocked_by_budget":
        is_refused = (execution.blocked_on or "").startswith(REFUSED)
        return not is_refused and not any(budget in over for budget in budgets_of(execution))
    quota = execution.quota_policy_id
    left = None if quota is None else rooms.get(quota)
    if quota is None or left is None:
        return True
    rooms[quota] = max(left - 1, 0)
    return left > 0
