"""Releasing what an execution has charged to a budget, and resetting a budget."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import BudgetReset
from flowfabric.plan import Add, Arg, Cond, Delete, Form, Now, Plan, Update, Wake
from flowfabric.rules.columns import by_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.limits import budget_forms as forms
from flowfabric.rules.limits.budgets import BudgetRows

RELEASE_PART = Form(
    "give_back_usage",
    Update(
        forms.USAGE,
        (*forms.THIS_BUDGET, forms.THIS_DIMENSION, Cond("current_value", ">=", Arg("by"))),
        {"current_value": Add(Arg("less")), "updated_at_ms": Now()},
    ),
)
RELEASE_ALL = Form(
    "give_back_all_usage",
    Update(
        forms.USAGE,
        (*forms.THIS_BUDGET, forms.THIS_DIMENSION, Cond("current_value", "<", Arg("by"))),
        {"current_value": 0, "updated_at_ms": Now()},
    ),
)
CLOSE_ACCOUNT = Form(
    "settle_account", Delete(forms.LEDGER, (*forms.SPENT_BY, Cond("delta_total", "=", Arg("by"))))
)


def release(rows: BudgetRows, execution: ExecutionId) -> list[Plan]:
    """Releases the whole account of an execution; usage does not fall below 0."""
    usage: list[Plan] = []
    accounts: list[Plan] = []
    at = execution.partition_index
    for (_, dimension), by in sorted(rows.charges.items(), key=lambda item: item[0][1]):
        named = {"budget_id": rows.budget_id, "dimension": dimension, "by": by}
        if dimension in rows.usage:
            enough = rows.usage[dimension] >= by
            usage.append(RELEASE_PART(**named, less=-by) if enough else RELEASE_ALL(**named))
        accounts.append(CLOSE_ACCOUNT(**named, partition_key=at, execution_id=execution.uuid))
    return [*sorted(usage, key=lambda plan: plan.form is RELEASE_ALL), *accounts]


ZERO_USAGE = Form(
    "zero_usage",
    Update(
        forms.USAGE,
        (*forms.THIS_BUDGET, forms.THIS_DIMENSION),
        {"current_value": 0, "last_reset_at_ms": Arg("now"), "updated_at_ms": Arg("now")},
    ),
)
RESET_BUDGET = Form(
    "reset_budget",
    Update(
        forms.POLICY,
        by_args("budget_id", "version"),
        {
            "version": Add(1),
            "last_breach_at_ms": None,
            "last_breach_dim": None,
            "next_reset_at_ms": Arg("next_reset_at_ms"),
            "updated_at_ms": Arg("now"),
        },
    ),
    Delete(forms.LEDGER, forms.THIS_BUDGET),
    Wake("budget_resets", at=Arg("next_reset_at_ms")),
)


def reset(rows: BudgetRows, now_ms: int | None, *, only_due: bool = False) -> Decision:
    """A manual reset starts a new interval; a scheduled one keeps the hour, however late it is."""
    policy = rows.policy
    if policy is None:
        return Reject(NotFound("budget"))
    now = rows.now_ms if now_ms is None else now_ms
    interval, due = policy.limits.reset_interval_ms, policy.next_reset_at_ms
    if only_due and (due is None or due > now):
        return Return(None)
    upcoming = None
    if interval:
        upcoming = now + interval
        if only_due and due is not None:
            upcoming = due + interval * ((now - due) // interval + 1)
    zeroes = tuple(
        ZERO_USAGE(budget_id=rows.budget_id, dimension=name, now=now) for name in sorted(rows.usage)
    )
    plan = RESET_BUDGET(
        budget_id=rows.budget_id, version=policy.version, now=now, next_reset_at_ms=upcoming
    )
    return Commit(plan, BudgetReset(upcoming or 0), zeroes)


FORGET_USAGE_KEY = Form(
    "forget_usage_key",
    Delete(forms.KEYS, forms.EXPIRED_KEY),
)


def forget_key(budget: UUID, key: str, now: int) -> Plan:
    return FORGET_USAGE_KEY(budget_id=budget, key=key, now=now)


def contradictions(
    usage: Mapping[str, int], charged: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """Dimensions whose usage is negative, or less than what is on accounts."""
    names = sorted({*usage, *charged})
    known = [(name, usage.get(name, 0), charged.get(name, 0)) for name in names]
    return [each for each in known if each[1] < 0 or each[2] > each[1]]
