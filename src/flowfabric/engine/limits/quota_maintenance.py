"""Quotas kept tidy: old entries, slots nobody holds, counters people look at, and what is held back without need."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.claims.quota_cache import (
    LAST,
    MOST_READ,
    READS_PER_QUOTA,
    budget_reads,
    budgets_in,
    over_limit,
    quota_reads,
    standing_of,
)
from flowfabric.engine.core import CORE_COLUMNS, from_core_row
from flowfabric.engine.filters import passes
from flowfabric.engine.limits.quotas import MAX_SCOPE_ID_BYTES, Quotas
from flowfabric.engine.limits.usage_batcher import pause
from flowfabric.errors import Contention, EngineError, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import Execution
from flowfabric.model.quota import (
    MAX_LIMIT_VALUE,
    QuotaPolicy,
    QuotaPolicyUnchanged,
    QuotaPolicyUpdated,
    Reconciled,
    UpdateQuotaPolicyArgs,
)
from flowfabric.plan import Applied
from flowfabric.rules.claims.admission import Spent, holders, room
from flowfabric.rules.limits import quotas
from flowfabric.rules.limits.quotas import Slot, SlotExecution
from flowfabric.store.port import GetAll, Scan

log = logging.getLogger("flowfabric.quotas")

PAGE = 1_000
QUOTA_PAGE = 100
RELEASE_PAGE = 100
_END_OF_TIME = 2**63 - 1
_HELD_FOR = ("waiting_for_budget", "waiting_for_quota")


class QuotaMaintenance(Quotas):
    async def update_quota_policy(
        self, args: UpdateQuotaPolicyArgs
    ) -> QuotaPolicyUpdated | QuotaPolicyUnchanged:
        """Other limits for a quota that exists, from the next claim on. Claims that wait look again."""
        if not isinstance(args, UpdateQuotaPolicyArgs):
            raise invalid("args", "UpdateQuotaPolicyArgs", args)
        ident = validation.limit_id(args.quota_policy_id, "quota_policy_id")
        for field in ("window_seconds", "max_requests_per_window", "max_concurrent", "jitter_ms"):
            validation.whole(getattr(args, field), field, 0, MAX_LIMIT_VALUE)
        validation.text(args.by, "by", MAX_SCOPE_ID_BYTES)
        new = structs.replace(args, quota_policy_id=ident)
        result = await self._updated(new)
        if isinstance(result, QuotaPolicyUpdated):
            await self._release_waiters_of(ident)
        return result

    async def _updated(
        self, new: UpdateQuotaPolicyArgs
    ) -> QuotaPolicyUpdated | QuotaPolicyUnchanged:
        """Every admission moves the version of a quota, so it is tried more often than anything else."""
        tries = 0
        while True:
            try:
                result: QuotaPolicyUpdated | QuotaPolicyUnchanged = await self.settle(
                    lambda: self._quota(new.quota_policy_id),
                    lambda quota: quotas.update(quota, new),
                )
            except Contention:
                tries += 1
                await pause(tries)
            else:
                return result

    async def _release_waiters_of(self, ident: UUID) -> None:
        """Those held back for a quota, as many as it has room for. Whoever stays is found by the sweep."""
        group = {"blocked_on": f"quota:{ident}"}
        loaded = await self.store.load(
            (Scan("blocked_on", group, limit=PAGE, columns=CORE_COLUMNS),)
        )
        waiting = [from_core_row(row) for row in loaded.rows[0]]
        rooms: dict[UUID, int | None] = {}
        over: dict[str, Spent] = {}
        await self._look_at(waiting, rooms, over, set())
        for execution in waiting:
            if quotas.is_lifted(execution, over, rooms):
                await self._lift(execution)

    async def reconcile_quota_counters(self) -> Reconciled:
        """Entries older than their window go, and slots taken by hand for executions that neither run nor are about to."""
        processed = errors = 0
        after: tuple[UUID] | None = None
        while True:
            rows = (await self.store.load((Scan("quotas", {}, after, limit=QUOTA_PAGE),))).rows[0]
            for quota in (QuotaPolicy(*row) for row in rows):
                try:
                    processed += await self._tidied(quota)
                except EngineError:
                    errors += 1
                    log.exception("quota %s is left for the next pass", quota.quota_policy_id)
            if len(rows) < QUOTA_PAGE:
                return Reconciled(processed, errors)
            after = (rows[-1][0],)

    async def _tidied(self, quota: QuotaPolicy) -> bool:
        """Whether there was anything to put right."""
        found = await self._forget_entries(quota)
        found += await self._drop_orphans(quota)
        whole = structs.replace(quota, active_concurrency_cap=MOST_READ, max_requests_per_window=0)
        loaded = await self.store.load(quota_reads(whole, await self.store.now_ms()))
        held = holders(standing_of(quota, loaded.rows, loaded.now_ms))
        plan = quotas.corrected(quota, len(held))
        if plan is not None:
            found += isinstance(await self.store.commit(plan), Applied)
        return found > 0

    async def _forget_entries(self, quota: QuotaPolicy) -> int:
        ident = quota.quota_policy_id
        upto = await self.store.now_ms() - quota.window_ms
        done, dimension = 0, await self._dimension_after(ident, None)
        while dimension is not None:
            group = {"quota_policy_id": ident, "dimension": dimension}
            while upto >= 0:
                rows = (
                    await self.store.load((Scan("quota_window", group, None, upto, PAGE),))
                ).rows[0]
                done += len(rows)
                await self.store.commit_many([quotas.forget(*row) for row in rows])
                if len(rows) < PAGE:
                    break
            dimension = await self._dimension_after(ident, dimension)
        return done

    async def _dimension_after(self, ident: UUID, dimension: str | None) -> str | None:
        after = None if dimension is None else (dimension, _END_OF_TIME, LAST)
        scan = Scan(
            "quota_entries", {"quota_policy_id": ident}, after, limit=1, columns=("dimension",)
        )
        rows = (await self.store.load((scan,))).rows[0]
        return rows[0][0] if rows else None

    async def _drop_orphans(self, quota: QuotaPolicy) -> int:
        done, after = 0, None
        while True:
            scan = Scan(
                "quota_admitted", {"quota_policy_id": quota.quota_policy_id}, after, limit=PAGE
            )
            slots = {
                ExecutionId(row[1]): Slot(*row) for row in (await self.store.load((scan,))).rows[0]
            }
            keys = [(ident.partition_index, ident.uuid) for ident in slots]
            loaded = await self.store.load(
                (GetAll("ff_exec_core", keys, SlotExecution.__struct_fields__),)
            )
            known = {
                holder.execution_id: holder
                for holder in (SlotExecution(*row) for row in loaded.rows[0])
            }
            gone = [
                i
                for i, slot in slots.items()
                if quotas.is_orphan(slot, known.get(i.uuid), loaded.now_ms)
            ]
            if gone:
                answers = await self.store.commit_many(
                    [quotas.release(quota.quota_policy_id, ident) for ident in gone]
                )
                done += sum(isinstance(answer, Applied) for answer in answers)
            if len(slots) < PAGE:
                return done
            after = (str(list(slots)[-1]),)

    # ---- held back without need

    async def release_limited(self, limit: int = 1_000, wanted: ScannerFilter | None = None) -> int:
        """Lets go of executions held back for a budget or a quota that has room again; how many."""
        size = validation.limit(limit, PAGE)
        released = 0
        after: tuple[Any, ...] | None = None
        rooms: dict[UUID, int | None] = {}
        over: dict[str, Spent] = {}
        seen: set[str] = set()
        while released < size:
            loaded = await self.store.load(
                (Scan("limited", after=after, limit=RELEASE_PAGE, columns=CORE_COLUMNS),)
            )
            waiting = [from_core_row(row) for row in loaded.rows[0]]
            mine = [e for e in waiting if passes(e, wanted) and e.blocking_reason in _HELD_FOR]
            await self._look_at(mine, rooms, over, seen)
            for execution in mine:
                if released < size and quotas.is_lifted(execution, over, rooms):
                    released += await self._lift(execution)
            if len(waiting) < RELEASE_PAGE:
                break
            after = (waiting[-1].last_transition_at, waiting[-1].execution_id)
        return released

    async def _lift(self, execution: Execution) -> bool:
        try:
            await self.unblock_execution(execution.id, execution.blocking_reason)
        except Contention:
            return False  # somebody else released or moved it
        return True

    async def _look_at(
        self,
        waiting: list[Execution],
        rooms: dict[UUID, int | None],
        over: dict[str, Spent],
        seen: set[str],
    ) -> None:
        """The limits of these that have not been looked at in this pass."""
        budgets = {b for e in waiting for b in quotas.budgets_of(e)} - seen
        if budgets:
            seen |= budgets
            over.update(
                over_limit(budgets_in(*(await self.store.load(budget_reads(budgets))).rows))
            )
        new = {e.quota_policy_id for e in waiting if e.quota_policy_id is not None} - set(rooms)
        found = (
            (await self.store.load((GetAll("ff_quota_policy", [(ident,) for ident in new]),))).rows[
                0
            ]
            if new
            else []
        )
        policies = [QuotaPolicy(*row) for row in found]
        rooms.update(dict.fromkeys(new))
        now = await self.store.now_ms()
        reads = [read for quota in policies for read in quota_reads(quota, now)]
        loaded = await self.store.load(reads)
        for at, quota in enumerate(policies):
            rows = loaded.rows[at * READS_PER_QUOTA : (at + 1) * READS_PER_QUOTA]
            standing = standing_of(quota, rows, loaded.now_ms)
            rooms[quota.quota_policy_id] = room(
                quota, len(holders(standing)), standing.window, loaded.now_ms
            ).left
