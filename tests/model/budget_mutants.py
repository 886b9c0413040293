"""Planted bugs of budgets, for the machine of budgets to notice."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from flowfabric.engine.limits import budget_reads as engine_reads
from flowfabric.engine.limits import budgets as engine_budgets
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.engine.limits.budgets import Budgets
from flowfabric.model import budget as model
from flowfabric.model.budget import BudgetPolicy, BudgetUnchanged, HardBreach
from flowfabric.plan import Add
from flowfabric.rules.claims import grants
from flowfabric.rules.decision import Return
from flowfabric.rules.limits import (
    breach_actions,
    budget_changes,
    budget_forms,
    budget_release,
    budgets,
)

from .mutants import Patch, Plant, put, with_set, without_set, without_steps

BUDGET_MUTANTS: dict[str, Plant] = {}


def mutant(plant: Plant) -> Plant:
    BUDGET_MUTANTS[plant.__name__] = plant
    return plant


def around_one(patch: Patch, change: Any) -> None:
    """Each report is counted correctly, then falsified."""
    honest = budgets._count_one

    def count_one(books: Any, limits: Any, report: Any, found: Any) -> Any:
        result = honest(books, limits, report, found)
        change(report, found, result)
        return result

    patch.setattr(budgets, "_count_one", count_one)


@mutant
def on_the_limit_is_above_it(patch: Patch) -> None:
    honest = budgets._over

    def over(books: Any, limits: Any, report: Any, found: Any) -> Any:
        less = structs.replace(
            limits,
            hard_limits={n: max(h - 1, 1) if h else 0 for n, h in limits.hard_limits.items()},
        )
        result = honest(books, less, report, found)
        if isinstance(result, HardBreach):
            return structs.replace(result, hard_limit=limits.hard_limits[result.dimension])
        return result

    patch.setattr(budgets, "_over", over)


@mutant
def refused_report_uses_up_its_key(patch: Patch) -> None:
    def change(report: Any, found: Any, result: Any) -> None:
        if isinstance(result, HardBreach) and report.key:
            found.keys[report.key] = "{}"

    around_one(patch, change)


@mutant
def other_dimensions_of_a_refused_report_count(patch: Patch) -> None:
    def change(report: Any, found: Any, result: Any) -> None:
        if isinstance(result, HardBreach):
            for name, delta in report.deltas:
                if name > result.dimension:
                    found.grown[name] = found.grown.get(name, 0) + delta
                    found.narrow(name)

    around_one(patch, change)


@mutant
def spending_not_charged(patch: Patch) -> None:
    around_one(patch, lambda report, found, result: found.charges.clear())


@mutant
def same_key_counts_twice_in_a_batch(patch: Patch) -> None:
    honest = budgets.count

    def count(books: Any, reports: Any) -> Any:
        again = [
            structs.replace(r, key=None) if r.key in {p.key for p in reports[:at]} else r
            for at, r in enumerate(reports)
        ]
        return honest(books, again)

    patch.setattr(budgets, "count", count)


@mutant
def soft_breach_not_counted(patch: Patch) -> None:
    put(patch, budget_forms, "NOTE_SOFT", lambda f: with_set(f, soft_breach_count=Add(0)))


@mutant
def refusal_not_stamped(patch: Patch) -> None:
    put(patch, budget_forms, "NOTE_HARD", lambda f: with_set(f, last_breach_at_ms=None))


@mutant
def keys_live_for_two_days(patch: Patch) -> None:
    patch.setattr(model, "USAGE_DEDUP_MS", 2 * model.USAGE_DEDUP_MS)


@mutant
def release_leaves_the_account(patch: Patch) -> None:
    honest = budget_release.release

    def release(books: Any, who: Any) -> Any:
        return [
            plan for plan in honest(books, who) if plan.form is not budget_release.CLOSE_ACCOUNT
        ]

    patch.setattr(budget_release, "release", release)


@mutant
def release_below_nothing_after_a_reset(patch: Patch) -> None:
    put(
        patch, budget_release, "RESET_BUDGET", lambda f: without_steps(f, "ff_budget_usage_by_exec")
    )
    put(patch, budget_release, "RELEASE_ALL", lambda f: with_set(f, current_value=-1))


@mutant
def reset_keeps_the_ledger(patch: Patch) -> None:
    put(
        patch, budget_release, "RESET_BUDGET", lambda f: without_steps(f, "ff_budget_usage_by_exec")
    )


@mutant
def reset_keeps_the_usage(patch: Patch) -> None:
    put(patch, budget_release, "ZERO_USAGE", lambda f: with_set(f, current_value=Add(0)))


@mutant
def scheduled_reset_drifts(patch: Patch) -> None:
    honest = budget_release.reset

    def reset(books: Any, now_ms: Any, *, only_due: bool = False) -> Any:
        due = (
            books.policy is not None
            and (books.policy.next_reset_at_ms or books.now_ms + 1) <= books.now_ms
        )
        return honest(books, now_ms, only_due=only_due and not due)

    patch.setattr(budget_release, "reset", reset)


@mutant
def hold_does_not_raise_the_epoch(patch: Patch) -> None:
    put(patch, breach_actions, "HOLD_RUNNING", lambda f: with_set(f, lease_epoch=Add(0)))


@mutant
def late_report_acts(patch: Patch) -> None:
    honest = breach_actions.breach_plan
    patch.setattr(breach_actions, "breach_plan", lambda *said: honest(*said[:5], None))


@mutant
def forged_report_counts(patch: Patch) -> None:
    async def check_granted(*_: Any) -> None:
        pass

    patch.setattr(engine_budgets, "check_granted", check_granted)


@mutant
def consequence_not_told(patch: Patch) -> None:
    put(patch, breach_actions, "HOLD_READY", lambda f: without_steps(f, "ff_operator_event"))


@mutant
def refusal_with_consequences_not_noted(patch: Patch) -> None:
    honest = budgets.note_hard
    patch.setattr(
        budgets,
        "note_hard",
        lambda budget, count, dimension, version=None: honest(budget, 0, dimension, version),
    )


@mutant
def waiters_stay_after_a_reset(patch: Patch) -> None:
    async def release_waiters(*_: Any) -> int:
        return 0

    patch.setattr(BudgetMaintenance, "release_waiters", release_waiters)


@mutant
def old_waits_are_not_forgotten(patch: Patch) -> None:
    put(patch, grants, "UNBLOCK", lambda f: without_set(f, "blocked_on"))
    put(
        patch,
        grants,
        "BLOCK",
        lambda forms: {reason: without_set(form, "blocked_on") for reason, form in forms.items()},
    )


@mutant
def other_limits_let_nobody_go(patch: Patch) -> None:
    async def update_budget(self: Budgets, args: Any) -> Any:
        def rule(rows: Any) -> Any:
            return budget_changes.update_budget(rows.policy, args, rows.now_ms)

        return await self._core.run(
            lambda: engine_reads.load_budget(self._store, args.budget_id), rule
        )

    patch.setattr(Budgets, "update_budget", update_budget)


@mutant
def lowered_limits_are_not_kept(patch: Patch) -> None:
    honest = budget_changes.update_budget

    def update_budget(policy: Any, args: Any, now_ms: int) -> Any:
        lower = policy is not None and any(
            limit < policy.limits.hard_limits.get(name, 0)
            for name, limit in zip(args.dimensions, args.hard_limits, strict=True)
        )
        return Return(BudgetUnchanged(args.budget_id)) if lower else honest(policy, args, now_ms)

    patch.setattr(budget_changes, "update_budget", update_budget)


@mutant
def what_was_allowed_before_is_forgotten(patch: Patch) -> None:
    patch.setattr(budget_changes, "former_limits", lambda stored, new: {})


@mutant
def an_unknown_budget_counts(patch: Patch) -> None:
    honest = engine_reads.load_for_reports

    async def load_for_reports(*said: Any) -> Any:
        books = await honest(*said)
        made_up = BudgetPolicy(
            books.budget_id, 0, "default", "{}", "", "", "", 0, 0, None, None, None, None, 0, 0, 0
        )
        return books if books.policy is not None else structs.replace(books, policy=made_up)

    patch.setattr(engine_budgets, "load_for_reports", load_for_reports)
