"""Forms that create budgets and count what is reported against them."""

from __future__ import annotations

from flowfabric.plan import Add, Arg, Cond, Form, Insert, Now, Update, Wake
from flowfabric.rules.columns import by_args, from_args

POLICY, USAGE, KEYS, LEDGER = (
    "ff_budget_policy",
    "ff_budget_usage",
    "ff_budget_usage_dedup",
    "ff_budget_usage_by_exec",
)
THIS_BUDGET = by_args("budget_id")
THIS_DIMENSION = Cond("dimensions_key", "=", Arg("dimension"))
SPENT_BY = (*by_args("partition_key", "execution_id"), THIS_DIMENSION, *THIS_BUDGET)

CREATE_BUDGET = Form(
    "create_budget",
    Insert(
        POLICY,
        from_args(
            "budget_id",
            "namespace",
            "policy_json",
            "scope_type",
            "scope_id",
            "enforcement_mode",
            "next_reset_at_ms",
            "created_at_ms",
            "updated_at_ms",
        ),
    ),
    Wake("budget_resets", at=Arg("next_reset_at_ms")),
)
GROW_USAGE = Form(
    "grow_usage",
    Update(
        USAGE,
        (
            *THIS_BUDGET,
            THIS_DIMENSION,
            Cond("current_value", ">=", Arg("at_least")),
            Cond("current_value", "<=", Arg("at_most")),
        ),
        {"current_value": Add(Arg("by")), "updated_at_ms": Now()},
    ),
)
FIRST_USAGE = Form(
    "first_usage",
    Insert(
        USAGE,
        {
            "budget_id": Arg("budget_id"),
            "dimensions_key": Arg("dimension"),
            "current_value": Arg("by"),
            "updated_at_ms": Now(),
        },
    ),
)
_OUTCOME = {
    "outcome_json": Arg("outcome"),
    "applied_at_ms": Arg("now"),
    "expires_at_ms": Arg("expires_at_ms"),
}
REMEMBER_USAGE = Form(
    "remember_usage",
    Insert(KEYS, {"budget_id": Arg("budget_id"), "dedup_key": Arg("key"), **_OUTCOME}),
)
EXPIRED_KEY = (
    *THIS_BUDGET,
    Cond("dedup_key", "=", Arg("key")),
    Cond("expires_at_ms", "<=", Arg("now")),
)
REMEMBER_USAGE_AGAIN = Form("remember_usage_again", Update(KEYS, EXPIRED_KEY, _OUTCOME))
CHARGE = Form(
    "charge_execution",
    Update(LEDGER, SPENT_BY, {"delta_total": Add(Arg("by")), "updated_at_ms": Now()}),
)
FIRST_CHARGE = Form(
    "first_charge",
    Insert(
        LEDGER,
        {
            **from_args("partition_key", "execution_id", "budget_id"),
            "dimensions_key": Arg("dimension"),
            "delta_total": Arg("by"),
            "updated_at_ms": Now(),
        },
    ),
)
NOTE_SOFT = Form(
    "note_soft_breaches",
    Update(POLICY, THIS_BUDGET, {"soft_breach_count": Add(Arg("count")), "updated_at_ms": Now()}),
)
_BREACHED = {
    "breach_count": Add(Arg("count")),
    "last_breach_at_ms": Now(),
    "last_breach_dim": Arg("dimension"),
    "updated_at_ms": Now(),
}
NOTE_HARD = Form("note_hard_breaches", Update(POLICY, THIS_BUDGET, _BREACHED))
NOTE_HARD_AS_READ = Form(
    "note_hard_breach_as_read",
    Update(POLICY, by_args("budget_id", "version"), _BREACHED),
)
"""Refused when the budget has been changed or reset since it was read: both release the executions
that wait for it, and would miss one that begins to wait afterwards."""
