"""Quota policies: defining and closing them, manual admission, and the repair of counters."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import Corruption, NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.quota import (
    DEFAULT_WINDOW_S,
    Admitted,
    AlreadyAdmitted,
    CheckAdmissionArgs,
    ConcurrencyExceeded,
    CreateQuotaPolicyArgs,
    LimitState,
    QuotaLimits,
    QuotaLimitsArgs,
    QuotaPolicy,
    QuotaPolicyUnchanged,
    QuotaPolicyUpdated,
    RateExceeded,
    UpdateQuotaPolicyArgs,
)
from flowfabric.plan import Add, Arg, Cond, Delete, Form, Insert, Now, Plan, Update, Upsert, Wake
from flowfabric.rules.claims.admission import (
    QUOTA,
    THIS_QUOTA,
    UNCHANGED_QUOTA,
    WINDOW,
    Breach,
    capacity_of,
    slot_holders,
    touch,
)
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
        QUOTA,
        {**from_args(*_GIVEN), "created_at_ms": Arg("now"), "updated_at_ms": Arg("now")},
    ),
)
_LIMITS = _GIVEN[2:]
UPDATE_QUOTA = Form(
    "update_quota_policy",
    Update(
        QUOTA,
        UNCHANGED_QUOTA,
        {
            **from_args(*_LIMITS),
            "version": Add(1),
            "changed_at_ms": Now(),
            "updated_at_ms": Now(),
        },
    ),
    limit_event(UPDATED, "quota_policy_id"),
    _OPENS,
)
SET_CLOSED = Form(
    "set_quota_closed",
    Update(
        QUOTA,
        (THIS_QUOTA,),
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
_COUNT = Upsert(WINDOW, _ENTRY, {"dimension": Arg("dimension")})
ADMIT = Form("admit", Insert(ADMITTED, _SLOT), _COUNT)
RELEASE = Form(
    "release_admission",
    Delete(ADMITTED, by_args("quota_policy_id", "execution_id")),
    _OPENS,
)
FORGET_ENTRY = Form(
    "forget_quota_entry",
    Delete(WINDOW, by_args("quota_policy_id", "dimension", "admitted_at_ms", "execution_id")),
)
NOTE_REFUND = Form("note_refund", Update(QUOTA, (THIS_QUOTA,), {"version": Add(1)}), _OPENS)
SET_ACTIVE = Form(
    "set_quota_active",
    Update(
        QUOTA,
        (THIS_QUOTA, Cond("active_concurrency", "=", Arg("was"))),
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


def create(args: CreateQuotaPolicyArgs, now_ms: int) -> Plan:
    namespace = args.namespace or DEFAULT_NAMESPACE
    return CREATE_QUOTA.of(args, limits_of_args(args), namespace=namespace, now=now_ms)


def limits_of(quota: QuotaPolicy) -> QuotaLimits:
    """A stored negative limit is corruption, not no limit."""
    found = {field: getattr(quota, field) for field in QuotaLimits.__struct_fields__}
    for field, value in found.items():
        if value < 0:
            raise Corruption(f"{field}: {value} is not a limit", f"quota {quota.quota_policy_id}")
    return QuotaLimits(**found)


def limits_of_args(args: QuotaLimitsArgs) -> QuotaLimits:
    return QuotaLimits(
        args.max_requests_per_window, args.window_seconds, args.max_concurrent, args.jitter_ms
    )


def owned_elsewhere(existing: QuotaPolicy | None, args: CreateQuotaPolicyArgs) -> NotFound | None:
    """A quota of another namespace is not found."""
    is_ours = existing is None or existing.namespace == (args.namespace or DEFAULT_NAMESPACE)
    return None if is_ours else unknown(args.quota_policy_id)


def update(quota: QuotaPolicy | None, args: UpdateQuotaPolicyArgs) -> Decision:
    """Equal limits write nothing."""
    if quota is None:
        return Reject(unknown(args.quota_policy_id))
    old, new, ident = limits_of(quota), limits_of_args(args), args.quota_policy_id
    if old == new:
        return Return(QuotaPolicyUnchanged(ident))
    details = event_details({"quota_policy_id": str(ident)}, old, new, args.by)
    return Commit(UPDATE_QUOTA.of(new, quota, details=details), QuotaPolicyUpdated(ident, old, new))


def policy_of(args: CheckAdmissionArgs) -> QuotaPolicy:
    """The limits of the arguments as a policy."""
    window = args.window_seconds or DEFAULT_WINDOW_S
    rate, cap = args.rate_limit, args.concurrency_cap
    return QuotaPolicy(
        args.quota_policy_id, 0, DEFAULT_NAMESPACE, window, rate, cap, 0, 0, None, None, 0, 0, 0
    )


def check_admission(
    args: CheckAdmissionArgs, limits: LimitState, now_ms: int, dimension: str, jitter_ms: int
) -> Decision:
    """`limits.quota` is the stored policy, if any; an admission is counted under its version."""
    own = args.execution_id
    holding = slot_holders(limits)
    if own.uuid in holding:
        return Return(AlreadyAdmitted())
    left = capacity_of(policy_of(args), len(holding), limits.window, now_ms)
    if left.why == "concurrency":
        return Return(ConcurrencyExceeded())
    if left.opens_at_ms is not None:
        return Return(RateExceeded(max(left.opens_at_ms - now_ms, 0) + jitter_ms))
    values = {
        "quota_policy_id": args.quota_policy_id,
        "dimension": dimension,
        "execution_id": str(own),
        "execution_uuid": own.uuid,
    }
    first = () if limits.quota is None else (touch(limits.quota),)
    return Commit(ADMIT(**values), Admitted(), first)


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


def corrected(quota: QuotaPolicy, held: int) -> Plan | None:
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
    execution: Execution, over: Mapping[str, Breach], rooms: dict[UUID, int | None]
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
