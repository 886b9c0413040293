"""The loops of budgets and quotas: resets, reconcilers, and the release of blocked executions."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BaseLoop, drain, due_if_any


class QuotaReconciler(BaseLoop):
    name = topic = "quota_reconciler"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.quota_reconciler_ms)

    async def run(self, engine: Engine) -> int:
        return (await engine.reconcile_quota_counters()).processed


class LimitReleaser(BaseLoop):
    """Releases executions blocked by a limit with free capacity, if no wake-up released them."""

    name = topic = "limit_releaser"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.unblock_ms)

    async def run(self, engine: Engine) -> int:
        return await engine.release_limited(wanted=self.wanted)

    async def next_due(self, engine: Engine) -> int | None:
        return await due_if_any(engine, "limited")


class BudgetResets(BaseLoop):
    name = "budget_reset"
    topic = index = "budget_resets"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.budget_reset_ms)

    async def run(self, engine: Engine) -> int:
        return await drain(engine.reset_due_budgets)


class BudgetReconciler(BaseLoop):
    """Reports contradictory counters, and releases executions that a budget reset missed."""

    name = "budget_reconciler"
    topic = "budgets"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.budget_reconciler_ms)

    async def run(self, engine: Engine) -> int:
        forgotten = await drain(engine.forget_usage_keys)
        released = await engine.release_overlooked()
        return forgotten + released + (await engine.reconcile_budget_counters()).processed
