"""Budgets: creating them, and counting what is reported against them.

Reports of one budget are decided together, in the order they came. What is committed is not a sum but how much it grows, on the
condition that the stored value lies where every one of these decisions stays the same, so reports from elsewhere rarely matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.errors import EngineError, NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import (
    ACTIONS,
    MAX_AMOUNT,
    USAGE_DEDUP_MS,
    BudgetAlreadySatisfied,
    BudgetCreated,
    BudgetPolicy,
    CreateBudgetArgs,
    HardBreach,
    Limits,
    SoftBreach,
    UpdateBudgetArgs,
    UsageAlreadyApplied,
    UsageOk,
    UsageResult,
)
from flowfabric.model.lease import HandleFields
from flowfabric.plan import Add, Arg, Cond, Form, Insert, Now, Plan, Update, Wake
from flowfabric.rules.decision import Commit, Decision, Reject, Return

DEFAULT_NAMESPACE = "default"
POLICY, USAGE, KEYS, LEDGER = (
    "ff_budget_policy",
    "ff_budget_usage",
    "ff_budget_usage_dedup",
    "ff_budget_usage_by_exec",
)
THIS_BUDGET = (Cond("budget_id", "=", Arg("budget_id")),)

# ---- creating

CREATE_BUDGET = Form(
    "create_budget",
    Insert(
        POLICY,
        {
            column: Arg(column)
            for column in (
                "budget_id",
                "namespace",
                "policy_json",
                "scope_type",
                "scope_id",
                "enforcement_mode",
                "next_reset_at_ms",
                "created_at_ms",
                "updated_at_ms",
            )
        },
    ),
    Wake("budget_resets", at=Arg("next_reset_at_ms")),
)


def create_budget(existing: BudgetPolicy | None, args: CreateBudgetArgs, now_ms: int) -> Decision:
    """The first one stands, whatever a later one says. An id that another namespace has is not there."""
    namespace = args.namespace or DEFAULT_NAMESPACE
    if existing is not None:
        if existing.namespace != namespace:
            return Reject(NotFound("budget", args.budget_id))
        return Return(BudgetAlreadySatisfied(args.budget_id))
    now = now_ms if args.now is None else args.now
    limits = said_limits(args)
    plan = CREATE_BUDGET(
        budget_id=args.budget_id,
        namespace=namespace,
        policy_json=msgspec.json.encode(limits).decode(),
        scope_type=args.scope_type,
        scope_id=args.scope_id,
        enforcement_mode=args.enforcement_mode,
        next_reset_at_ms=now + args.reset_interval_ms if args.reset_interval_ms else None,
        created_at_ms=now,
        updated_at_ms=now,
    )
    return Commit(plan, BudgetCreated(args.budget_id))


def said_limits(args: CreateBudgetArgs | UpdateBudgetArgs) -> Limits:
    return Limits(
        dict(zip(args.dimensions, args.hard_limits, strict=True)),
        dict(zip(args.dimensions, args.soft_limits, strict=True)),
        args.reset_interval_ms,
        str(args.on_hard_limit),
        args.on_soft_limit,
    )


# ---- counting

THIS_DIMENSION = Cond("dimensions_key", "=", Arg("dimension"))
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
REMEMBER_USAGE = Form(
    "remember_usage",
    Insert(
        KEYS,
        {
            "budget_id": Arg("budget_id"),
            "dedup_key": Arg("key"),
            "outcome_json": Arg("outcome"),
            "applied_at_ms": Arg("now"),
            "expires_at_ms": Arg("expires_at_ms"),
        },
    ),
)
REMEMBER_USAGE_AGAIN = Form(
    "remember_usage_again",
    Update(
        KEYS,
        (*THIS_BUDGET, Cond("dedup_key", "=", Arg("key")), Cond("expires_at_ms", "<=", Arg("now"))),
        {
            "outcome_json": Arg("outcome"),
            "applied_at_ms": Arg("now"),
            "expires_at_ms": Arg("expires_at_ms"),
        },
    ),
)
SPENT_BY = (
    Cond("partition_key", "=", Arg("partition_key")),
    Cond("execution_id", "=", Arg("execution_id")),
    THIS_DIMENSION,
    *THIS_BUDGET,
)
CHARGE = Form(
    "charge_execution",
    Update(LEDGER, SPENT_BY, {"delta_total": Add(Arg("by")), "updated_at_ms": Now()}),
)
FIRST_CHARGE = Form(
    "first_charge",
    Insert(
        LEDGER,
        {
            "partition_key": Arg("partition_key"),
            "execution_id": Arg("execution_id"),
            "budget_id": Arg("budget_id"),
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
    Update(POLICY, (*THIS_BUDGET, Cond("version", "=", Arg("version"))), _BREACHED),
)
"""Refused when the budget was changed or reset meanwhile: whoever makes room looks for those who wait, and must find them."""


class Report(Struct, frozen=True):
    """What was used, by the name of the dimension in order. `charged` is who it goes on the account of, `by` who reports it.

    `lease` is the handle of a worker's report: only while that lease holds has a refusal consequences.
    """

    deltas: tuple[tuple[str, int], ...]
    key: str | None = None
    charged: ExecutionId | None = None
    by: ExecutionId | None = None
    lease: HandleFields | None = None


Charge = tuple[ExecutionId, str]


class BudgetRows(Struct, frozen=True):
    """A budget as it was read: what is used, which keys are known until when, and what is on whose account already.

    `namespaces` are those of the executions that report; one that is not kept any more is not among them.
    """

    budget_id: UUID
    now_ms: int
    policy: BudgetPolicy | None
    usage: Mapping[str, int]
    keys: Mapping[str, int] = {}
    charges: Mapping[Charge, int] = {}
    namespaces: Mapping[ExecutionId, str] = {}


class Counted(Struct):
    """Reports decided one after the other, and what they come to.

    `grown` and `bounds` are per dimension: by how much in all, and between which stored values all of it holds.
    """

    results: list[UsageResult | EngineError] = []
    keys: dict[str, str] = {}
    grown: dict[str, int] = {}
    bounds: dict[str, tuple[int, int]] = {}
    charges: dict[Charge, int] = {}
    soft: int = 0
    hard: int = 0
    hard_dimension: str = ""

    def narrow(self, dimension: str, at_least: int = 0, at_most: int = MAX_AMOUNT) -> None:
        low, high = self.bounds.get(dimension, (0, MAX_AMOUNT))
        self.bounds[dimension] = max(low, at_least), min(high, at_most)


def acts(policy: BudgetPolicy | None, report: Report) -> bool:
    """Whether a refusal of this report would have consequences beyond it."""
    return policy is not None and report.by is not None and policy.limits.on_hard_limit in ACTIONS


def count(books: BudgetRows, reports: Sequence[Report]) -> Counted:
    """All or nothing of each report: known already, over a hard limit, or applied, perhaps over a soft limit."""
    found = Counted()
    for report in reports:
        if books.policy is None or not _is_ones_own(books.policy, books, report):
            found.results.append(NotFound("budget", books.budget_id))
        else:
            found.results.append(_count_one(books, books.policy.limits, report, found))
    return found


def _is_ones_own(policy: BudgetPolicy, books: BudgetRows, report: Report) -> bool:
    """To an execution of another namespace the budget does not exist."""
    return (
        report.by is None or books.namespaces.get(report.by, policy.namespace) == policy.namespace
    )


def _count_one(
    books: BudgetRows, limits: Limits, report: Report, found: Counted
) -> UsageResult | EngineError:
    if report.key and (report.key in found.keys or books.keys.get(report.key, 0) > books.now_ms):
        return UsageAlreadyApplied()
    refused = _over(books, limits, report, found)
    if refused is not None:
        return refused
    result: UsageResult = UsageOk()
    for dimension, delta in report.deltas:
        grown = found.grown.get(dimension, 0) + delta
        current = books.usage.get(dimension, 0) + grown
        found.grown[dimension] = grown
        hard, soft = limits.hard_limits.get(dimension, 0), limits.soft_limits.get(dimension, 0)
        found.narrow(dimension, at_most=(hard or MAX_AMOUNT) - grown)
        if soft and isinstance(result, UsageOk):
            if current > soft:
                found.narrow(dimension, at_least=soft + 1 - grown)
                result = SoftBreach(dimension, current, soft)
            else:
                found.narrow(dimension, at_most=soft - grown)
        if report.charged is not None:
            found.charges[report.charged, dimension] = (
                found.charges.get((report.charged, dimension), 0) + delta
            )
    found.soft += isinstance(result, SoftBreach)
    if report.key:
        found.keys[report.key] = outcome_text(result)
    return result


def _over(
    books: BudgetRows, limits: Limits, report: Report, found: Counted
) -> HardBreach | EngineError | None:
    """The first dimension that has no room, or none. Which one it is depends on those before it too."""
    roomy: list[tuple[str, int]] = []
    for dimension, delta in report.deltas:
        grown = found.grown.get(dimension, 0)
        current, hard = books.usage.get(dimension, 0) + grown, limits.hard_limits.get(dimension, 0)
        most = hard or MAX_AMOUNT
        if current + delta <= most:
            roomy.append((dimension, most - delta - grown))
            continue
        found.narrow(dimension, at_least=most + 1 - delta - grown)
        for before, at_most in roomy:
            found.narrow(before, at_most=at_most)
        if not hard:
            detail = f"{dimension}: {current} and {delta} more is above {MAX_AMOUNT}"
            return ValidationError(ValidationKind.INVALID_INPUT, detail)
        found.hard += 1
        found.hard_dimension = dimension
        return HardBreach(dimension, current, hard)
    return None


def outcome_text(result: UsageResult) -> str:
    if isinstance(result, SoftBreach):
        said: dict[str, Any] = {
            "kind": "SoftBreach",
            "dimension": result.dimension,
            "current_usage": result.current_usage,
            "soft_limit": result.soft_limit,
        }
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False)
    return '{"kind":"Ok"}'


def plans(books: BudgetRows, found: Counted) -> list[Plan]:
    """In the order in which every budget operation takes its locks: keys, usage by dimension, accounts, the policy."""
    budget, now = books.budget_id, books.now_ms
    made: list[Plan] = []
    for key in sorted(found.keys):
        form = REMEMBER_USAGE_AGAIN if key in books.keys else REMEMBER_USAGE
        expires = now + USAGE_DEDUP_MS
        made.append(
            form(
                budget_id=budget,
                key=key,
                outcome=found.keys[key],
                now=now,
                expires_at_ms=expires,
            )
        )
    for dimension in sorted(found.grown):
        by = found.grown[dimension]
        if dimension not in books.usage:
            made.append(FIRST_USAGE(budget_id=budget, dimension=dimension, by=by))
        elif by:
            low, high = found.bounds[dimension]
            made.append(
                GROW_USAGE(budget_id=budget, dimension=dimension, by=by, at_least=low, at_most=high)
            )
    made.sort(key=lambda plan: _IN_ORDER[plan.form])
    charges = [
        (FIRST_CHARGE if charge not in books.charges else CHARGE)(
            partition_key=charge[0].partition_index,
            execution_id=charge[0].uuid,
            budget_id=budget,
            dimension=charge[1],
            by=by,
        )
        for charge, by in sorted(
            found.charges.items(), key=lambda item: (str(item[0][0]), item[0][1])
        )
    ]
    made += sorted(charges, key=lambda plan: plan.form is CHARGE)
    if found.soft:
        made.append(NOTE_SOFT(budget_id=budget, count=found.soft))
    if found.hard:
        made.append(note_hard(budget, found.hard, found.hard_dimension))
    return made


_IN_ORDER = {
    form: at
    for at, form in enumerate((REMEMBER_USAGE, REMEMBER_USAGE_AGAIN, GROW_USAGE, FIRST_USAGE))
}


def note_hard(budget: UUID, count: int, dimension: str, version: int | None = None) -> Plan:
    """With a version: only if the budget is as it was read."""
    if version is not None:
        return NOTE_HARD_AS_READ(
            budget_id=budget, count=count, dimension=dimension, version=version
        )
    return NOTE_HARD(budget_id=budget, count=count, dimension=dimension)


def still_refused(books: BudgetRows, found: Counted, breach: HardBreach) -> list[Plan]:
    """That there is no room as yet, where that can change: whoever makes room looks for those who wait, and must find them."""
    low, high = found.bounds[breach.dimension]
    if low <= 0 or breach.dimension not in books.usage:
        return []
    return [
        GROW_USAGE(
            budget_id=books.budget_id,
            dimension=breach.dimension,
            by=0,
            at_least=low,
            at_most=high,
        )
    ]


def spent(limits: Limits, usage: Mapping[str, int]) -> tuple[str, int, int] | None:
    """The first dimension at its hard limit: its name, what is used, the limit. Such a budget admits nobody new."""
    for dimension, hard in sorted(limits.hard_limits.items()):
        used = usage.get(dimension, 0)
        if hard and used >= hard:
            return dimension, used, hard
    return None
