"""Budgets that start anew on schedule, and what no longer adds up in them."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine


class BudgetResets:
    name = "budget_reset"
    topic = "budget_resets"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.budget_reset_ms

    async def run(self, engine: Engine) -> int:
        done = 0
        while reset := await engine.reset_due_budgets():
            done += reset
        return done

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due("budget_resets")


class BudgetReconciler:
    """Counters that contradict each other are told of, for somebody to look; whoever a reset overlooked goes on."""

    name = "budget_reconciler"
    topic = "budgets"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.budget_reconciler_ms

    async def run(self, engine: Engine) -> int:
        forgotten = 0
        while some := await engine.forget_usage_keys():
            forgotten += some
        released = await engine.release_overlooked()
        return forgotten + released + (await engine.reconcile_budget_counters()).processed

    async def next_due(self, engine: Engine) -> int | None:
        return None
