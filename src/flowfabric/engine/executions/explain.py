"""Why an execution is not running: at most two loads, and the reasons they show."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import starmap
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model import explanation
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.queue_stats import LONG_WRITING_MS, LongWriter
from flowfabric.model.quota import DEFAULT_DIMENSION
from flowfabric.model.waitpoint import Suspension
from flowfabric.model.worker import WorkerInfo
from flowfabric.rules.executions import explain
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, ScanAll

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
_FIRST_ID = UUID(int=0)


class _Waitpoint(Struct, frozen=True):
    waitpoint_id: UUID
    waitpoint_key: str
    required_signal_names: str
    state: str

    @property
    def is_open(self) -> bool:
        return self.state == "active"


class Explain:
    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def explain_execution(self, execution: ExecutionId) -> explanation.Explanation:
        """The reasons why it is not running, in the order in which they must end, with facts."""
        ident = execution_id(execution)
        key, owner, columns = ident.key, ident.owner, _Waitpoint.__struct_fields__
        downstream = {"partition_key": ident.partition_index, "downstream_eid": ident.uuid}
        reads: tuple[Read, ...] = (
            Get("ff_exec_core", key, CORE_COLUMNS),
            Scan("last_attempt", owner, limit=1),
            Get("ff_suspension_current", key),
            Scan("waitpoints_of", owner, limit=explanation.MAX_WAITPOINTS_SEEN, columns=columns),
            Scan("edges_in", downstream, limit=explanation.MAX_EDGES_SEEN),
        )
        loaded = await self._store.load(reads)
        found, attempts, suspensions, waitpoints, edges = loaded.rows
        stored = next((from_core_row(row) for row in found), None)
        if stored is None:
            raise NotFound("execution", ident)
        looked = explanation.Looked(
            loaded.now_ms,
            stored,
            attempt=next(starmap(Attempt, attempts), None),
            suspension=next((s for s in starmap(Suspension, suspensions) if s.is_open), None),
            waitpoints=tuple(_awaited(w) for w in starmap(_Waitpoint, waitpoints) if w.is_open),
            edges=tuple(starmap(Edge, edges)),
            writer=await self.events_held_back_by(),
        )
        if not explain.looks_ahead(stored):
            return explain.explain(looked)
        return explain.explain(await self._with_obstacles(looked))

    async def events_held_back_by(self) -> LongWriter | None:
        """A transaction that writes for so long that it delays events; Postgres only."""
        found = await self._store.longest_writer()
        return found if found is not None and found.for_ms >= LONG_WRITING_MS else None

    async def _with_obstacles(self, looked: explanation.Looked) -> explanation.Looked:
        """Adds what can keep a waiting execution from a worker: its queue, limits and parents."""
        execution, now = looked.execution, looked.now_ms
        reads = {**_lane_reads(execution), **_parent_reads(execution, looked)}
        reads |= {**_budget_reads(execution), **_quota_reads(execution, now)}
        rows: dict[str, list[Row]] = defaultdict(list)
        rows.update(zip(reads, (await self._store.load(tuple(reads.values()))).rows, strict=True))
        queue = [ident for (ident,) in rows["ready"]]
        return structs.replace(
            looked,
            lane=next(starmap(Lane, rows["lane"]), None),
            workers=tuple(w for w in starmap(WorkerInfo, rows["workers"]) if w.expires_at_ms > now),
            group=next(starmap(EdgeGroup, rows["group"]), None),
            parents=tuple(
                explanation.Parent(ExecutionId.of(partition, ident), kind, state)
                for partition, ident, kind, state in rows["parents"]
            ),
            budgets=tuple(_budget(row, rows["usage"]) for row in sorted(rows["budgets"])),
            quota=next((_quota(row, rows) for row in rows["quota"]), None),
            ahead=queue.index(execution.execution_id) if execution.execution_id in queue else None,
        )


def _lane_reads(execution: Execution) -> dict[str, Read]:
    reads: dict[str, Read] = {
        "lane": Get("ff_lane_registry", (execution.lane_id,)),
        "workers": Scan(
            "workers", {"namespace": execution.namespace}, limit=explanation.MAX_WORKERS_SEEN
        ),
    }
    if explain.is_ready(execution):
        queue = {field: getattr(execution, field) for field in ("lane_id", "namespace", "gate")}
        reads["ready"] = Scan(
            "ready", queue, limit=explanation.MAX_AHEAD + 1, columns=("execution_id",)
        )
    return reads


def _parent_reads(execution: Execution, looked: explanation.Looked) -> dict[str, Read]:
    if not looked.edges or execution.flow_id is None:
        return {}
    partition = execution.partition_key
    upstream = [edge.upstream_eid for edge in looked.edges if edge.is_open][
        : explanation.MAX_LISTED
    ]
    return {
        "group": Get("ff_edge_group", (partition, execution.flow_id, execution.execution_id)),
        "parents": GetAll("ff_exec_core", [(partition, each) for each in upstream], _PARENT),
    }


def _budget_reads(execution: Execution) -> dict[str, Read]:
    blocked_on = (execution.blocked_on or "").rpartition(":")[2]
    named = _uuids((*execution.budget_ids[: explanation.MAX_BUDGETS_SEEN], blocked_on))
    budgets = [(ident,) for ident in dict.fromkeys(named)]
    if not budgets:
        return {}
    return {
        "budgets": GetAll("ff_budget_policy", budgets, _BUDGET),
        "usage": ScanAll("usage_of", budgets, explanation.MAX_DIMENSIONS_SEEN, _USAGE),
    }


def _quota_reads(execution: Execution, now: int) -> dict[str, Read]:
    quota, most = execution.quota_policy_id, explanation.MAX_ADMITTED_SEEN
    if quota is None:
        return {}
    group, ids = {"quota_policy_id": quota}, ("execution_id",)
    window = {**group, "dimension": DEFAULT_DIMENSION}
    return {
        "quota": Get("ff_quota_policy", (quota,), _QUOTA),
        "window": Scan("quota_window", window, limit=most, columns=("admitted_at_ms",)),
        "held": Scan("held", group, limit=most, columns=ids),
        "reserved": Scan("reserved", group, (now, _FIRST_ID), limit=most, columns=ids),
    }


def _uuids(texts: Iterable[str]) -> Iterator[UUID]:
    """The texts that are UUIDs; any other text names no budget."""
    for text in texts:
        with suppress(ValueError):
            yield UUID(text)


def _awaited(waitpoint: _Waitpoint) -> explanation.Awaited:
    names = tuple(json.loads(waitpoint.required_signal_names))
    return explanation.Awaited(
        waitpoint.waitpoint_id, waitpoint.waitpoint_key, names[: explanation.MAX_LISTED]
    )


def _budget(row: Row, usage: list[Row]) -> explanation.Budget:
    budget_id, policy, resets_at_ms, scope_type, scope_id = row
    used = {dimension: value for owner, dimension, value in usage if owner == budget_id}
    named = scope_id if scope_type == "name" else ""
    return explanation.Budget(str(budget_id), _limits(policy), used, resets_at_ms, named)


def _limits(policy: str) -> dict[str, int]:
    stored: Any = json.loads(policy)
    hard = stored.get("hard_limits") if isinstance(stored, dict) else None
    return {str(name): limit for name, limit in (hard or {}).items() if isinstance(limit, int)}


def _quota(row: Row, rows: Mapping[str, list[Row]]) -> explanation.Quota:
    held = {ident for (ident,) in (*rows["held"], *rows["reserved"])}
    window = tuple(admitted_at_ms for (admitted_at_ms,) in rows["window"])
    quota_id, window_s, most_in_window, most_at_once, closed_until_ms = row
    return explanation.Quota(
        quota_id, window_s, most_in_window, most_at_once, closed_until_ms, window, len(held)
    )
