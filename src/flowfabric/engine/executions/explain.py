"""Why an execution is not running: two loads at the most, and what they say in plain words."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.explanation import (
    MAX_ADMITTED_SEEN,
    MAX_AHEAD,
    MAX_BUDGETS_SEEN,
    MAX_DIMENSIONS_SEEN,
    MAX_EDGES_SEEN,
    MAX_LISTED,
    MAX_WAITPOINTS_SEEN,
    MAX_WORKERS_SEEN,
    Awaited,
    Budget,
    Explanation,
    Looked,
    Parent,
    Quota,
)
from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.queue_stats import LONG_WRITING_MS, LongWriter
from flowfabric.model.waitpoint import Suspension
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions import explain
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

_AWAITED = ("waitpoint_id", "waitpoint_key", "required_signal_names", "state")
_PARENT = ("partition_key", "execution_id", "execution_kind", "public_state")
_BUDGET = ("budget_id", "policy_json", "next_reset_at_ms", "scope_type", "scope_id")
_USAGE = ("budget_id", "dimensions_key", "current_value")
_QUOTA = (
    "quota_policy_id",
    "requests_per_window_seconds",
    "max_requests_per_window",
    "active_concurrency_cap",
    "closed_until_ms",
)
_NOBODY = UUID(int=0)


class Explain:
    """Answers why an execution does not run."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def explain_execution(self, execution: ExecutionId) -> Explanation:
        """Why it is not running: reasons in the order in which they have to go away, with the facts behind each."""
        ident = execution_id(execution)
        key = (ident.partition_index, ident.uuid)
        owner = {"partition_key": ident.partition_index, "execution_id": ident.uuid}
        reads: tuple[Read, ...] = (
            Get("ff_exec_core", key, CORE_COLUMNS),
            Scan("last_attempt", owner, limit=1),
            Get("ff_suspension_current", key),
            Scan("waitpoints_of", owner, limit=MAX_WAITPOINTS_SEEN, columns=_AWAITED),
            Scan(
                "edges_in",
                {"partition_key": ident.partition_index, "downstream_eid": ident.uuid},
                limit=MAX_EDGES_SEEN,
            ),
        )
        loaded = await self._store.load(reads)
        found, tries, waits, waitpoints, edges = loaded.rows
        if not found:
            raise NotFound("execution", ident)
        looked = Looked(
            loaded.now_ms,
            from_core_row(found[0]),
            attempt=Attempt(*tries[0]) if tries else None,
            suspension=next((wait for row in waits if (wait := Suspension(*row)).is_open), None),
            waitpoints=tuple(_awaited(row) for row in waitpoints if row[3] == "active"),
            edges=tuple(Edge(*row) for row in edges),
            writer=await self.events_held_back_by(),
        )
        if not explain.looks_ahead(looked.execution):
            return explain.explain(looked)
        return explain.explain(await self._ahead(looked))

    async def events_held_back_by(self) -> LongWriter | None:
        """A transaction that has been writing so long that events are told late because of it; Postgres only."""
        found = await self._store.longest_writer()
        return found if found is not None and found.for_ms >= LONG_WRITING_MS else None

    async def _ahead(self, looked: Looked) -> Looked:
        """What stands between it and a worker."""
        execution, now = looked.execution, looked.now_ms
        reads = _around(execution, looked, now)
        rows: dict[str, list[Row]] = defaultdict(list)
        rows.update(zip(reads, (await self._store.load(tuple(reads.values()))).rows, strict=True))
        quota = next((_quota(row, rows) for row in rows["quota"]), None)
        places = [row[0] for row in rows["ready"]]
        return Looked(
            now,
            execution,
            looked.attempt,
            next((Lane(*row) for row in rows["lane"]), None),
            tuple(w for row in rows["workers"] if (w := WorkerInfo(*row)).expires_at_ms > now),
            looked.suspension,
            looked.waitpoints,
            next((EdgeGroup(*row) for row in rows["group"]), None),
            looked.edges,
            tuple(
                Parent(ExecutionId.of(row[0], row[1]), row[2], row[3]) for row in rows["parents"]
            ),
            tuple(_budget(row, rows["usage"]) for row in sorted(rows["budgets"])),
            quota,
            places.index(execution.execution_id) if execution.execution_id in places else None,
            looked.writer,
        )


def _around(execution: Execution, looked: Looked, now: int) -> dict[str, Read]:
    """What there is to read beside it; what it has nothing to do with is left out."""
    at, quota = execution.partition_key, execution.quota_policy_id
    reads: dict[str, Read] = {
        "lane": Get("ff_lane_registry", (execution.lane_id,)),
        "workers": Scan("workers", {"namespace": execution.namespace}, limit=MAX_WORKERS_SEEN),
    }
    if explain.is_ready(execution):
        place = {
            "lane_id": execution.lane_id,
            "namespace": execution.namespace,
            "gate": execution.gate,
        }
        reads["ready"] = Scan("ready", place, limit=MAX_AHEAD + 1, columns=("execution_id",))
    if looked.edges and execution.flow_id is not None:
        upstream = [edge.upstream_eid for edge in looked.edges if edge.is_open][:MAX_LISTED]
        reads["group"] = Get("ff_edge_group", (at, execution.flow_id, execution.execution_id))
        reads["parents"] = GetAll("ff_exec_core", [(at, each) for each in upstream], _PARENT)
    waits_for = (execution.blocked_on or "").rpartition(":")[2]
    budgets = [
        (each,)
        for each in dict.fromkeys(_uuids((*execution.budget_ids[:MAX_BUDGETS_SEEN], waits_for)))
    ]
    if budgets:
        reads["budgets"] = GetAll("ff_budget_policy", budgets, _BUDGET)
        reads["usage"] = ScanAll("usage_of", budgets, MAX_DIMENSIONS_SEEN, _USAGE)
    if quota is not None:
        held, counted = {"quota_policy_id": quota}, MAX_ADMITTED_SEEN
        reads["quota"] = Get("ff_quota_policy", (quota,), _QUOTA)
        reads["window"] = Scan(
            "quota_window",
            {**held, "dimension": "default"},
            limit=counted,
            columns=("admitted_at_ms",),
        )
        reads["held"] = Scan("held", held, limit=counted, columns=("execution_id",))
        reads["reserved"] = Scan(
            "reserved", held, (now, _NOBODY), limit=counted, columns=("execution_id",)
        )
    return reads


def _uuids(texts: Iterable[str]) -> Iterator[UUID]:
    """What is no uuid names no budget, and so no limit."""
    for text in texts:
        with suppress(ValueError):
            yield UUID(text)


def _awaited(row: Row) -> Awaited:
    return Awaited(row[0], row[1], tuple(json.loads(row[2]))[:MAX_LISTED])


def _budget(row: Row, usage: list[Row]) -> Budget:
    budget_id, policy, resets_at_ms, scope_type, scope_id = row
    used = {dimension: value for owner, dimension, value in usage if owner == budget_id}
    return Budget(
        str(budget_id),
        _limits(policy),
        used,
        resets_at_ms,
        scope_id if scope_type == "name" else "",
    )


def _limits(policy: str) -> dict[str, int]:
    said: Any = json.loads(policy)
    hard = said.get("hard_limits") if isinstance(said, dict) else None
    return {str(name): limit for name, limit in (hard or {}).items() if isinstance(limit, int)}


def _quota(row: Row, rows: Mapping[str, list[Row]]) -> Quota:
    held = {each[0] for each in (*rows["held"], *rows["reserved"])}
    return Quota(
        row[0], row[1], row[2], row[3], row[4], tuple(each[0] for each in rows["window"]), len(held)
    )
