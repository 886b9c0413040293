"""Removes ended executions, expired keys and expired grants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.claims.quota_cache import QuotaCache
from flowfabric.engine.core import Core
from flowfabric.engine.filters import checked_filter, passes
from flowfabric.engine.snapshots import CORE_COLUMNS, core_of, load_all, load_rows, pages
from flowfabric.errors import invalid
from flowfabric.ids import ExecutionId, lane_id, partition_key
from flowfabric.model.event import ScannerFilter, is_end
from flowfabric.model.execution import Execution
from flowfabric.model.flow import MAX_GRAPH_EDGES, Flow
from flowfabric.model.lease import Grant
from flowfabric.model.quota import DEFAULT_DIMENSION
from flowfabric.plan import Applied
from flowfabric.rules.leases import reclaim
from flowfabric.rules.limits import quotas
from flowfabric.rules.workers import retention
from flowfabric.store.port import GetAll, Read, Scan, ScanAll, Tally

MAX_EVENTS = 100
MAX_MEMBERS = 1_000_000
FlowKey = tuple[int, UUID | None]


class _IdempotencyKey(NamedTuple):
    """A stored key with the execution it belongs to, column by column."""

    namespace: str
    idempotency_key: str
    partition_key: int
    execution_id: UUID


class Retention:
    def __init__(self, core: Core, quota_cache: QuotaCache) -> None:
        self._core, self._store = core, core.store
        self._quota_cache = quota_cache

    async def trim_retention(
        self,
        lane: str,
        retention_ms: int | None = None,
        *,
        partition: int | str | None = None,
        now: int | None = None,
        batch: int = 20,
        wanted: ScannerFilter | None = None,
    ) -> int:
        """Deletes ended executions of a lane past their retention, oldest first, with their rows.

        The retention is that of their policy, else `retention_ms`, else that of the settings for
        their outcome. Returns how many were deleted.
        """
        checked = lane_id(lane)
        checked_filter(wanted)
        ages = (self._core.settings.retention_completed_ms, self._core.settings.retention_failed_ms)
        if retention_ms is not None:
            ages = (validation.whole(retention_ms, "retention_ms", 0, 2**53),) * 2
        at = await self._store.now_ms() if now is None else validation.timestamp(now, "now")
        size = validation.limit(batch, retention.MAX_TRIM_BATCH, "batch")
        where = None if partition is None else partition_key(partition, "partition")
        if not size:
            return 0
        due: list[Execution] = []
        for index, upto in (("ended", at - ages[0]), ("failed", at - ages[1]), ("retained", at)):
            scan = Scan(index, {"lane_id": checked}, None, upto, size, CORE_COLUMNS)
            due += await self._due(scan, where, wanted)
        due.sort(key=lambda e: (e.terminal_at_ms or 0, e.execution_id))
        return await self._trim(due[:size])

    async def lanes_due(self, lanes: Sequence[str]) -> list[str]:
        """Those of some lanes whose oldest ended execution is past its retention."""
        settings = self._core.settings
        oldest = {
            "ended": ("terminal_at_ms", settings.retention_completed_ms),
            "failed": ("terminal_at_ms", settings.retention_failed_ms),
            "retained": ("retain_until_ms", 0),
        }
        if len(lanes) > retention.MAX_TRIM_BATCH:
            raise invalid("lanes", f"at most {retention.MAX_TRIM_BATCH}", len(lanes))
        groups = [(lane_id(lane),) for lane in lanes]
        reads = [ScanAll(index, groups, 1, ("lane_id", at)) for index, (at, _) in oldest.items()]
        loaded = await self._store.load(reads)
        due = {
            lane
            for rows, (_, age_ms) in zip(loaded.rows, oldest.values(), strict=True)
            for lane, at_ms in rows
            if at_ms <= loaded.now_ms - age_ms
        }
        return [lane for lane in lanes if lane in due]

    async def _trim(self, due: list[Execution]) -> int:
        """Deletes a flow with its last members in one commit, other executions one by one."""
        members: dict[tuple[int, UUID], list[Execution]] = {}
        for each in due:
            if each.flow_id is not None:
                members.setdefault((each.partition_key, each.flow_id), []).append(each)
        whole = await self._last_of(members)
        ends = [e for e in due if e.flow_id is None or (e.partition_key, e.flow_id) not in whole]
        trimmed = await self._core.commit_each([retention.trim(e) for e in ends])
        for key, flow in whole.items():
            answer = await self._store.commit_together(retention.trim_whole(flow, members[key]))
            trimmed += len(members[key]) if isinstance(answer, Applied) else 0
        return trimmed

    async def removable(
        self, ended: Sequence[Execution]
    ) -> tuple[list[Execution], dict[tuple[int, UUID], Flow]]:
        """Those of some ended executions that nothing unfinished may read, and the flows that have
        no other members than these.
        """
        held = await self._held([e for e in ended if e.flow_id is not None])
        free = [e for e in ended if e.id not in held]
        members: dict[tuple[int, UUID], list[Execution]] = {}
        for each in free:
            if each.flow_id is not None:
                members.setdefault((each.partition_key, each.flow_id), []).append(each)
        return free, await self._last_of(members)

    async def _last_of(
        self, members: dict[tuple[int, UUID], list[Execution]]
    ) -> dict[tuple[int, UUID], Flow]:
        """The flows that have no other members than these."""
        if not members:
            return {}
        keys = list(members)
        reads: list[Read] = [GetAll("ff_flow_core", keys), *map(_phases, keys)]
        rows, *tallies = (await self._store.load(reads)).rows
        flows = [Flow(*row) for row in rows]
        sizes = {
            key: sum(count for _, count in tally) for key, tally in zip(keys, tallies, strict=True)
        }
        whole = {(flow.partition_key, flow.flow_id): flow for flow in flows}
        return {key: flow for key, flow in whole.items() if sizes[key] == len(members[key])}

    async def _due(
        self, scan: Scan, partition: int | None, wanted: ScannerFilter | None
    ) -> list[Execution]:
        found: list[Execution] = []
        async for page in pages(self._store, scan, core_of):
            held = await self._held([e for e in page if e.flow_id is not None])
            here = [e for e in page if partition is None or e.partition_key == partition]
            found += [e for e in here if passes(e, wanted) and e.id not in held]
            if len(found) >= scan.limit:
                break
        return found

    async def _held(self, members: list[Execution]) -> set[ExecutionId]:
        """Members of flows that unfinished work may still read.

        Their end is not dispatched yet, or their flow, or its parent, has not ended.
        """
        if not members:
            return set()
        reads = (
            ScanAll(
                "completion_events_of",
                [(e.execution_id,) for e in members],
                MAX_EVENTS,
                ("execution_id", "dispatched_at_ms", "outcome"),
            ),
            ScanAll(
                "edges_out",
                [(e.partition_key, e.execution_id) for e in members],
                MAX_GRAPH_EDGES,
                ("upstream_eid", "dep_state"),
            ),
        )
        events, edges = (await self._store.load(reads)).rows
        pending = {
            uid
            for uid, dispatched_at, outcome in events
            if dispatched_at is None and is_end(outcome)
        }
        pending |= {upstream for upstream, state in edges if state == "unsatisfied"}
        unfinished = await self._unfinished(
            dict.fromkeys((e.partition_key, e.flow_id) for e in members)
        )
        return {
            e.id
            for e in members
            if e.execution_id in pending or (e.partition_key, e.flow_id) in unfinished
        }

    async def _unfinished(self, flows: Iterable[FlowKey]) -> set[FlowKey]:
        """Flows with a member that has not ended, and child flows whose parent has not ended."""
        keys = list(flows)
        parent = ("partition_key", "flow_id", "parent_partition", "parent_execution_id")
        reads: list[Read] = [GetAll("ff_flow_core", keys, parent), *map(_phases, keys)]
        rows, *tallies = (await self._store.load(reads)).rows
        parents = {
            (partition, flow): (at, uid) for partition, flow, at, uid in rows if uid is not None
        }
        phases = await self._phases_of(set(parents.values()))
        return {
            key
            for key, tally in zip(keys, tallies, strict=True)
            if retention.is_unfinished(
                [phase for phase, _ in tally],
                phases.get(parents[key]) if key in parents else None,
            )
        }

    async def _phases_of(self, executions: set[tuple[int, UUID]]) -> dict[tuple[int, UUID], str]:
        if not executions:
            return {}
        columns = ("partition_key", "execution_id", "lifecycle_phase")
        read = GetAll("ff_exec_core", list(executions), columns)
        rows = await load_rows(self._store, read)
        return {(partition, uid): phase for partition, uid, phase in rows}

    async def forget_idempotency_keys(self, limit: int = 1_000) -> int:
        """Drops expired keys; returns how many. A kept execution keeps its key."""
        size = validation.limit(limit, retention.MAX_TRIM_BATCH)
        now = await self._store.now_ms()
        columns = _IdempotencyKey._fields
        read = Scan("idempotency", upto=now, limit=size, columns=columns)
        due = await load_all(self._store, read, _IdempotencyKey)
        if not due:
            return 0
        owners = [(key.partition_key, key.execution_id) for key in due]
        holders = GetAll("ff_exec_core", owners, columns)
        kept = set(await load_all(self._store, holders, _IdempotencyKey))
        return await self._core.commit_each(
            [retention.forget_key(key, now, kept=key in kept) for key in due]
        )

    async def drop_expired_grants(self, limit: int = 1_000) -> int:
        """Drops grants that were not used in time; returns how many."""
        size = validation.limit(limit, retention.MAX_TRIM_BATCH)
        now = await self._store.now_ms()
        found = await load_all(self._store, Scan("grants", upto=now - 1, limit=size), Grant)
        if not found:
            return 0
        answers = await self._store.commit_many(
            [reclaim.drop_expired(g.partition_key, g.execution_id) for g in found]
        )
        dropped = [
            grant
            for grant, answer in zip(found, answers, strict=True)
            if isinstance(answer, Applied)
        ]
        await self._refund(dropped)
        return len(dropped)

    async def _refund(self, unused: list[Grant]) -> None:
        """Returns the admissions: an execution that did not start does not count for its quota."""
        keys = [(grant.partition_key, grant.execution_id) for grant in unused]
        read = GetAll("ff_exec_core", keys, ("execution_id", "quota_policy_id"))
        rows = await load_rows(self._store, read)
        quota_of = {uid: quota for uid, quota in rows if quota is not None}
        counted = [
            (quota_of[grant.execution_id], grant)
            for grant in unused
            if grant.execution_id in quota_of
        ]
        if not counted:
            return
        plans = [
            quotas.forget(quota, DEFAULT_DIMENSION, grant.issued_at_ms, grant.execution_id)
            for quota, grant in counted
        ]
        answers = await self._store.commit_many(plans)
        for quota in {
            quota
            for (quota, _), answer in zip(counted, answers, strict=True)
            if isinstance(answer, Applied)
        }:
            await self._store.commit(quotas.note_refund(quota))
            self._quota_cache.forget(quota)


def _phases(flow: FlowKey) -> Tally:
    """The number of members of a flow in each phase."""
    return Tally(
        "members", MAX_MEMBERS, ("lifecycle_phase",), {"partition_key": flow[0], "flow_id": flow[1]}
    )
