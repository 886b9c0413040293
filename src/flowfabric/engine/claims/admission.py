"""Decisions that let one execution start, within the limits it is under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowfabric.engine.claims.quota_cache import ExecutionLimits
from flowfabric.engine.core import Core
from flowfabric.engine.telemetry import report_refusal
from flowfabric.errors import Corruption, EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.quota import QuotaPolicy
from flowfabric.plan import Plan
from flowfabric.rules.claims import admission
from flowfabric.rules.decision import Decision, Snapshot
from flowfabric.rules.executions.quarantine import unknown_budgets
from flowfabric.store.port import Get

MAX_ADMISSIONS_ELSEWHERE = 1_000
"""Admissions of other callers move the version of a quota; they count as tries only past this number."""


class Admission:
    """Runs a rule as `Core.decide` does, with the lane, the grant and the limits in the snapshot."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def run(self, ident: ExecutionId, rule: Callable[[Snapshot], Decision]) -> Any:
        lane, limits = await self._limits_of(ident)
        if limits is None or limits.quota is None:
            return await self._decide(ident, rule, lane, limits)
        async with self._core.locks.of(limits.quota.quota_policy_id):
            return await self._decide(ident, rule, lane, limits)

    async def _decide(
        self,
        ident: ExecutionId,
        rule: Callable[[Snapshot], Decision],
        lane: str,
        limits: ExecutionLimits | None,
    ) -> Any:
        try:
            return await self._core.run(
                lambda: self._core.snapshots.load(
                    ident, grant=True, lane=lane, limits=limits, with_lists=True
                ),
                lambda snapshot: admission.admitted(snapshot, rule(snapshot)),
                max_moved=MAX_ADMISSIONS_ELSEWHERE,
                moved=_admitted_elsewhere,
            )
        except EngineError as error:
            report_refusal(self._core.telemetry.listener, error)
            raise

    async def _limits_of(self, ident: ExecutionId) -> tuple[str, ExecutionLimits | None]:
        """The lane of an execution and its limits, which are known only once the execution is read."""
        columns = ("lane_id", "quota_policy_id", "budget_ids")
        read = Get("ff_exec_core", (ident.partition_index, ident.uuid), columns)
        rows = (await self._store.load((read,))).rows[0]
        if not rows:
            return "", None
        lane, quota_id, budgets = rows[0]
        if unknown_budgets(budgets):
            raise Corruption("budget_ids cannot be read", ident)
        if quota_id is None:
            return lane, ExecutionLimits(None, budgets) if budgets else None
        found = (await self._store.load((Get("ff_quota_policy", (quota_id,)),))).rows[0]
        quota = QuotaPolicy(*found[0]) if found else None
        return lane, ExecutionLimits(quota, budgets)


def _admitted_elsewhere(refused: Plan) -> bool:
    return refused.form is admission.TOUCH_QUOTA
