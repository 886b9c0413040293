"""Forgetting what ended long ago."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.claims.quota_cache import QuotaCache
from flowfabric.engine.core import Core
from flowfabric.engine.filters import checked_filter, passes
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row
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
from flowfabric.store.port import GetAll, Scan, ScanAll, Tally

MAX_EVENTS = 100
_TOLD = ("event_id", "execution_id", "dispatched_at_ms", "outcome")
MAX_MEMBERS = 1_000_000
_PARENT = ("partition_key", "flow_id", "parent_partition", "parent_execution_id")
_HOLDER = ("namespace", "idempotency_key", "partition_key", "execution_id")
_WAITING = ("edge_id", "upstream_eid", "dep_state")


class Retention:
    """Removes ended executions past their retention."""

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
        """Deletes ended executions of a lane past their time, oldest first, with everything that
        belongs to them.

        The time is their own policy's, else `retention_ms`, else that of the settings for the way
        they ended.
        """
        checked = lane_id(lane)
        checked_filter(wanted)
        ages = (self._core.settings.retention_completed_ms, self._core.settings.retention_failed_ms)
        if retention_ms is not None:
            ages = (validation.whole(retention_ms, "retention_ms", 0, 2**53),) * 2
        at = await self._store.now_ms() if now is None else validation.timestamp(now, "now")
        size = validation.limit(batch, retention.MAX_TRIM_BATCH, "batch")
        where = None if partition is None else partition_key(partition, "partition")
        due: list[Execution] = []
        for index, upto in (("ended", at - ages[0]), ("failed", at - ages[1]), ("retained", at)):
            due += await self._due(index, checked, upto, size, where, wanted)
        due.sort(key=lambda e: (e.terminal_at_ms or 0, e.execution_id))
        return await self._trim(due[:size])

    async def _trim(self, due: list[Execution]) -> int:
        """A flow goes with its last members, in one commit; other members and executions go one by
        one.
        """
        members: dict[tuple[int, UUID], list[Execution]] = {}
        for each in due:
            if each.flow_id is not None:
                members.setdefault((each.partition_key, each.flow_id), []).append(each)
        whole = await self._last_of(members)
        ends = [e for e in due if e.flow_id is None or (e.partition_key, e.flow_id) not in whole]
        answers: list[object] = (
            list(await self._store.commit_many([retention.trim(e) for e in ends])) if ends else []
        )
        for key, flow in whole.items():
            answer = await self._store.commit_together(retention.trim_whole(flow, members[key]))
            answers += [answer] * len(members[key])
        return sum(isinstance(answer, Applied) for answer in answers)

    async def _last_of(
        self, members: dict[tuple[int, UUID], list[Execution]]
    ) -> dict[tuple[int, UUID], Flow]:
        """Flows that have no other members than these."""
        if not members:
            return {}
        keys = list(members)
        found = (await self._store.load((GetAll("ff_flow_core", keys), *map(_phases, keys)))).rows
        flows = {(row[0], row[1]): Flow(*row) for row in found[0]}
        counted = {
            key: sum(row[-1] for row in tally) for key, tally in zip(keys, found[1:], strict=True)
        }
        return {key: flow for key, flow in flows.items() if counted[key] == len(members[key])}

    async def _due(
        self,
        index: str,
        lane: str,
        upto: int,
        size: int,
        partition: int | None,
        wanted: ScannerFilter | None,
    ) -> list[Execution]:
        found: list[Execution] = []
        after = None
        while len(found) < size:
            loaded = await self._store.load(
                (Scan(index, {"lane_id": lane}, after, upto, size, CORE_COLUMNS),)
            )
            page = [from_core_row(row) for row in loaded.rows[0]]
            held = await self._waited_for([e for e in page if e.flow_id is not None])
            here = [e for e in page if partition is None or e.partition_key == partition]
            found += [e for e in here if passes(e, wanted) and e.id not in held]
            if len(page) < size:
                break
            last = page[-1]
            after = (
                last.retain_until_ms if index == "retained" else last.terminal_at_ms,
                last.execution_id,
            )
        return found

    async def _waited_for(self, members: list[Execution]) -> set[ExecutionId]:
        """Members of flows that unfinished work may still read: an end that is not dispatched, or a
        flow or parent not ended.
        """
        if not members:
            return set()
        told = ScanAll(
            "completion_events_of", [(e.execution_id,) for e in members], MAX_EVENTS, _TOLD
        )
        waiting = ScanAll(
            "edges_out",
            [(e.partition_key, e.execution_id) for e in members],
            MAX_GRAPH_EDGES,
            _WAITING,
        )
        events, edges = (await self._store.load((told, waiting))).rows
        unheard = {row[1] for row in events if row[2] is None and is_end(row[3])} | {
            row[1] for row in edges if row[2] == "unsatisfied"
        }
        unfinished = await self._unfinished(
            dict.fromkeys((e.partition_key, e.flow_id) for e in members)
        )
        return {
            e.id
            for e in members
            if e.execution_id in unheard or (e.partition_key, e.flow_id) in unfinished
        }

    async def _unfinished(
        self, flows: Iterable[tuple[int, UUID | None]]
    ) -> set[tuple[int, UUID | None]]:
        """Flows with a member that has not ended, and flows of children whose parent has not."""
        keys = list(flows)
        found = (
            await self._store.load((GetAll("ff_flow_core", keys, _PARENT), *map(_phases, keys)))
        ).rows
        parents = {(row[0], row[1]): (row[2], row[3]) for row in found[0] if row[3] is not None}
        phases: dict[Any, str] = {}
        if parents:
            read = GetAll(
                "ff_exec_core",
                list(set(parents.values())),
                ("partition_key", "execution_id", "lifecycle_phase"),
            )
            phases = {(row[0], row[1]): row[2] for row in (await self._store.load((read,))).rows[0]}
        return {
            key
            for key, tally in zip(keys, found[1:], strict=True)
            if retention.is_unfinished([row[0] for row in tally], phases.get(parents.get(key)))
        }

    async def forget_idempotency_keys(self, limit: int = 1_000) -> int:
        """Drops keys past their time, or leaves them to their executions where these are kept; how
        many.
        """
        size = validation.limit(limit, retention.MAX_TRIM_BATCH)
        now = await self._store.now_ms()
        loaded = await self._store.load((Scan("idempotency", upto=now, limit=size),))
        due = [row[:4] for row in loaded.rows[0]]
        if not due:
            return 0
        named = GetAll("ff_exec_core", [row[2:] for row in due], _HOLDER)
        kept = {tuple(row) for row in (await self._store.load((named,))).rows[0]}
        plans = [retention.forget_key(row, now, kept=row in kept) for row in due]
        return sum(isinstance(answer, Applied) for answer in await self._store.commit_many(plans))

    async def drop_expired_grants(self, limit: int = 1_000) -> int:
        """Drops grants nobody used in time; how many."""
        size = validation.limit(limit, retention.MAX_TRIM_BATCH)
        now = await self._store.now_ms()
        loaded = await self._store.load((Scan("grants", upto=now - 1, limit=size),))
        found = [Grant(*row) for row in loaded.rows[0]]
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
        """Who never started has not used up his place in the window."""
        keys = [(grant.partition_key, grant.execution_id) for grant in unused]
        rows = (
            await self._store.load(
                (GetAll("ff_exec_core", keys, ("execution_id", "quota_policy_id")),)
            )
        ).rows[0]
        quota_of = {row[0]: row[1] for row in rows if row[1] is not None}
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


def _phases(flow: tuple[int, UUID | None]) -> Tally:
    """How many members of a flow are in which phase."""
    return Tally(
        "members", MAX_MEMBERS, ("lifecycle_phase",), {"partition_key": flow[0], "flow_id": flow[1]}
    )
