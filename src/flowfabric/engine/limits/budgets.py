"""Budgets: limits on what executions may use, counted as it is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.core import CORE_COLUMNS, Settings, from_core_row
from flowfabric.engine.leases.lease_check import was_granted
from flowfabric.engine.limits import budget_reads as reading
from flowfabric.engine.limits import budget_validation
from flowfabric.engine.limits.budget_reads import read_account, read_books, read_ledger, with_rest
from flowfabric.engine.limits.quota_maintenance import QuotaMaintenance
from flowfabric.engine.limits.usage_batcher import UsageBatcher, log, pause
from flowfabric.errors import EngineError, NotFound, invalid
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.budget import (
    BudgetAlreadySatisfied,
    BudgetCreated,
    BudgetReset,
    BudgetStatus,
    BudgetUnchanged,
    BudgetUpdated,
    CreateBudgetArgs,
    HardBreach,
    HardLimitAction,
    Reconciliation,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UpdateBudgetArgs,
    UsageAndLimits,
    UsageDimensions,
    UsageResult,
)
from flowfabric.model.execution import Execution
from flowfabric.model.flow import CancelFlowArgs, CancelFlowPolicy
from flowfabric.model.lease import Handle, HandleFields
from flowfabric.plan import Applied, Plan
from flowfabric.rules.claims import grants
from flowfabric.rules.decision import Commit, Decision, Snapshot
from flowfabric.rules.flows import cancels
from flowfabric.rules.limits import breach_actions, budget_changes, budget_release, budgets
from flowfabric.rules.limits.breach_actions import blocked_on_budget, blocked_on_refusal
from flowfabric.rules.limits.budgets import BudgetRows, Report, UsageTally
from flowfabric.store.port import Get, Scan, Store

MAX_WAITERS = 500
MAX_FORGOTTEN = 1_000
MAX_RESETS = 20
MAX_PAGE = 1_000


class _Found(Struct, frozen=True):
    """A budget, and the execution a decision about it concerns."""

    books: BudgetRows
    execution: Execution | None = None


class Budgets(QuotaMaintenance):
    def __init__(
        self, store: Store, settings: Settings | None = None, *, seed: int | None = None
    ) -> None:
        super().__init__(store, settings, seed=seed)
        self._meter = UsageBatcher(store, self._refused_with_consequences)

    async def create_budget(self, args: CreateBudgetArgs) -> BudgetCreated | BudgetAlreadySatisfied:
        """Limits per dimension, and when they start anew. Creating it again changes nothing."""
        new = budget_validation.new_budget(args)

        def rule(found: _Found) -> Decision:
            return budgets.create_budget(found.books.policy, new, found.books.now_ms)

        result: BudgetCreated | BudgetAlreadySatisfied = await self.settle(
            lambda: self._books(new.budget_id), rule
        )
        return result

    async def _books(self, budget: UUID) -> _Found:
        return _Found(await read_books(self.store, budget))

    async def update_budget(self, args: UpdateBudgetArgs) -> BudgetUpdated | BudgetUnchanged:
        """Other limits for a budget that exists, from the next report and the next claim on. What has room then goes on."""
        new = budget_validation.other_limits(args)

        def rule(found: _Found) -> Decision:
            return budget_changes.update_budget(found.books.policy, new, found.books.now_ms)

        result: BudgetUpdated | BudgetUnchanged = await self.settle(
            lambda: self._books(new.budget_id), rule
        )
        if isinstance(result, BudgetUpdated):
            await self.release_waiters(new.budget_id)
        return result

    # ---- reports

    async def report_usage(
        self, handle: Handle, budget_id: UUID, usage: UsageDimensions
    ) -> UsageResult:
        """What a worker has used, counted whether or not its lease still holds. A lease that was never granted is refused."""
        lease = self.fields(handle)
        amounts, budget = budget_validation.used(usage), budget_validation.budget_id(budget_id)
        report = budget_validation.report(
            amounts, usage.dedup_key, "dedup_key", by=lease.execution_id, lease=lease
        )
        if self.facts(handle) is None:
            await was_granted(self.store, lease)
        return await self._meter.report(budget, report)

    async def report_usage_admin(self, budget_id: UUID, args: ReportUsageAdminArgs) -> UsageResult:
        """As `report_usage`, by somebody who holds no lease. The store's clock counts."""
        if not isinstance(args, ReportUsageAdminArgs):
            raise invalid("args", "ReportUsageAdminArgs", type(args).__name__)
        validation.optional_timestamp(args.now, "now")
        report = budget_validation.report(
            budget_validation.summed(args.dimensions, args.deltas), args.dedup_key, "dedup_key"
        )
        return await self._meter.report(budget_validation.budget_id(budget_id), report)

    async def record_spend(self, args: RecordSpendArgs) -> UsageResult:
        """A report on the account of one execution, which `release_budget` gives back."""
        if not isinstance(args, RecordSpendArgs):
            raise invalid("args", "RecordSpendArgs", type(args).__name__)
        who = execution_id(args.execution_id)
        amounts = budget_validation.spend(args.deltas)
        report = budget_validation.report(
            amounts, args.idempotency_key, "idempotency_key", by=who, charged=who
        )
        return await self._meter.report(budget_validation.budget_id(args.budget_id), report)

    async def _refused_with_consequences(self, budget: UUID, report: Report) -> UsageResult:
        """The refusal is noted and acted upon in one transaction; or there is room after all."""
        tries = 0
        while True:
            found = await self._breached(budget, report)
            counted = budgets.count(found.books, [report])
            (result,) = counted.results
            if isinstance(result, EngineError):
                raise result
            if not isinstance(result, HardBreach):
                plans = budgets.plans(found.books, counted)
                if not plans or isinstance(await self.store.commit_together(plans), Applied):
                    return result
            else:
                acted = await self._consequence(found, counted, result, report.lease)
                if acted is not None:
                    return acted
            tries += 1
            await pause(tries)

    async def _breached(self, budget: UUID, report: Report) -> _Found:
        assert report.by is not None
        key = (report.by.partition_index, report.by.uuid)
        rows = (await self.store.load((Get("ff_exec_core", key, CORE_COLUMNS),))).rows[0]
        return _Found(
            await read_books(self.store, budget, [report]), from_core_row(rows[0]) if rows else None
        )

    async def _consequence(
        self, found: _Found, counted: UsageTally, breach: HardBreach, lease: HandleFields | None
    ) -> HardBreach | None:
        """None when the world moved."""
        books, execution = found.books, found.execution
        assert books.policy is not None
        action = books.policy.limits.on_hard_limit
        noted = budgets.note_hard(books.budget_id, 1, breach.dimension)
        may = lease is None or breach_actions.lease_is_held(execution, lease, books.now_ms)
        if (
            may
            and action == HardLimitAction.CANCEL_FLOW_PENDING
            and execution is not None
            and execution.flow_id is not None
        ):
            over = not await self._cancel_pending(execution, books.budget_id, noted, lease)
            return breach if over else _acted(breach, action)
        plan = breach_actions.breach_plan(
            execution, action, books.budget_id, breach, books.now_ms, lease
        )
        if plan is None:
            return breach if isinstance(await self.store.commit(noted), Applied) else None
        as_read = budgets.note_hard(books.budget_id, 1, breach.dimension, books.policy.version)
        plans = [*budgets.confirm_refusal(books, counted, breach), plan, as_read]
        if not isinstance(await self.store.commit_together(plans), Applied):
            return None
        assert execution is not None
        self._forget_facts(execution.id)
        if plan.form.ends:
            await self._cascade.ended((execution.id,))
        return _acted(breach, action)

    async def _cancel_pending(
        self, by: Execution, budget: UUID, noted: Plan, lease: HandleFields | None
    ) -> bool:
        """The members that have not begun, with the note of the refusal; False where flow or lease is over: that is noted."""
        flow, policy = by.flow_id, CancelFlowPolicy.CANCEL_PENDING
        assert flow is not None
        args = CancelFlowArgs(
            flow_id=flow, reason=f"budget_exceeded:{budget}", cancellation_policy=policy
        )
        held = () if lease is None else (breach_actions.hold_lease(by, lease),)

        def rule(around: cancels.CancelSnapshot) -> cancels.FlowCancel | None:
            now = next((member for member in around.members if member.id == by.id), None)
            if lease is not None and not breach_actions.lease_is_held(now, lease, around.now_ms):
                return None
            cancel = cancels.cancel_flow_header(around, args)
            return cancel and cancels.with_plans(cancel, *held, noted)

        async with self._turns.of(flow):
            ended = await self._cancel(flow, rule, policy)
        if ended is None:
            await self.store.commit(noted)
        elif ended[0]:
            await self._cascade.ended(ended[0])
        return ended is not None

    # ---- giving back and starting anew

    async def release_budget(self, budget_id: UUID, execution: ExecutionId) -> None:
        """Gives back all that `record_spend` put on the account of this execution. Again does nothing."""
        budget, who = budget_validation.budget_id(budget_id), execution_id(execution)
        tries = 0
        while True:
            books = await read_account(self.store, budget, who)
            plans = budget_release.release(books, who)
            if not plans:
                return
            if isinstance(await self.store.commit_together(plans), Applied):
                break
            tries += 1
            await pause(tries)
        await self.release_waiters(budget)

    async def reset_budget(self, budget_id: UUID, now: int | None = None) -> BudgetReset:
        """Nothing is used any more, and whoever waited for that goes on."""
        budget = budget_validation.budget_id(budget_id)
        validation.optional_timestamp(now, "now")
        result: BudgetReset = await self.settle(
            lambda: self._books(budget), lambda found: budget_release.reset(found.books, now)
        )
        await self.release_waiters(budget)
        return result

    async def reset_due_budgets(self, limit: int = MAX_RESETS) -> int:
        """Those whose time has come; how many."""
        now, size = await self.store.now_ms(), validation.limit(limit, MAX_RESETS)
        rows = (
            await self.store.load(
                (Scan("budget_resets", upto=now, limit=size, columns=("budget_id",)),)
            )
        ).rows[0]
        done = 0
        for (budget,) in rows:
            try:
                done += await self._reset_if_due(budget)
            except EngineError:
                log.exception("the reset of budget %s has to wait", budget)
        return done

    async def _reset_if_due(self, budget: UUID) -> bool:
        def rule(found: _Found) -> Decision:
            return budget_release.reset(found.books, None, only_due=True)

        if await self.settle(lambda: self._books(budget), rule) is None:
            return False
        await self.release_waiters(budget)
        return True

    async def release_waiters(self, budget: UUID) -> int:
        """Executions that wait for a budget that has room again can be claimed; how many."""
        ident = budget_validation.budget_id(budget)
        books = await read_books(self.store, ident)
        if (
            books.policy is not None
            and budgets.exhausted_dimension(books.policy.limits, books.usage) is not None
        ):
            return 0
        done = 0
        while True:
            loaded = await self.store.load(_waiters(ident))
            freed = await self._unblock(
                [from_core_row(row) for rows in loaded.rows for row in rows], loaded.now_ms
            )
            done += freed
            if not freed:
                return done

    async def release_overlooked(self) -> int:
        """Executions that waited when their budget was reset or changed, and were not released by that operation; how many."""
        done = 0
        async for budget in self._every_budget():
            resets = Scan(
                "usage_of",
                {"budget_id": budget},
                limit=reading.MAX_ROWS,
                columns=("last_reset_at_ms",),
            )
            loaded = await self.store.load((*_waiters(budget), resets))
            waiting = [from_core_row(row) for rows in loaded.rows[:-1] for row in rows]
            if not waiting:
                continue
            reset_at = max((at for (at,) in loaded.rows[-1] if at is not None), default=-1)
            changed_at = await self._room_since(budget)
            overlooked = [
                who for who in waiting if who.last_transition_at <= max(reset_at, changed_at)
            ]
            done += await self._unblock(overlooked, loaded.now_ms)
        return done

    async def _room_since(self, budget: UUID) -> int:
        """When the limits were changed, if there is room under them; -1 otherwise."""
        books = await read_books(self.store, budget)
        policy = books.policy
        if (
            policy is None
            or policy.changed_at_ms is None
            or budgets.exhausted_dimension(policy.limits, books.usage) is not None
        ):
            return -1
        return policy.changed_at_ms

    async def _unblock(self, waiting: Sequence[Execution], now: int) -> int:
        decided = [
            grants.unblock(Snapshot(now, execution), "waiting_for_budget", now)
            for execution in waiting
        ]
        plans = [decision.plan for decision in decided if isinstance(decision, Commit)]
        return (
            sum(isinstance(a, Applied) for a in await self.store.commit_many(plans)) if plans else 0
        )

    async def forget_usage_keys(self) -> int:
        """Drops what is remembered of reports past its time; how many."""
        now = await self.store.now_ms()
        columns = ("budget_id", "dedup_key")
        rows = (
            await self.store.load(
                (Scan("usage_dedup_expiry", upto=now, limit=MAX_FORGOTTEN, columns=columns),)
            )
        ).rows[0]
        plans = [budget_release.forget_key(budget, key, now) for budget, key in rows]
        return (
            sum(isinstance(a, Applied) for a in await self.store.commit_many(plans)) if plans else 0
        )

    async def reconcile_budget_counters(self) -> Reconciliation:
        """Looks for counters that contradict each other, and tells of them; nothing is changed."""
        wrong = 0
        async for budget in self._every_budget():
            wrong += await self._contradicts(budget)
        return Reconciliation(wrong)

    async def _every_budget(self) -> AsyncIterator[UUID]:
        after = None
        while True:
            page = (
                await self.store.load(
                    (Scan("budgets", {}, after, limit=MAX_PAGE, columns=("budget_id",)),)
                )
            ).rows[0]
            for (budget,) in page:
                yield budget
            if len(page) < MAX_PAGE:
                return
            after = (page[-1][0],)

    async def _contradicts(self, budget: UUID) -> bool:
        """What does not add up in two looks: many rows are not read at one moment."""
        if not await self._contradictions(budget):
            return False
        found = await self._contradictions(budget)
        for name, used, on_accounts in found:
            log.error(
                "budget %s: %s is %d in all and %d on accounts", budget, name, used, on_accounts
            )
        return bool(found)

    async def _contradictions(self, budget: UUID) -> list[tuple[str, int, int]]:
        group, most = {"budget_id": budget}, reading.MAX_ROWS
        ledger = Scan(
            "ledger_of_budget",
            group,
            limit=most,
            columns=("partition_key", "execution_id", "dimensions_key", "delta_total"),
        )
        usage = Scan("usage_of", group, limit=most, columns=("dimensions_key", "current_value"))
        some = (await self.store.load((ledger, usage))).rows
        charged = Counter[str]()
        for _, _, name, total in await with_rest(self.store, ledger, some[0], lambda row: row[:3]):
            charged[name] += total
        used = await with_rest(self.store, usage, some[1], lambda row: row[:1])
        return budget_release.contradictions(dict(used), charged)

    # ---- reads

    async def get_budget_status(self, budget_id: UUID) -> BudgetStatus:
        budget = budget_validation.budget_id(budget_id)
        books = await read_books(self.store, budget)
        policy = books.policy
        if policy is None:
            raise NotFound("budget", budget)
        return BudgetStatus(
            str(budget),
            policy.scope_type,
            policy.scope_id,
            policy.enforcement_mode,
            {name: max(used, 0) for name, used in books.usage.items()},
            policy.limits.hard_limits,
            policy.limits.soft_limits,
            policy.breach_count,
            policy.soft_breach_count,
            _text(policy.last_breach_at_ms),
            policy.last_breach_dim,
            _text(policy.next_reset_at_ms),
            str(policy.created_at_ms),
        )

    async def read_budget_usage_and_limits(self, budget_id: UUID) -> UsageAndLimits:
        """Empty for a budget nobody made."""
        books = await read_books(self.store, budget_validation.budget_id(budget_id))
        if books.policy is None:
            return UsageAndLimits({}, {})
        said = books.policy.limits
        limits = {f"hard:{name}": str(limit) for name, limit in said.hard_limits.items()}
        limits |= {f"soft:{name}": str(limit) for name, limit in said.soft_limits.items()}
        return UsageAndLimits(
            limits, {name: max(books.usage.get(name, 0), 0) for name in said.hard_limits}
        )

    async def read_budget_ledger(self, execution: ExecutionId) -> dict[UUID, dict[str, int]]:
        """What is on the account of an execution, by budget and dimension."""
        who = execution_id(execution)
        found: dict[UUID, dict[str, int]] = {}
        for budget, name, total in await read_ledger(self.store, who):
            found.setdefault(budget, {})[name] = total
        return found


def _waiters(budget: UUID) -> tuple[Scan, ...]:
    """Those held back at a claim, and those held because of their report."""
    groups = (blocked_on_budget(budget), blocked_on_refusal(budget))
    return tuple(
        Scan("blocked_on", {"blocked_on": group}, limit=MAX_WAITERS, columns=CORE_COLUMNS)
        for group in groups
    )


def _acted(breach: HardBreach, action: str) -> HardBreach:
    return HardBreach(breach.dimension, breach.current_usage, breach.hard_limit, action)


def _text(ms: int | None) -> str | None:
    return None if ms is None else str(ms)
