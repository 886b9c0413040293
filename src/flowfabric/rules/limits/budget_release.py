"""What is taken off a budget again: the account of one execution, or all of it when it starts anew."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import BudgetReset
from flowfabric.plan import Add, Arg, Cond, Delete, Form, Now, Plan, Update, Wake
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.limits.budgets import (
    KEYS,
    LEDGER,
    POLICY,
    SPENT_BY,
    THIS_BUDGET,
    THIS_DIMENSION,
    USAGE,
    BudgetRows,
)

GIVE_BACK = Form(
    "give_back_usage",
    Update(
        USAGE,
        (*THIS_BUDGET, THIS_DIMENSION, Cond("current_value", ">=", Arg("by"))),
        {"current_value": Add(Arg("less")), "updated_at_ms": Now()},
    ),
)
GIVE_BACK_ALL = Form(
    "give_back_all_usage",
    Update(
        USAGE,
        (*THIS_BUDGET, THIS_DIMENSION, Cond("current_value", "<", Arg("by"))),
        {"current_value": 0, "updated_at_ms": Now()},
    ),
)
SETTLE_ACCOUNT = Form(
    "settle_account", Delete(LEDGER, (*SPENT_BY, Cond("delta_total", "=", Arg("by"))))
)


def release(books: BudgetRows, execution: ExecutionId) -> list[Plan]:
    """Everything on the account of an execution; never below nothing."""
    usage: list[Plan] = []
    accounts: list[Plan] = []
    at = execution.partition_index
    for (_, dimension), by in sorted(books.charges.items(), key=lambda item: item[0][1]):
        named = {"budget_id": books.budget_id, "dimension": dimension, "by": by}
        if dimension in books.usage:
            enough = books.usage[dimension] >= by
            usage.append(GIVE_BACK(**named, less=-by) if enough else GIVE_BACK_ALL(**named))
        accounts.append(SETTLE_ACCOUNT(**named, partition_key=at, execution_id=execution.uuid))
    return [*sorted(usage, key=lambda plan: plan.form is GIVE_BACK_ALL), *accounts]


# ---- starting anew

ZERO_USAGE = Form(
    "zero_usage",
    Update(
        USAGE,
        (*THIS_BUDGET, THIS_DIMENSION),
        {"current_value": 0, "last_reset_at_ms": Arg("now"), "updated_at_ms": Arg("now")},
    ),
)
RESET_BUDGET = Form(
    "reset_budget",
    Update(
        POLICY,
        (*THIS_BUDGET, Cond("version", "=", Arg("version"))),
        {
            "version": Add(1),
            "last_breach_at_ms": None,
            "last_breach_dim": None,
            "next_reset_at_ms": Arg("next_reset_at_ms"),
            "updated_at_ms": Arg("now"),
        },
    ),
    Delete(LEDGER, THIS_BUDGET),
    Wake("budget_resets", at=Arg("next_reset_at_ms")),
)


def reset(books: BudgetRows, now_ms: int | None, *, only_due: bool = False) -> Decision:
    """By hand the next one is an interval away; on schedule it stays on its hour, however late this one is."""
    policy = books.policy
    if policy is None:
        return Reject(NotFound("budget"))
    now = books.now_ms if now_ms is None else now_ms
    interval, due = policy.limits.reset_interval_ms, policy.next_reset_at_ms
    if only_due and (due is None or due > now):
        return Return(None)
    upcoming = None
    if interval:
        upcoming = now + interval
        if only_due and due is not None:
            upcoming = due + interval * ((now - due) // interval + 1)
    zeroes = tuple(
        ZERO_USAGE(budget_id=books.budget_id, dimension=name, now=now)
        for name in sorted(books.usage)
    )
    plan = RESET_BUDGET(
        budget_id=books.budget_id, version=policy.version, now=now, next_reset_at_ms=upcoming
    )
    return Commit(plan, BudgetReset(upcoming or 0), zeroes)


FORGET_USAGE_KEY = Form(
    "forget_usage_key",
    Delete(
        KEYS,
        (*THIS_BUDGET, Cond("dedup_key", "=", Arg("key")), Cond("expires_at_ms", "<=", Arg("now"))),
    ),
)


def forget_key(budget: UUID, key: str, now: int) -> Plan:
    return FORGET_USAGE_KEY(budget_id=budget, key=key, now=now)


def contradictions(
    usage: Mapping[str, int], charged: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """Dimensions below nothing, or with more on accounts than was counted."""
    names = sorted({*usage, *charged})
    known = [(name, usage.get(name, 0), charged.get(name, 0)) for name in names]
    return [
        (name, used, on_accounts)
        for name, used, on_accounts in known
        if used < 0 or on_accounts > used
    ]
