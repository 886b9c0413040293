"""What each bulk action decides about the executions of a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import starmap
from typing import Protocol
from uuid import UUID

from flowfabric.engine.bulk.recheck import RECHECKED
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import CORE_COLUMNS, check_readable, load_one
from flowfabric.engine.workers.retention import Retention
from flowfabric.errors import EngineError, StateError, StateKind
from flowfabric.ids import new_attempt_id
from flowfabric.model.attempt import Attempt
from flowfabric.model.bulk import BulkAction, BulkArgs, Why
from flowfabric.model.execution import CreateExecutionArgs, Execution, Lane, stored_tags
from flowfabric.model.flow import MAX_GRAPH_EDGES, Edge, EdgeGroup
from flowfabric.model.policy import stored_policy
from flowfabric.model.quota import Attached
from flowfabric.rules.decision import Commit, Decision, Reject, Snapshot
from flowfabric.rules.executions import moves, operator_actions, replay
from flowfabric.rules.fragments import details
from flowfabric.rules.limits.limit_scopes import NOTHING, Scopes, attached
from flowfabric.rules.states import is_ended
from flowfabric.rules.workers import retention
from flowfabric.store.port import Get, GetAll, ScanAll

Decisions = Mapping[UUID, Decision]
"""By the uuid of the execution."""
Rule = Callable[[Execution, int], Decision]
PAGE_SIZES = {BulkAction.REPLAY: 200, BulkAction.RETRY: 200, BulkAction.DELETE: 200}
"""Fewer than usual, because each execution takes further reads and writes."""
PAGE_SIZE = 1_000
CANCEL_COLUMNS = (
    "partition_key",
    "execution_id",
    "flow_id",
    "lifecycle_phase",
    "ownership_state",
    "terminal_outcome",
    "attempt_index",
    "total_attempt_count",
    "current_attempt_id",
    "current_lease_id",
    "lease_epoch",
    "version",
    *RECHECKED,
)
"""The columns that a cancel depends on."""


class PageAction(Protocol):
    """Decides about executions that match. They have been read at `now`, with some `columns`."""

    columns: tuple[str, ...]

    def decide(self, executions: Sequence[Execution], now: int) -> Awaitable[Decisions]: ...


def decided(executions: Sequence[Execution], now: int, rule: Rule) -> dict[UUID, Decision]:
    """The decision about each; a row that cannot be read is refused."""
    return {each.execution_id: _one(each, now, rule) for each in executions}


def _one(execution: Execution, now: int, rule: Rule) -> Decision:
    try:
        return rule(execution, now)
    except EngineError as error:
        return Reject(error)


class RowAction:
    """An action that depends on nothing but the row."""

    def __init__(self, rule: Rule, columns: tuple[str, ...] = CORE_COLUMNS) -> None:
        self._rule, self.columns = rule, columns

    async def decide(self, executions: Sequence[Execution], now: int) -> Decisions:
        return decided(executions, now, self._rule)


class MoveAction:
    """Moves executions to a lane, where they have the limits of that lane."""

    columns = CORE_COLUMNS

    def __init__(self, core: Core, limit_cache: LimitCache, lane: str, why: Why) -> None:
        self._store, self._limit_cache = core.store, limit_cache
        self._lane, self._why = lane, why

    async def decide(self, executions: Sequence[Execution], now: int) -> Decisions:
        lane = await load_one(self._store, Get("ff_lane_registry", (self._lane,)), Lane)
        scopes = await self._limit_cache.scopes()
        gates: dict[tuple[str, str], Attached] = {}

        def rule(execution: Execution, now: int) -> Decision:
            limits = limits_in(check_readable(execution), self._lane, scopes)
            gates[execution.namespace, limits.gate] = limits
            found = Snapshot(now, execution, lane=lane)
            return moves.move(found, self._lane, limits, self._why)

        decisions = decided(executions, now, rule)
        for (namespace, _), limits in gates.items():
            await self._limit_cache.register_gate(self._lane, namespace, limits)
        return decisions


def limits_in(execution: Execution, lane: str, scopes: Scopes) -> Attached:
    """The limits that an execution would have, had it been created in this lane."""
    policy = stored_policy(execution.policy, execution.id)
    if not scopes and policy is None:
        return NOTHING
    args = CreateExecutionArgs(
        execution_id=execution.id,
        lane_id=lane,
        namespace=execution.namespace,
        tags=stored_tags(execution.tags, execution.id),
    )
    return attached(args, policy, scopes, execution.flow_id)


class ReplayAction:
    """Replays ended executions, members of flows with their edge groups."""

    columns = CORE_COLUMNS

    def __init__(self, core: Core, why: Why) -> None:
        self._store, self._why = core.store, why

    async def decide(self, executions: Sequence[Execution], now: int) -> Decisions:
        keys = [(each.partition_key, each.execution_id) for each in executions]
        members = [each for each in executions if each.flow_id is not None]
        inbound = [(each.partition_key, each.execution_id) for each in members]
        reads = (
            ScanAll("last_attempt", keys, 1),
            GetAll(
                "ff_edge_group",
                [(each.partition_key, each.flow_id, each.execution_id) for each in members],
            ),
            ScanAll("edges_in", inbound, MAX_GRAPH_EDGES),
        )
        attempt_rows, group_rows, edge_rows = (await self._store.load(reads)).rows
        attempts = {each.execution_id: each for each in starmap(Attempt, attempt_rows)}
        groups: dict[UUID, list[EdgeGroup]] = {}
        for group in starmap(EdgeGroup, group_rows):
            groups.setdefault(group.downstream_eid, []).append(group)
        edges: dict[UUID, list[Edge]] = {}
        for edge in starmap(Edge, edge_rows):
            edges.setdefault(edge.downstream_eid, []).append(edge)
        kept, flows = await self._upstreams(edges)

        def rule(execution: Execution, now: int) -> Decision:
            uid = execution.execution_id
            inbound = edges.get(uid, [])
            if inbound and (inbound[0].partition_key, inbound[0].flow_id) in flows:
                refused = replay.check_upstreams([e.upstream_eid for e in inbound], kept)
                if refused is not None:
                    return Reject(refused)
            found = Snapshot(
                now,
                execution,
                attempts.get(uid),
                edge_groups=tuple(groups.get(uid, ())),
                edges=tuple(inbound),
            )
            return replay.replay(
                found,
                attempt_id=new_attempt_id(),
                now_ms=None,
                reason=self._why.reason or None,
                requested_by=self._why.requested_by or None,
                job_id=self._why.job_id,
            )

        return decided(executions, now, rule)

    async def _upstreams(
        self, edges: Mapping[UUID, Sequence[Edge]]
    ) -> tuple[set[UUID], set[tuple[int, UUID]]]:
        """The upstreams that are stored, and the flows."""
        listed = [edge for several in edges.values() for edge in several]
        if not listed:
            return set(), set()
        members = dict.fromkeys((edge.partition_key, edge.upstream_eid) for edge in listed)
        flows = dict.fromkeys((edge.partition_key, edge.flow_id) for edge in listed)
        reads = (
            GetAll("ff_exec_core", list(members), ("execution_id",)),
            GetAll("ff_flow_core", list(flows), ("partition_key", "flow_id")),
        )
        stored, known = (await self._store.load(reads)).rows
        return {uid for (uid,) in stored}, {(at, flow) for at, flow in known}


class DeleteAction:
    """Deletes ended executions that nothing unfinished may read, flows with their last member.

    Without a `why`, no event is written.
    """

    columns = CORE_COLUMNS

    def __init__(self, part: Retention, why: Why | None) -> None:
        self._retention, self._why = part, why

    async def decide(self, executions: Sequence[Execution], now: int) -> Decisions:
        ended = [each for each in executions if is_ended(each)]
        free, whole = await self._retention.removable(ended)
        decisions: dict[UUID, Decision] = {each.execution_id: _kept(each) for each in executions}
        for each in free:
            why = self._why
            plan = retention.trim(each) if why is None else retention.delete(each, why, now)
            flow = whole.pop((each.partition_key, each.flow_id), None) if each.flow_id else None
            if flow is None:
                decisions[each.execution_id] = Commit(plan)
            else:
                decisions[each.execution_id] = Commit(retention.delete_flow(flow), first=(plan,))
        return decisions


def _kept(execution: Execution) -> Reject:
    kind = StateKind.STILL_NEEDED if is_ended(execution) else StateKind.NOT_ENDED
    return Reject(StateError(kind))


def cancel(why: Why) -> PageAction:
    told = details(why)
    return RowAction(
        lambda execution, now: operator_actions.cancel_by_job(execution, why.reason, told, now),
        CANCEL_COLUMNS,
    )


class PageActions:
    """Builds the action of a job."""

    def __init__(self, core: Core, limit_cache: LimitCache, retention: Retention) -> None:
        self._core, self._limit_cache, self._retention = core, limit_cache, retention

    def action(self, args: BulkArgs, why: Why) -> PageAction:
        match args.action:
            case BulkAction.CANCEL:
                return cancel(why)
            case BulkAction.RETRY | BulkAction.REPLAY:
                return self.replay(why)
            case BulkAction.PRIORITY:
                priority = args.priority or 0
                return RowAction(
                    lambda execution, now: operator_actions.change_priority(
                        Snapshot(now, execution), priority, None, why
                    )
                )
            case BulkAction.MOVE:
                return self.move(args.lane or "", why)
            case BulkAction.RELEASE:
                return self.release(why)
            case BulkAction.DELETE:
                return self.delete(why)
            case BulkAction.ERASE:
                return DeleteAction(self._retention, None)

    def replay(self, why: Why) -> PageAction:
        return ReplayAction(self._core, why)

    def move(self, lane: str, why: Why) -> PageAction:
        return MoveAction(self._core, self._limit_cache, lane, why)

    def release(self, why: Why) -> PageAction:
        return RowAction(lambda execution, now: moves.release(Snapshot(now, execution), why))

    def delete(self, why: Why) -> PageAction:
        return DeleteAction(self._retention, why)
