"""Budgets: limits on usage, usage reports, and the consequences of a refused report."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from itertools import count
from uuid import UUID

from msgspec import structs

from flowfabric.engine import retry, validation
from flowfabric.engine.batcher import Batcher
from flowfabric.engine.core import Core
from flowfabric.engine.flows.cancels import FlowCancels
from flowfabric.engine.leases.facts import LeaseCache, check_granted
from flowfabric.engine.limits import budget_validation
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.engine.limits.budget_reads import load_budget, load_for_reports, load_ledger
from flowfabric.engine.limits.limit_page import limit_page
from flowfabric.errors import EngineError, NotFound
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model import budget as model
from flowfabric.model.execution import Execution, Page
from flowfabric.model.flow import CancelFlowArgs, CancelFlowPolicy
from flowfabric.model.lease import Handle, HandleFields
from flowfabric.plan import Applied, Plan
from flowfabric.rules.decision import Decision
from flowfabric.rules.flows import cancels
from flowfabric.rules.limits import breach_actions, budget_changes, budgets
from flowfabric.rules.limits.budgets import BudgetRows, Report, UsageTally

log = logging.getLogger("flowfabric.budgets")

MAX_REPORTS = 256
WARN_EVERY_S = 60.0
MAX_WARNED = 1_000


class Budgets:
    def __init__(
        self, core: Core, leases: LeaseCache, cancels: FlowCancels, maintenance: BudgetMaintenance
    ) -> None:
        self._core, self._store, self._leases = core, core.store, leases
        self._cancels, self._maintenance = cancels, maintenance
        self.batcher: Batcher[UUID, Report, model.UsageResult] = Batcher(
            self._count, MAX_REPORTS, keeps_cancelled=True
        )
        self.warned: dict[UUID, float] = {}

    async def create_budget(
        self, args: model.CreateBudgetArgs
    ) -> model.BudgetCreated | model.BudgetAlreadySatisfied:
        """Creates a budget with limits per dimension. A budget that exists is not changed."""
        new = budget_validation.new_budget(args)

        def rule(rows: BudgetRows) -> Decision:
            return budgets.create_budget(rows.policy, new, rows.now_ms)

        return await self._core.run(lambda: load_budget(self._store, new.budget_id), rule)

    async def update_budget(
        self, args: model.UpdateBudgetArgs
    ) -> model.BudgetUpdated | model.BudgetUnchanged:
        """Replaces the limits of a budget. They hold from the next report and the next claim on.

        Executions that the new limits no longer block are released.
        """
        new = budget_validation.other_limits(args)

        def rule(rows: BudgetRows) -> Decision:
            return budget_changes.update_budget(rows.policy, new, rows.now_ms)

        result: model.BudgetUpdated | model.BudgetUnchanged = await self._core.run(
            lambda: load_budget(self._store, new.budget_id), rule
        )
        if isinstance(result, model.BudgetUpdated):
            await self._maintenance.release_waiters(new.budget_id)
        return result

    # ---- reports

    async def report_usage(
        self, handle: Handle, budget_id: UUID, usage: model.UsageDimensions
    ) -> model.UsageResult:
        """Counts what a worker has used. The lease may have expired, but it was granted once."""
        lease = self._leases.fields(handle)
        amounts, budget = budget_validation.used(usage), budget_validation.budget_id(budget_id)
        report = budget_validation.report(
            amounts, usage.dedup_key, "dedup_key", by=lease.execution_id, lease=lease
        )
        if self._leases.facts(handle) is None:
            await check_granted(self._store, lease)
        return await self.batcher.submit(budget, report)

    async def report_usage_admin(
        self, budget_id: UUID, args: model.ReportUsageAdminArgs
    ) -> model.UsageResult:
        """As `report_usage`, without a lease. The clock of the store counts, not `now`."""
        validation.instance(args, model.ReportUsageAdminArgs)
        validation.optional_timestamp(args.now, "now")
        report = budget_validation.report(
            budget_validation.summed(args.dimensions, args.deltas), args.dedup_key, "dedup_key"
        )
        return await self.batcher.submit(budget_validation.budget_id(budget_id), report)

    async def record_spend(self, args: model.RecordSpendArgs) -> model.UsageResult:
        """Counts usage on the ledger of an execution. `release_budget` gives it back."""
        validation.instance(args, model.RecordSpendArgs)
        who = execution_id(args.execution_id)
        amounts = budget_validation.spend(args.deltas)
        report = budget_validation.report(
            amounts, args.idempotency_key, "idempotency_key", by=who, charged=who
        )
        return await self.batcher.submit(budget_validation.budget_id(args.budget_id), report)

    async def _count(
        self, budget: UUID, reports: list[Report]
    ) -> Sequence[model.UsageResult | EngineError]:
        """Counts reports in order; one with consequences is counted alone, after those before."""
        for tries in count(1):
            rows = await load_for_reports(self._store, budget, reports)
            counted = budgets.count(rows, reports)
            alone = _first_with_consequences(rows, reports, counted.results)
            if alone == 0:
                return [self._noted(budget, await self._count_alone(budget, reports[0]))]
            if alone:
                counted = budgets.count(rows, reports[:alone])
            plans = budgets.plans(rows, counted)
            if not plans or isinstance(await self._store.commit_together(plans), Applied):
                return [self._noted(budget, result) for result in counted.results]
            await retry.pause(retry.CONTENDED, tries)
        raise AssertionError("the last pause raises")

    async def _count_alone(self, budget: UUID, report: Report) -> model.UsageResult | EngineError:
        try:
            return await self._report_with_consequences(budget, report)
        except EngineError as error:
            return error

    def _noted(
        self, budget: UUID, result: model.UsageResult | EngineError
    ) -> model.UsageResult | EngineError:
        if isinstance(result, model.HardBreach):
            self._core.telemetry.listener.budget_hit(result.dimension)
            self._warn(budget, result)
        return result

    def _warn(self, budget: UUID, breach: model.HardBreach) -> None:
        """Once a minute and budget."""
        now = time.monotonic()
        if now - self.warned.get(budget, -math.inf) < WARN_EVERY_S:
            return
        if len(self.warned) >= MAX_WARNED:
            self.warned = {
                known: at for known, at in self.warned.items() if now - at < WARN_EVERY_S
            }
        self.warned[budget] = now
        log.warning(
            "usage report refused: the budget has no room",
            extra={
                "budget": str(budget),
                "dimension": breach.dimension,
                "used": breach.current_usage,
                "limit": breach.hard_limit,
            },
        )

    async def _report_with_consequences(self, budget: UUID, report: Report) -> model.UsageResult:
        """Counts one report. A breach and its consequence are one transaction."""
        assert report.by is not None
        for tries in count(1):
            execution = (await self._core.snapshots.load(report.by)).execution
            rows = await load_for_reports(self._store, budget, [report])
            counted = budgets.count(rows, [report])
            (result,) = counted.results
            if isinstance(result, EngineError):
                raise result
            if not isinstance(result, model.HardBreach):
                plans = budgets.plans(rows, counted)
                if not plans or isinstance(await self._store.commit_together(plans), Applied):
                    return result
            else:
                acted = await self._act(rows, execution, counted, result, report.lease)
                if acted is not None:
                    return acted
            await retry.pause(retry.CONTENDED, tries)
        raise AssertionError("the last pause raises")

    async def _act(
        self,
        rows: BudgetRows,
        execution: Execution | None,
        counted: UsageTally,
        breach: model.HardBreach,
        lease: HandleFields | None,
    ) -> model.HardBreach | None:
        """Commits the consequence of a breach. None when the rows changed meanwhile."""
        assert rows.policy is not None
        action = rows.policy.limits.on_hard_limit
        acted = structs.replace(breach, action=action)
        noted = budgets.note_hard(rows.budget_id, 1, breach.dimension)
        is_held = lease is None or breach_actions.lease_is_held(execution, lease, rows.now_ms)
        cancels_flow = action == model.HardLimitAction.CANCEL_FLOW_PENDING and is_held
        if cancels_flow and execution is not None and execution.flow_id is not None:
            cancelled = await self._cancel_pending(execution, rows.budget_id, noted, lease)
            return acted if cancelled else breach
        plan = breach_actions.breach_plan(
            execution, action, rows.budget_id, breach, rows.now_ms, lease
        )
        if plan is None:
            return breach if isinstance(await self._store.commit(noted), Applied) else None
        as_read = budgets.note_hard(rows.budget_id, 1, breach.dimension, rows.policy.version)
        plans = [*budgets.confirm_refusal(rows, counted, breach), plan, as_read]
        if not isinstance(await self._core.commit_together(plans), Applied):
            return None
        assert execution is not None
        self._leases.forget_execution(execution.id)
        return acted

    async def _cancel_pending(
        self, by: Execution, budget: UUID, noted: Plan, lease: HandleFields | None
    ) -> bool:
        """Cancels the members that have not started and notes the breach, in one transaction.

        Only notes the breach, and returns False, when the flow has ended or the lease is lost.
        """
        flow, policy = by.flow_id, CancelFlowPolicy.CANCEL_PENDING
        assert flow is not None
        args = CancelFlowArgs(
            flow_id=flow, reason=f"budget_exceeded:{budget}", cancellation_policy=policy
        )
        held = () if lease is None else (breach_actions.hold_lease(lease),)

        def rule(snapshot: cancels.CancelSnapshot) -> cancels.FlowCancel | None:
            member = next((member for member in snapshot.members if member.id == by.id), None)
            if lease is not None and not breach_actions.lease_is_held(
                member, lease, snapshot.now_ms
            ):
                return None
            cancel = cancels.cancel_flow_header(snapshot, args)
            return cancel and cancels.with_plans(cancel, *held, noted)

        async with self._core.locks.of(flow):
            ended = await self._cancels.cancel_by_rule(flow, rule, policy, by.id)
        if ended is None:
            await self._store.commit(noted)
        return ended is not None

    # ---- reads

    async def get_budget_status(self, budget_id: UUID) -> model.BudgetStatus:
        budget = budget_validation.budget_id(budget_id)
        rows = await load_budget(self._store, budget)
        policy = rows.policy
        if policy is None:
            raise NotFound("budget", budget)
        return model.BudgetStatus(
            str(budget),
            policy.scope_type,
            policy.scope_id,
            policy.enforcement_mode,
            {name: max(used, 0) for name, used in rows.usage.items()},
            policy.limits.hard_limits,
            policy.limits.soft_limits,
            policy.breach_count,
            policy.soft_breach_count,
            _optional_text(policy.last_breach_at_ms),
            policy.last_breach_dim,
            _optional_text(policy.next_reset_at_ms),
            str(policy.created_at_ms),
        )

    async def list_budgets(
        self, namespace: str | None = None, cursor: UUID | None = None, limit: int = 100
    ) -> Page[UUID]:
        """The ids of budgets in order, behind the cursor. `get_budget_status` reads one."""
        return await limit_page(self._store, "budgets", namespace, cursor, limit)

    async def read_budget_usage_and_limits(self, budget_id: UUID) -> model.UsageAndLimits:
        """Empty for a budget that does not exist."""
        rows = await load_budget(self._store, budget_validation.budget_id(budget_id))
        if rows.policy is None:
            return model.UsageAndLimits({}, {})
        stored = rows.policy.limits
        limits = {f"hard:{name}": str(limit) for name, limit in stored.hard_limits.items()}
        limits |= {f"soft:{name}": str(limit) for name, limit in stored.soft_limits.items()}
        used = {name: max(rows.usage.get(name, 0), 0) for name in stored.hard_limits}
        return model.UsageAndLimits(limits, used)

    async def read_budget_ledger(self, execution: ExecutionId) -> dict[UUID, dict[str, int]]:
        """The ledger of an execution, by budget and dimension."""
        found: dict[UUID, dict[str, int]] = {}
        for entry in await load_ledger(self._store, execution_id(execution)):
            found.setdefault(entry.budget_id, {})[entry.dimensions_key] = entry.delta_total
        return found


def _optional_text(ms: int | None) -> str | None:
    return None if ms is None else str(ms)


def _first_with_consequences(
    rows: BudgetRows, reports: Sequence[Report], results: Sequence[model.UsageResult | EngineError]
) -> int | None:
    for position, (report, result) in enumerate(zip(reports, results, strict=True)):
        if isinstance(result, model.HardBreach) and budgets.has_consequences(rows.policy, report):
            return position
    return None
