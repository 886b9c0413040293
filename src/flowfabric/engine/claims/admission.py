"""Decisions that start one execution, within its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.claims.quota_cache import ExecutionLimits
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import load_one
from flowfabric.engine.telemetry import report_refusal
from flowfabric.errors import Corruption, EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.quota import QuotaPolicy
from flowfabric.rules.claims import admission
from flowfabric.rules.decision import Decided, Snapshot
from flowfabric.rules.executions.quarantine import unknown_budgets
from flowfabric.store.port import Get

R = TypeVar("R")


class _LimitColumns(Struct, frozen=True):
    lane_id: str
    quota_policy_id: UUID | None
    budget_ids: tuple[str, ...]


class Admission:
    """Runs a rule over a snapshot with the lane, the grant and the limits of the execution."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def run(self, ident: ExecutionId, rule: Callable[[Snapshot], Decided[R]]) -> R:
        lane, limits = await self._limits_of(ident)
        if limits is None or limits.quota is None:
            return await self._decide(ident, rule, lane, limits)
        async with self._core.locks.of(limits.quota.quota_policy_id):
            return await self._decide(ident, rule, lane, limits)

    async def _decide(
        self,
        ident: ExecutionId,
        rule: Callable[[Snapshot], Decided[R]],
        lane: str,
        limits: ExecutionLimits | None,
    ) -> R:
        try:
            return await self._core.run(
                lambda: self._core.snapshots.load(
                    ident, grant=True, lane=lane, limits=limits, with_lists=True
                ),
                lambda snapshot: admission.admitted(snapshot, rule(snapshot)),
                contended=admission.TOUCH_QUOTA,
            )
        except EngineError as error:
            report_refusal(self._core.telemetry.listener, error)
            raise

    async def _limits_of(self, ident: ExecutionId) -> tuple[str, ExecutionLimits | None]:
        """The lane of an execution and its limits; None if it has none."""
        columns = _LimitColumns.__struct_fields__
        found = await load_one(self._store, Get("ff_exec_core", ident.key, columns), _LimitColumns)
        if found is None:
            return "", None
        if unknown_budgets(found.budget_ids):
            raise Corruption("budget_ids cannot be read", ident)
        if found.quota_policy_id is None and not found.budget_ids:
            return found.lane_id, None
        quota = None
        if found.quota_policy_id is not None:
            read = Get("ff_quota_policy", (found.quota_policy_id,))
            quota = await load_one(self._store, read, QuotaPolicy)
        return found.lane_id, ExecutionLimits(quota, found.budget_ids)
