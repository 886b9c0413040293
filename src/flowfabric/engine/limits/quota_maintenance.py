"""Quotas over time: new limits, removal of stale entries, release of blocked executions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine import retry, validation
from flowfabric.engine.claims import quota_cache
from flowfabric.engine.core import Core
from flowfabric.engine.executions.operator_actions import OperatorActions
from flowfabric.engine.filters import passes
from flowfabric.engine.limits.quotas import MAX_SCOPE_ID_BYTES, Quotas, check_limits
from flowfabric.engine.snapshots import CORE_COLUMNS, core_of, load_all, load_one, pages
from flowfabric.errors import Contention, EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import Execution
from flowfabric.model.quota import (
    QuotaPolicy,
    QuotaPolicyUnchanged,
    QuotaPolicyUpdated,
    Reconciled,
    UpdateQuotaPolicyArgs,
)
from flowfabric.plan import Applied
from flowfabric.rules.claims.admission import Breach, capacity_of, slot_holders
from flowfabric.rules.limits import quotas
from flowfabric.rules.limits.quotas import Slot, SlotExecution
from flowfabric.store.port import GetAll, Scan

log = logging.getLogger("flowfabric.quotas")

PAGE = 1_000
QUOTA_PAGE = 100
RELEASE_PAGE = 100
_END_OF_TIME = 2**63 - 1
_BLOCKING_REASONS = ("waiting_for_budget", "waiting_for_quota")


class _LimitStates(Struct):
    """The limits that a pass has loaded: the capacity left per quota, and exhausted budgets."""

    capacity: dict[UUID, int | None] = {}
    exhausted: dict[str, Breach] = {}
    budgets: set[str] = set()

    def lets_pass(self, execution: Execution) -> bool:
        return quotas.is_lifted(execution, self.exhausted, self.capacity)


class QuotaMaintenance:
    """Updates quotas, removes stale entries, and releases executions that a limit blocked."""

    def __init__(self, core: Core, quotas: Quotas, actions: OperatorActions) -> None:
        self._core, self._store = core, core.store
        self._quotas, self._actions = quotas, actions

    async def update_quota_policy(
        self, args: UpdateQuotaPolicyArgs
    ) -> QuotaPolicyUpdated | QuotaPolicyUnchanged:
        """Replaces the limits of a quota from the next claim on, and wakes waiting claims."""
        validation.instance(args, UpdateQuotaPolicyArgs)
        ident = check_limits(args)
        validation.text(args.by, "by", MAX_SCOPE_ID_BYTES)
        new = structs.replace(args, quota_policy_id=ident)
        result: QuotaPolicyUpdated | QuotaPolicyUnchanged = await self._core.run(
            lambda: self._quotas.quota(ident),
            lambda quota: quotas.update(quota, new),
            retry.CONTENDED,
        )
        if isinstance(result, QuotaPolicyUpdated):
            await self._release_waiters_of(ident)
        return result

    async def _release_waiters_of(self, ident: UUID) -> None:
        """Releases executions blocked by a quota, up to its capacity and one page of them."""
        group = {"blocked_on": f"quota:{ident}"}
        blocked = Scan("blocked_on", group, limit=PAGE, columns=CORE_COLUMNS)
        waiting = await load_all(self._store, blocked, core_of)
        limits = _LimitStates()
        await self._look_up(waiting, limits)
        for execution in waiting:
            if limits.lets_pass(execution):
                await self._release(execution)

    async def reconcile_quota_counters(self) -> Reconciled:
        """Removes entries older than their window, and slots of executions that do not run."""
        processed = errors = 0
        async for page in pages(self._store, Scan("quotas", limit=QUOTA_PAGE), QuotaPolicy):
            for quota in page:
                try:
                    processed += await self._reconcile(quota)
                except EngineError:
                    errors += 1
                    log.exception(
                        "quota could not be reconciled; the next pass tries again",
                        extra={"quota": str(quota.quota_policy_id)},
                    )
        return Reconciled(processed, errors)

    async def _reconcile(self, quota: QuotaPolicy) -> bool:
        """Whether anything was corrected."""
        found = await self._forget_entries(quota)
        found += await self._release_orphans(quota)
        whole = structs.replace(
            quota, active_concurrency_cap=quota_cache.MAX_READ, max_requests_per_window=0
        )
        loaded = await self._store.load(quota_cache.quota_reads(whole, await self._store.now_ms()))
        held = slot_holders(quota_cache.standing_of(quota, loaded.rows, loaded.now_ms))
        plan = quotas.corrected(quota, len(held))
        if plan is not None:
            found += isinstance(await self._store.commit(plan), Applied)
        return found > 0

    async def _forget_entries(self, quota: QuotaPolicy) -> int:
        ident = quota.quota_policy_id
        upto = await self._store.now_ms() - quota.window_ms
        done, dimension = 0, await self._dimension_after(ident, None)
        while dimension is not None:
            group = {"quota_policy_id": ident, "dimension": dimension}
            scan = Scan("quota_window", group, None, upto, PAGE)
            while upto >= 0:
                plans = await load_all(self._store, scan, quotas.forget)
                done += len(plans)
                await self._store.commit_many(plans)
                if len(plans) < PAGE:
                    break
            dimension = await self._dimension_after(ident, dimension)
        return done

    async def _dimension_after(self, ident: UUID, dimension: str | None) -> str | None:
        after = None if dimension is None else (dimension, _END_OF_TIME, quota_cache.LAST_UUID)
        group = {"quota_policy_id": ident}
        scan = Scan("quota_entries", group, after, limit=1, columns=("dimension",))
        return await load_one(self._store, scan, str)

    async def _release_orphans(self, quota: QuotaPolicy) -> int:
        ident, done = quota.quota_policy_id, 0
        scan = Scan("quota_admitted", {"quota_policy_id": ident}, limit=PAGE)
        async for slots in pages(self._store, scan, Slot):
            orphans = await self._orphans(slots)
            done += await self._core.commit_each([quotas.release(ident, each) for each in orphans])
        return done

    async def _orphans(self, slots: Sequence[Slot]) -> list[ExecutionId]:
        by_execution = {ExecutionId(slot.execution_id): slot for slot in slots}
        keys = [ident.key for ident in by_execution]
        read = GetAll("ff_exec_core", keys, SlotExecution.__struct_fields__)
        now = await self._store.now_ms()
        holders = await load_all(self._store, read, SlotExecution)
        known = {holder.execution_id: holder for holder in holders}
        return [
            ident
            for ident, slot in by_execution.items()
            if quotas.is_orphan(slot, known.get(ident.uuid), now)
        ]

    # ---- executions blocked by a limit

    async def release_limited(self, limit: int = 1_000, wanted: ScannerFilter | None = None) -> int:
        """Releases executions blocked by a budget or quota with room again; returns how many."""
        size = validation.limit(limit, PAGE)
        released = 0
        limits = _LimitStates()
        scan = Scan("limited", limit=RELEASE_PAGE, columns=CORE_COLUMNS)
        async for page in pages(self._store, scan, core_of):
            waiting = [
                each
                for each in page
                if passes(each, wanted) and each.blocking_reason in _BLOCKING_REASONS
            ]
            await self._look_up(waiting, limits)
            for execution in waiting:
                if released < size and limits.lets_pass(execution):
                    released += await self._release(execution)
            if released >= size:
                break
        return released

    async def _release(self, execution: Execution) -> bool:
        try:
            await self._actions.unblock_execution(execution.id, execution.blocking_reason)
        except Contention:
            return False  # another call released or changed it
        return True

    async def _look_up(self, waiting: Sequence[Execution], limits: _LimitStates) -> None:
        """Loads the state of the limits of these executions, unless this pass has loaded it."""
        budgets = {ident for each in waiting for ident in quotas.budgets_of(each)} - limits.budgets
        if budgets:
            limits.budgets |= budgets
            policies, usage = (await self._store.load(quota_cache.budget_reads(budgets))).rows
            limits.exhausted.update(
                quota_cache.breaches_of(quota_cache.budget_states(policies, usage))
            )
        idents = {each.quota_policy_id for each in waiting if each.quota_policy_id is not None}
        new = idents - set(limits.capacity)
        if not new:
            return
        limits.capacity.update(dict.fromkeys(new))
        read = GetAll("ff_quota_policy", [(ident,) for ident in new])
        policies_found = await load_all(self._store, read, QuotaPolicy)
        now = await self._store.now_ms()
        reads = [read for quota in policies_found for read in quota_cache.quota_reads(quota, now)]
        loaded = await self._store.load(reads)
        for at, quota in enumerate(policies_found):
            rows = loaded.rows[
                at * quota_cache.READS_PER_QUOTA : (at + 1) * quota_cache.READS_PER_QUOTA
            ]
            standing = quota_cache.standing_of(quota, rows, loaded.now_ms)
            held = len(slot_holders(standing))
            capacity = capacity_of(quota, held, standing.window, loaded.now_ms)
            limits.capacity[quota.quota_policy_id] = capacity.left
