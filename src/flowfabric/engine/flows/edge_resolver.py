"""Edge resolution: the end of an upstream is counted in the groups of its downstreams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import starmap
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.flows.member_cancels import MemberCancels
from flowfabric.engine.flows.snapshots import MEMBER_COLUMNS, GroupKey, group_key
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.flow_links import Member, Upstream
from flowfabric.plan import Answer, Applied, Form, Plan
from flowfabric.rules.flows import edges
from flowfabric.rules.flows.flows import counted_as, passes_data
from flowfabric.store.port import GetAll, Read, Store

log = logging.getLogger("flowfabric.flows")

MAX_GROUPS = 500
MAX_TRIES = 10
FIRST_PAUSE_S = 0.002


class EndedUpstream(Struct):
    """An ended execution, its outgoing edges that are still open, and their groups."""

    upstream: Upstream
    open_edges: list[Edge]
    groups: set[GroupKey]


class Resolution(Struct):
    """The result of resolving edges.

    `ended` are downstream members that ended by it. `fired` are groups whose siblings are to be
    cancelled. `marked` are upstreams whose completion event was marked in the same commit.
    `unresolved` are groups that kept changing or cannot be counted.
    """

    ended: list[ExecutionId] = []
    fired: list[EdgeGroup] = []
    marked: set[UUID] = set()
    unresolved: set[GroupKey] = set()


class GroupChange(Struct):
    """The plans of one group."""

    key: GroupKey
    plans: list[Plan]
    counted: edges.GroupCount
    child: Member | None
    marked: list[UUID]


class _GroupRows(Struct):
    """Groups with their downstream members, open edges and the results passed along edges."""

    now_ms: int
    groups: dict[GroupKey, EdgeGroup]
    children: dict[UUID, Member]
    open_edges: set[UUID]
    results: dict[UUID, bytes | None]


Pairs = list[tuple[EndedUpstream, Edge]]
EdgesByGroup = dict[GroupKey, Pairs]


class EdgeResolver:
    """Resolves edges, one commit per group. A group is resolved by one call at a time."""

    def __init__(self, store: Store, members: MemberCancels) -> None:
        self._store, self._members = store, members
        self._busy: set[GroupKey] = set()
        self._released = asyncio.Event()

    async def resolve(self, upstreams: Sequence[EndedUpstream]) -> Resolution:
        """Counts these ends in every group they concern."""
        by_group: EdgesByGroup = {}
        for ended in upstreams:
            for edge in ended.open_edges:
                by_group.setdefault(group_key(edge), []).append((ended, edge))
        result = Resolution()
        left, tries = list(by_group), 0
        while left and tries < MAX_TRIES:
            mine = [key for key in left if key not in self._busy][:MAX_GROUPS]
            if not mine:
                self._released.clear()
                await self._released.wait()
                continue
            self._busy.update(mine)
            try:
                again = await self._try({key: by_group[key] for key in mine}, result)
            finally:
                self._busy.difference_update(mine)
                self._released.set()
            taken = set(mine)
            left = [*again, *(key for key in left if key not in taken)]
            if again:
                tries += 1
                await asyncio.sleep(FIRST_PAUSE_S * tries)
        if left:
            log.warning(
                "edge groups kept changing and are left to the reconciler",
                extra={"groups": len(left)},
            )
        result.unresolved.update(left)
        return result

    async def _try(self, by_group: EdgesByGroup, result: Resolution) -> list[GroupKey]:
        """One commit per group.

        The groups that changed meanwhile are returned to be tried again.
        """
        rows = await self._load(by_group)
        changes: list[GroupChange] = []
        for key, pairs in by_group.items():
            group = rows.groups.get(key)
            still_open = [pair for pair in pairs if pair[1].edge_id in rows.open_edges]
            if group is None or not still_open:
                continue
            change = await self._change(group, still_open, rows)
            if change is None:
                result.unresolved.add(key)
            else:
                changes.append(change)
        again: list[GroupKey] = []
        for change, answer in await self.commit(changes):
            if not isinstance(answer, Applied):
                again.append(change.key)
                continue
            result.marked.update(change.marked)
            if change.child is not None:
                result.ended += [change.child.id for plan in change.plans if plan.form.ends]
            if change.counted.cancels:
                result.fired.append(change.counted.group)
        return again

    async def _load(self, by_group: EdgesByGroup) -> _GroupRows:
        pairs = [pair for several in by_group.values() for pair in several]
        passing = [
            (edge.partition_key, edge.upstream_eid)
            for ended, edge in pairs
            if ended.upstream.terminal_outcome == "success" and passes_data(edge)
        ]
        edge_keys = [(edge.partition_key, edge.flow_id, edge.edge_id) for _, edge in pairs]
        child_keys = [(partition, child) for partition, _, child in by_group]
        reads: list[Read] = [
            GetAll("ff_edge_group", list(by_group)),
            GetAll("ff_exec_core", child_keys, MEMBER_COLUMNS),
            GetAll("ff_edge", edge_keys, ("edge_id", "dep_state")),
        ]
        if passing:
            reads.append(GetAll("ff_exec_core", passing, ("execution_id", "result")))
        loaded = await self._store.load(reads)
        groups, children, states, *results = loaded.rows
        return _GroupRows(
            loaded.now_ms,
            {group_key(group): group for group in starmap(EdgeGroup, groups)},
            {child.execution_id: child for child in starmap(Member, children)},
            {edge for edge, state in states if state == "unsatisfied"},
            {upstream: data for rows in results for upstream, data in rows},
        )

    async def _change(self, group: EdgeGroup, pairs: Pairs, rows: _GroupRows) -> GroupChange | None:
        counted = _count(group, pairs, rows)
        if counted is None:
            return None
        siblings = await self._members.siblings(group, counted.by) if counted.cancels else ()
        child = rows.children.get(group.downstream_eid)
        # A child that has ended may complete a flow whose parent is to be woken; the mark follows
        # the wake-up.
        marked = [
            ended.upstream.execution_id
            for ended, _ in pairs
            if len(ended.groups) == 1 and not (child and child.is_ended)
        ]
        plans = edges.resolve_group(
            counted, child, rows.now_ms, since=group.version, siblings=siblings, told=marked
        )
        return GroupChange(group_key(group), plans, counted, child, marked)

    async def commit(
        self, changes: list[GroupChange]
    ) -> list[tuple[GroupChange, Answer | BaseException]]:
        """Single plans are batched by form. Several plans of one change are one transaction."""
        by_form: dict[Form, list[GroupChange]] = {}
        for change in changes:
            if len(change.plans) == 1:
                (plan,) = change.plans
                by_form.setdefault(plan.form, []).append(change)
        several = [change for change in changes if len(change.plans) > 1]
        batches = list(by_form.values())
        batched, together = await asyncio.gather(
            asyncio.gather(
                *(
                    self._store.commit_many([plan for change in batch for plan in change.plans])
                    for batch in batches
                ),
                return_exceptions=True,
            ),
            asyncio.gather(
                *(self._store.commit_together(change.plans) for change in several),
                return_exceptions=True,
            ),
        )
        answered: list[tuple[GroupChange, Answer | BaseException]] = []
        for batch, answers in zip(batches, batched, strict=True):
            each = [answers] * len(batch) if isinstance(answers, BaseException) else answers
            answered += zip(batch, each, strict=True)
        return answered + list(zip(several, together, strict=True))


def _count(group: EdgeGroup, pairs: Pairs, rows: _GroupRows) -> edges.GroupCount | None:
    """Counts in the order of the ends. None when the counters of the group are inconsistent."""
    if len(pairs) > 1:
        pairs = sorted(pairs, key=lambda pair: (_ended_at(pair[0]), pair[1].edge_id.int))
    ends = [
        edges.UpstreamEnd(
            edge.edge_id,
            edge.upstream_eid,
            counted_as(edge, ended.upstream.terminal_outcome),
            edge.upstream_eid in rows.results and passes_data(edge),
            rows.results.get(edge.upstream_eid),
        )
        for ended, edge in pairs
    ]
    try:
        return edges.count_ends(group, ends, rows.now_ms)
    except Exception:  # an unreadable group does not block the others
        log.exception(
            "edge group cannot be counted",
            extra={"flow": str(group.flow_id), "downstream": str(group.downstream_eid)},
        )
        return None


def _ended_at(ended: EndedUpstream) -> int:
    return ended.upstream.terminal_at_ms or 0
