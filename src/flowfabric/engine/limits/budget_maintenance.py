"""Budgets over time: releases, resets, waiting executions, and checks of the counters."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import retry, validation
from flowfabric.engine.core import Core
from flowfabric.engine.limits import budget_reads, budget_validation
from flowfabric.engine.limits.budget_reads import (
    LEDGER_COLUMNS,
    LedgerEntry,
    Usage,
    load_budget,
    load_charges,
    usage_scan,
    with_rest,
)
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row, load_rows, pages
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.budget import BudgetReset, Reconciliation
from flowfabric.model.execution import Execution
from flowfabric.rules.claims import grants
from flowfabric.rules.decision import Commit, Decided, Decision, Return, Snapshot
from flowfabric.rules.limits import budget_release, budgets
from flowfabric.rules.limits.breach_actions import blocked_on_budget, blocked_on_refusal
from flowfabric.rules.limits.budgets import BudgetRows
from flowfabric.store.port import Row, Scan

log = logging.getLogger("flowfabric.budgets")

MAX_WAITERS = 500
MAX_FORGOTTEN = 1_000
MAX_RESETS = 20
MAX_PAGE = 1_000


class _Budget(Struct, frozen=True):
    budget_id: UUID


class BudgetMaintenance:
    """Releases and resets budgets, and unblocks the executions that wait for them."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def release_budget(self, budget_id: UUID, execution: ExecutionId) -> None:
        """Gives back what `record_spend` charged to an execution. A second call changes nothing."""
        budget, who = budget_validation.budget_id(budget_id), execution_id(execution)

        def rule(rows: BudgetRows) -> Decided[bool]:
            plans = budget_release.release(rows, who)
            return Commit(plans[-1], True, tuple(plans[:-1])) if plans else Return(False)

        def load() -> Awaitable[BudgetRows]:
            return load_charges(self._store, budget, who)

        if await self._core.run(load, rule, retry.CONTENDED):
            await self.release_waiters(budget)

    async def reset_budget(self, budget_id: UUID, now: int | None = None) -> BudgetReset:
        """Sets the usage to zero and releases the executions that wait for the budget."""
        budget = budget_validation.budget_id(budget_id)
        validation.optional_timestamp(now, "now")
        result: BudgetReset = await self._core.run(
            lambda: load_budget(self._store, budget), lambda rows: budget_release.reset(rows, now)
        )
        await self.release_waiters(budget)
        return result

    async def reset_due_budgets(self, limit: int = MAX_RESETS) -> int:
        """Resets the budgets whose interval has passed. Returns their number."""
        now, size = await self._store.now_ms(), validation.limit(limit, MAX_RESETS)
        done = 0
        due = Scan("budget_resets", upto=now, limit=size, columns=("budget_id",))
        for (budget,) in await load_rows(self._store, due):
            try:
                done += await self._reset_if_due(budget)
            except EngineError:
                log.exception(
                    "budget could not be reset; the next pass tries again",
                    extra={"budget": str(budget)},
                )
        return done

    async def _reset_if_due(self, budget: UUID) -> bool:
        def rule(rows: BudgetRows) -> Decision:
            return budget_release.reset(rows, None, only_due=True)

        if await self._core.run(lambda: load_budget(self._store, budget), rule) is None:
            return False
        await self.release_waiters(budget)
        return True

    # ---- executions that wait

    async def release_waiters(self, budget: UUID) -> int:
        """Unblocks the executions that wait for a budget with room. Returns their number."""
        ident = budget_validation.budget_id(budget)
        if _is_exhausted(await load_budget(self._store, ident)):
            return 0
        done = 0
        while True:
            loaded = await self._store.load(_waiters(ident))
            unblocked = await self._unblock(_executions(loaded.rows), loaded.now_ms)
            done += unblocked
            if not unblocked:
                return done

    async def release_overlooked(self) -> int:
        """Unblocks executions that already waited at the last reset or change of their budget.

        A crash between the change and the release leaves them blocked. Returns their number.
        """
        done = 0
        async for budget in self._every_budget():
            columns = ("last_reset_at_ms",)
            resets = Scan(
                "usage_of", {"budget_id": budget}, limit=budget_reads.MAX_ROWS, columns=columns
            )
            loaded = await self._store.load((*_waiters(budget), resets))
            *waiters, reset_rows = loaded.rows
            waiting = _executions(waiters)
            if not waiting:
                continue
            reset_at = max((at for (at,) in reset_rows if at is not None), default=-1)
            since = max(reset_at, await self._changed_with_room_at(budget))
            overlooked = [each for each in waiting if each.last_transition_at <= since]
            done += await self._unblock(overlooked, loaded.now_ms)
        return done

    async def _changed_with_room_at(self, budget: UUID) -> int:
        """The time of the last change of the limits if there is room under them, else -1."""
        rows = await load_budget(self._store, budget)
        changed_at = None if rows.policy is None else rows.policy.changed_at_ms
        return -1 if changed_at is None or _is_exhausted(rows) else changed_at

    async def _unblock(self, waiting: Sequence[Execution], now: int) -> int:
        decided = [
            grants.unblock(Snapshot(now, execution), "waiting_for_budget", now)
            for execution in waiting
        ]
        return await self._core.commit_each(
            [each.plan for each in decided if isinstance(each, Commit)]
        )

    # ---- upkeep

    async def forget_usage_keys(self) -> int:
        """Removes expired idempotency keys of reports. Returns their number."""
        now = await self._store.now_ms()
        columns = ("budget_id", "dedup_key")
        scan = Scan("usage_dedup_expiry", upto=now, limit=MAX_FORGOTTEN, columns=columns)
        expired = await load_rows(self._store, scan)
        return await self._core.commit_each(
            [budget_release.forget_key(budget, key, now) for budget, key in expired]
        )

    async def reconcile_budget_counters(self) -> Reconciliation:
        """Logs counters that contradict the ledgers. It changes nothing."""
        wrong = 0
        async for budget in self._every_budget():
            wrong += await self._contradicts(budget)
        return Reconciliation(wrong)

    async def _every_budget(self) -> AsyncIterator[UUID]:
        scan = Scan("budgets", limit=MAX_PAGE, columns=_Budget.__struct_fields__)
        async for page in pages(self._store, scan, _Budget):
            for budget in page:
                yield budget.budget_id

    async def _contradicts(self, budget: UUID) -> bool:
        """Reads twice before it reports, because many rows do not come from one snapshot."""
        if not await self._contradictions(budget):
            return False
        found = await self._contradictions(budget)
        for dimension, used, charged in found:
            log.error(
                "usage of a budget contradicts the ledgers",
                extra={
                    "budget": str(budget),
                    "dimension": dimension,
                    "used": used,
                    "charged": charged,
                },
            )
        return bool(found)

    async def _contradictions(self, budget: UUID) -> list[tuple[str, int, int]]:
        ledgers = Scan(
            "ledger_of_budget",
            {"budget_id": budget},
            limit=budget_reads.MAX_ROWS,
            columns=LEDGER_COLUMNS,
        )
        usage = usage_scan(budget)
        ledger_page, usage_page = (await self._store.load((ledgers, usage))).rows
        charged = Counter[str]()
        for entry in await with_rest(self._store, ledgers, ledger_page, LedgerEntry):
            charged[entry.dimensions_key] += entry.delta_total
        used = await with_rest(self._store, usage, usage_page, Usage)
        counters = {each.dimensions_key: each.current_value for each in used}
        return budget_release.contradictions(counters, charged)


def _is_exhausted(rows: BudgetRows) -> bool:
    return (
        rows.policy is not None
        and budgets.exhausted_dimension(rows.policy.limits, rows.usage) is not None
    )


def _waiters(budget: UUID) -> tuple[Scan, ...]:
    """Executions blocked at a claim, and executions blocked by a refused report."""
    groups = (blocked_on_budget(budget), blocked_on_refusal(budget))
    return tuple(
        Scan("blocked_on", {"blocked_on": group}, limit=MAX_WAITERS, columns=CORE_COLUMNS)
        for group in groups
    )


def _executions(scanned: Sequence[list[Row]]) -> list[Execution]:
    return [from_core_row(row) for rows in scanned for row in rows]
