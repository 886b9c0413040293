"""The state of a deployment in a bounded number of reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.executions.execution_counts import CountExecutions
from flowfabric.engine.executions.queue_stats import QueueCounts
from flowfabric.engine.executions.search import Search
from flowfabric.engine.snapshots import load_all
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import MAX_DIMENSIONS, StoredLimits, limits_of
from flowfabric.model.deployment import (
    STALLED_MS,
    BudgetUse,
    DeploymentStatus,
    LaneStatus,
    OverdueTimers,
    Stalled,
)
from flowfabric.model.execution import Lane
from flowfabric.model.state import LaneState
from flowfabric.store.port import GetAll, Read, Row, Scan, ScanAll, Tally

MAX_LANES = 200
MAX_TIMERS = 1_000
MAX_HELD = 10_000
MAX_BUDGETS, MAX_BUDGET_ROWS = 500, 50
MAX_BLOCKED, MAX_STALLED = 100, 20
_OWN = ("partition_key", "execution_id")
_TIMERS = {
    "delay": ("delayed", "delay_until_ms"),
    "lease": ("leased", "lease_expires_at_ms"),
    "attempt timeout": ("attempt_timeout", "attempt_timeout_at_ms"),
    "deadline": ("deadline", "deadline_at_ms"),
    "suspension timeout": ("suspension_timeout", "timeout_at_ms"),
    "budget reset": ("budget_resets", "next_reset_at_ms"),
}
"""The index of each kind of timer, and the column with its time."""
_WITHOUT_NAMESPACE = "suspension timeout"
_BLOCKED = ("routed", "limited", "lost")
"""Indexes of executions that do not go on by themselves."""


class _Blocked(Struct, frozen=True):
    partition_key: int
    execution_id: UUID
    namespace: str
    lane_id: str
    execution_kind: str
    public_state: str
    last_transition_at: int

    def stalled(self) -> Stalled:
        ident = ExecutionId.of(self.partition_key, self.execution_id)
        since = self.last_transition_at
        return Stalled(ident, self.lane_id, self.execution_kind, self.public_state, since)


class _Policy(Struct, frozen=True):
    budget_id: UUID
    namespace: str
    policy_json: str
    scope_type: str
    scope_id: str
    next_reset_at_ms: int | None

    @property
    def name(self) -> str:
        return self.scope_id if self.scope_type == "name" else ""


class Deployment:
    def __init__(
        self, core: Core, search: Search, counts: CountExecutions, queues: QueueCounts
    ) -> None:
        self._store, self._search, self._counts, self._queues = core.store, search, counts, queues

    async def read_deployment(self, namespace: str | None = None) -> DeploymentStatus:
        """Counts, lanes, overdue timers, stalled executions, budgets and leases by worker.

        Every part has a maximum. Without a namespace it is that of all namespaces.
        """
        validation.optional_namespace(namespace)
        counted = await self._counts.count_executions(namespace)
        loaded = await self._store.load(
            (
                Scan("lanes", limit=MAX_LANES),
                Tally("leased", MAX_HELD, ("namespace", "current_worker_instance_id")),
                Scan("budgets", limit=MAX_BUDGETS, columns=_Policy.__struct_fields__),
                *(Scan(i, limit=MAX_BLOCKED, columns=_Blocked.__struct_fields__) for i in _BLOCKED),
            )
        )
        now, (lane_rows, held, policies, *blocked) = loaded.now_ms, loaded.rows
        active = {each.lane_id for each in counted.counts}
        lanes = [
            lane for lane in starmap(Lane, lane_rows) if namespace is None or lane.lane_id in active
        ]
        waiting = {each.lane_id for each in counted.counts if each.public_state == "waiting"}
        oldest = await self._queues.oldest_ready(sorted(waiting)[:MAX_LANES], namespace)
        ready = [
            Stalled(
                ExecutionId.of(each.partition_key, each.execution_id),
                lane,
                each.execution_kind,
                "waiting",
                each.last_transition_at,
            )
            for lane, each in oldest.items()
        ]
        stuck = [row.stalled() for row in _own(blocked, namespace)]
        ages = {lane: max(now - each.last_transition_at, 0) for lane, each in oldest.items()}
        states = {lane.lane_id: lane.state for lane in lanes}
        return DeploymentStatus(
            now,
            namespace,
            counted.counted_at,
            counted.counts,
            [
                LaneStatus(lane, states.get(lane, LaneState.ACTIVE.value), ages.get(lane, 0))
                for lane in sorted({*states, *active})
            ],
            await self._overdue(now, namespace),
            _longest_stalled([*ready, *stuck], now),
            await self._budgets([p for p in starmap(_Policy, policies) if _is(p, namespace)]),
            {
                worker: count
                for space, worker, count in held
                if worker and namespace in (None, space)
            },
        )

    async def _overdue(self, now: int, namespace: str | None) -> list[OverdueTimers]:
        reads: list[Read] = []
        for kind, (index, due) in _TIMERS.items():
            owner = _OWN if kind == _WITHOUT_NAMESPACE else ("namespace",)
            reads.append(Scan(index, upto=now - 1, limit=MAX_TIMERS, columns=(due, *owner)))
        rows = dict(zip(_TIMERS, (await self._store.load(reads)).rows, strict=True))
        if namespace is not None:
            own = await self._owned([(p, i) for _, p, i in rows[_WITHOUT_NAMESPACE]], namespace)
            for kind, found in rows.items():
                rows[kind] = [
                    row
                    for row in found
                    if (row[1:] in own if kind == _WITHOUT_NAMESPACE else row[1] == namespace)
                ]
        return [
            OverdueTimers(kind, len(found), now - min(due for due, *_ in found))
            for kind, found in rows.items()
            if found
        ]

    async def _owned(
        self, keys: Sequence[tuple[int, UUID]], namespace: str
    ) -> set[tuple[int, UUID]]:
        """The executions of a namespace among these."""
        if not keys:
            return set()
        read = GetAll("ff_exec_core", keys, (*_OWN, "namespace"))
        rows = (await self._store.load((read,))).rows[0]
        return {(partition, ident) for partition, ident, owner in rows if owner == namespace}

    async def _budgets(self, policies: Sequence[_Policy]) -> list[BudgetUse]:
        """The dimensions closest to their limits. A dimension has its hard limit, else the soft."""
        limits = {each.budget_id: limits_of(each.policy_json) for each in policies}
        limited = [each for each in policies if _limits(limits[each.budget_id])]
        if not limited:
            return []
        columns = ("budget_id", "dimensions_key", "current_value")
        read = ScanAll("usage_of", [(p.budget_id,) for p in limited], MAX_DIMENSIONS, columns)
        used = {
            (budget, dimension): value
            for budget, dimension, value in await load_all(self._store, read, _row)
        }
        found = [
            BudgetUse(
                each.budget_id,
                each.name,
                dimension,
                used.get((each.budget_id, dimension), 0),
                limit,
                is_hard,
                each.next_reset_at_ms,
            )
            for each in limited
            for dimension, (limit, is_hard) in _limits(limits[each.budget_id]).items()
        ]
        return sorted(found, key=fullest_first)[:MAX_BUDGET_ROWS]


def _row(*values: object) -> Row:
    return values


def _is(found: _Policy | _Blocked, namespace: str | None) -> bool:
    return namespace in (None, found.namespace)


def _own(groups: Iterable[list[Row]], namespace: str | None) -> list[_Blocked]:
    found = [_Blocked(*row) for rows in groups for row in rows]
    return [each for each in found if _is(each, namespace)]


def _longest_stalled(found: Iterable[Stalled], now: int) -> list[Stalled]:
    stalled = [each for each in found if now - each.since_ms >= STALLED_MS]
    return sorted(stalled, key=oldest_first)[:MAX_STALLED]


def oldest_first(stalled: Stalled) -> tuple[int, str]:
    return stalled.since_ms, str(stalled.execution_id)


def _limits(stored: StoredLimits) -> Mapping[str, tuple[int, bool]]:
    soft = {name: (limit, False) for name, limit in stored.soft_limits.items() if limit > 0}
    return soft | {name: (limit, True) for name, limit in stored.hard_limits.items() if limit > 0}


def fullest_first(use: BudgetUse) -> tuple[float, str, str]:
    return -use.used / use.limit, str(use.budget_id), use.dimension
