"""The loops of budgets and quotas: resets, reconcilers, and the release of blocked executions."""

from __future__ import annotations

from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import Loop, drain, due_if_any


class QuotaReconciler(Loop):
    name = topic = "quota_reconciler"

    async def run(self, engine: Engine) -> int:
        return (await engine.reconcile_quota_counters()).processed


class LimitReleaser(Loop):
    """Releases executions blocked by a limit with free capacity, if no wake-up released them."""

    name = topic = "limit_releaser"
    setting = "unblock_ms"
    timed = True

    async def run(self, engine: Engine) -> int:
        return await engine.release_limited(wanted=self.wanted)

    async def next_due(self, engine: Engine) -> int | None:
        return await due_if_any(engine, "limited")


class BudgetResets(Loop):
    name = "budget_reset"
    topic = index = "budget_resets"
    timed = True

    async def run(self, engine: Engine) -> int:
        return await drain(engine.reset_due_budgets)


class BudgetReconciler(Loop):
    """Reports contradictory counters, and releases executions that a budget reset missed."""

    name = "budget_reconciler"
    topic = "budgets"

    async def run(self, engine: Engine) -> int:
        forgotten = await drain(engine.forget_usage_keys)
        released = await engine.release_overlooked()
        return forgotten + released + (await engine.reconcile_budget_counters()).processed
