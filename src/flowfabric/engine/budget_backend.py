"""The documented protocol, the part about budgets."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.budget import (
    BudgetAlreadySatisfied,
    BudgetCreated,
    BudgetReset,
    BudgetStatus,
    BudgetUnchanged,
    BudgetUpdated,
    CreateBudgetArgs,
    Reconciliation,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UpdateBudgetArgs,
    UsageAndLimits,
    UsageDimensions,
    UsageResult,
)
from flowfabric.model.lease import Handle


class BudgetBackend(Protocol):
    async def create_budget(self, args: CreateBudgetArgs) -> BudgetCreated | BudgetAlreadySatisfied:
        """Limits per dimension, and when they start anew. Creating it again changes nothing."""

    async def update_budget(self, args: UpdateBudgetArgs) -> BudgetUpdated | BudgetUnchanged:
        """Other limits for a budget that exists, from the next report and the next claim on. What has room then goes on."""

    async def report_usage(
        self, handle: Handle, budget_id: UUID, usage: UsageDimensions
    ) -> UsageResult:
        """What a worker has used, counted whether or not its lease still holds."""

    async def report_usage_admin(self, budget_id: UUID, args: ReportUsageAdminArgs) -> UsageResult:
        """As `report_usage`, by somebody who holds no lease."""

    async def record_spend(self, args: RecordSpendArgs) -> UsageResult:
        """A report on the account of one execution, which `release_budget` gives back."""

    async def release_budget(self, budget_id: UUID, execution: ExecutionId) -> None:
        """Gives back all that is on the account of this execution. Again does nothing."""

    async def reset_budget(self, budget_id: UUID, now: int | None = None) -> BudgetReset:
        """Nothing is used any more, and whoever waited for that goes on."""

    async def get_budget_status(self, budget_id: UUID) -> BudgetStatus: ...

    async def read_budget_usage_and_limits(self, budget_id: UUID) -> UsageAndLimits:
        """Empty for a budget nobody made."""

    async def read_budget_ledger(self, execution: ExecutionId) -> dict[UUID, dict[str, int]]:
        """What is on the account of an execution, by budget and dimension."""

    # ---- for loops

    async def reset_due_budgets(self, limit: int = 20) -> int:
        """Those whose time has come; how many."""

    async def release_waiters(self, budget: UUID) -> int:
        """Executions that wait for a budget that has room again can be claimed; how many."""

    async def release_overlooked(self) -> int:
        """Executions that waited when their budget was reset or changed, and were not released by that operation; how many."""

    async def forget_usage_keys(self) -> int:
        """Drops what is remembered of reports past its time; how many."""

    async def reconcile_budget_counters(self) -> Reconciliation:
        """Looks for counters that contradict each other, and tells of them; nothing is changed."""
