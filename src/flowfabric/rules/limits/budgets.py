"""Creating budgets, and counting what is reported against them.

Reports of one budget are decided together, in the order in which they came. A plan adds to the
stored value on the condition that it lies where every one of these decisions stays the same, so
concurrent reports rarely conflict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.errors import EngineError, NotFound, bad_input
from flowfabric.ids import ExecutionId
from flowfabric.model import budget as model
from flowfabric.model.lease import HandleFields
from flowfabric.plan import Plan
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.limits import budget_forms as forms

DEFAULT_NAMESPACE = "default"


def create_budget(
    existing: model.BudgetPolicy | None, args: model.CreateBudgetArgs, now_ms: int
) -> Decision:
    """The first definition wins. A budget of another namespace is not found."""
    namespace = args.namespace or DEFAULT_NAMESPACE
    if existing is not None:
        if existing.namespace != namespace:
            return Reject(NotFound("budget", args.budget_id))
        return Return(model.BudgetAlreadySatisfied(args.budget_id))
    now = now_ms if args.now is None else args.now
    plan = forms.CREATE_BUDGET.of(
        args,
        namespace=namespace,
        policy_json=msgspec.json.encode(limits_of_args(args)).decode(),
        next_reset_at_ms=now + args.reset_interval_ms if args.reset_interval_ms else None,
        created_at_ms=now,
        updated_at_ms=now,
    )
    return Commit(plan, model.BudgetCreated(args.budget_id))


def limits_of_args(args: model.BudgetLimitsArgs) -> model.Limits:
    return model.Limits(
        dict(zip(args.dimensions, args.hard_limits, strict=True)),
        dict(zip(args.dimensions, args.soft_limits, strict=True)),
        args.reset_interval_ms,
        str(args.on_hard_limit),
        args.on_soft_limit,
    )


class Report(Struct, frozen=True):
    """Usage by dimension, sorted. `charged` has it on its account, `by` is the reporter.

    `lease` is the handle of a worker's report: a refusal has consequences only while it is held.
    """

    deltas: tuple[tuple[str, int], ...]
    key: str | None = None
    charged: ExecutionId | None = None
    by: ExecutionId | None = None
    lease: HandleFields | None = None


Charge = tuple[ExecutionId, str]


class BudgetRows(Struct, frozen=True):
    """A budget as it was read: usage, expiry by key, and the accounts of executions.

    `namespaces` are those of the reporting executions; a removed execution has none.
    """

    budget_id: UUID
    now_ms: int
    policy: model.BudgetPolicy | None
    usage: Mapping[str, int]
    keys: Mapping[str, int] = {}
    charges: Mapping[Charge, int] = {}
    namespaces: Mapping[ExecutionId, str] = {}


class UsageTally(Struct):
    """Reports that were decided in order, and their sums.

    Per dimension, `grown` is the sum, and `bounds` are the stored values for which it holds.
    """

    results: list[model.UsageResult | EngineError] = []
    keys: dict[str, str] = {}
    grown: dict[str, int] = {}
    bounds: dict[str, tuple[int, int]] = {}
    charges: dict[Charge, int] = {}
    soft: int = 0
    hard: int = 0
    hard_dimension: str = ""

    def narrow(self, dimension: str, at_least: int = 0, at_most: int = model.MAX_AMOUNT) -> None:
        low, high = self.bounds.get(dimension, (0, model.MAX_AMOUNT))
        self.bounds[dimension] = max(low, at_least), min(high, at_most)


def has_consequences(policy: model.BudgetPolicy | None, report: Report) -> bool:
    """Whether a refusal of this report suspends or fails the execution."""
    return (
        policy is not None
        and report.by is not None
        and policy.limits.on_hard_limit in model.ACTIONS
    )


def count(rows: BudgetRows, reports: Sequence[Report]) -> UsageTally:
    """Decides each report: known, over a hard limit, or applied, perhaps over a soft limit."""
    found = UsageTally()
    for report in reports:
        if rows.policy is None or not _is_of_namespace(rows.policy, rows, report):
            found.results.append(NotFound("budget", rows.budget_id))
        else:
            found.results.append(_count_one(rows, rows.policy.limits, report, found))
    return found


def _is_of_namespace(policy: model.BudgetPolicy, rows: BudgetRows, report: Report) -> bool:
    """A budget does not exist for executions of another namespace."""
    namespace = policy.namespace
    return report.by is None or rows.namespaces.get(report.by, namespace) == namespace


def _count_one(
    rows: BudgetRows, limits: model.Limits, report: Report, found: UsageTally
) -> model.UsageResult | EngineError:
    if report.key and (report.key in found.keys or rows.keys.get(report.key, 0) > rows.now_ms):
        return model.UsageAlreadyApplied()
    refused = _over(rows, limits, report, found)
    if refused is not None:
        return refused
    result: model.UsageResult = model.UsageOk()
    for dimension, delta in report.deltas:
        grown = found.grown.get(dimension, 0) + delta
        current = rows.usage.get(dimension, 0) + grown
        found.grown[dimension] = grown
        hard, soft = limits.hard_limits.get(dimension, 0), limits.soft_limits.get(dimension, 0)
        found.narrow(dimension, at_most=(hard or model.MAX_AMOUNT) - grown)
        if soft and isinstance(result, model.UsageOk):
            if current > soft:
                found.narrow(dimension, at_least=soft + 1 - grown)
                result = model.SoftBreach(dimension, current, soft)
            else:
                found.narrow(dimension, at_most=soft - grown)
        if report.charged is not None:
            charge = (report.charged, dimension)
            found.charges[charge] = found.charges.get(charge, 0) + delta
    found.soft += isinstance(result, model.SoftBreach)
    if report.key:
        found.keys[report.key] = outcome_text(result)
    return result


def _over(
    rows: BudgetRows, limits: model.Limits, report: Report, found: UsageTally
) -> model.HardBreach | EngineError | None:
    """The first dimension without room, after the growth of the dimensions before it."""
    with_room: list[tuple[str, int]] = []
    for dimension, delta in report.deltas:
        grown = found.grown.get(dimension, 0)
        current, hard = rows.usage.get(dimension, 0) + grown, limits.hard_limits.get(dimension, 0)
        most = hard or model.MAX_AMOUNT
        if current + delta <= most:
            with_room.append((dimension, most - delta - grown))
            continue
        found.narrow(dimension, at_least=most + 1 - delta - grown)
        for before, at_most in with_room:
            found.narrow(before, at_most=at_most)
        if not hard:
            detail = f"{dimension}: {current} + {delta} is above {model.MAX_AMOUNT}"
            return bad_input(detail)
        found.hard += 1
        found.hard_dimension = dimension
        return model.HardBreach(dimension, current, hard)
    return None


def outcome_text(result: model.UsageResult) -> str:
    if isinstance(result, model.SoftBreach):
        fields = {
            "kind": "SoftBreach",
            "dimension": result.dimension,
            "current_usage": result.current_usage,
            "soft_limit": result.soft_limit,
        }
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return '{"kind":"Ok"}'


def plans(rows: BudgetRows, found: UsageTally) -> list[Plan]:
    """In the lock order of every budget operation: keys, usage by dimension, accounts, policy."""
    usage = [*_keys(rows, found), *_usage(rows, found)]
    made = sorted(usage, key=lambda plan: _LOCK_ORDER[plan.form])
    made += sorted(_charges(rows, found), key=lambda plan: plan.form is forms.CHARGE)
    if found.soft:
        made.append(forms.NOTE_SOFT(budget_id=rows.budget_id, count=found.soft))
    if found.hard:
        made.append(note_hard(rows.budget_id, found.hard, found.hard_dimension))
    return made


def _keys(rows: BudgetRows, found: UsageTally) -> Iterator[Plan]:
    for key, outcome in sorted(found.keys.items()):
        form = forms.REMEMBER_USAGE_AGAIN if key in rows.keys else forms.REMEMBER_USAGE
        yield form(
            budget_id=rows.budget_id,
            key=key,
            outcome=outcome,
            now=rows.now_ms,
            expires_at_ms=rows.now_ms + model.USAGE_DEDUP_MS,
        )


def _usage(rows: BudgetRows, found: UsageTally) -> Iterator[Plan]:
    for dimension, by in sorted(found.grown.items()):
        named = {"budget_id": rows.budget_id, "dimension": dimension, "by": by}
        if dimension not in rows.usage:
            yield forms.FIRST_USAGE(**named)
        elif by:
            low, high = found.bounds[dimension]
            yield forms.GROW_USAGE(**named, at_least=low, at_most=high)


def _charges(rows: BudgetRows, found: UsageTally) -> Iterator[Plan]:
    in_order = sorted(found.charges.items(), key=lambda item: (str(item[0][0]), item[0][1]))
    for charge, by in in_order:
        execution, dimension = charge
        yield (forms.CHARGE if charge in rows.charges else forms.FIRST_CHARGE)(
            partition_key=execution.partition_index,
            execution_id=execution.uuid,
            budget_id=rows.budget_id,
            dimension=dimension,
            by=by,
        )


_LOCK_ORDER = {
    form: at
    for at, form in enumerate(
        (forms.REMEMBER_USAGE, forms.REMEMBER_USAGE_AGAIN, forms.GROW_USAGE, forms.FIRST_USAGE)
    )
}


def note_hard(budget: UUID, count: int, dimension: str, version: int | None = None) -> Plan:
    """With a version, refused if the budget has changed since."""
    values = {"budget_id": budget, "count": count, "dimension": dimension}
    return (
        forms.NOTE_HARD(**values)
        if version is None
        else forms.NOTE_HARD_AS_READ(**values, version=version)
    )


def confirm_refusal(rows: BudgetRows, found: UsageTally, breach: model.HardBreach) -> list[Plan]:
    """Plans that are refused once the dimension has room again.

    What makes room releases the executions that wait, and would miss one that begins to wait later.
    """
    low, high = found.bounds[breach.dimension]
    if low <= 0 or breach.dimension not in rows.usage:
        return []
    named = {"budget_id": rows.budget_id, "dimension": breach.dimension}
    return [forms.GROW_USAGE(**named, by=0, at_least=low, at_most=high)]


def exhausted_dimension(
    limits: model.Limits, usage: Mapping[str, int]
) -> tuple[str, int, int] | None:
    """The first dimension at its hard limit, with usage and limit. Such a budget blocks claims."""
    for dimension, hard in sorted(limits.hard_limits.items()):
        used = usage.get(dimension, 0)
        if hard and used >= hard:
            return dimension, used, hard
    return None
