"""What follows when executions of a flow end: their edges are counted, and those that waited go on or are skipped.

Runs right after the commit that ended them, for all that ended meanwhile at once, one round after the other. Everything in it
may be repeated: a crash in between leaves the completion event undispatched, and the reconciler starts again from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import MAX_GRAPH_EDGES, Cascaded, Edge, EdgeGroup, Member
from flowfabric.plan import Applied, Form, Plan
from flowfabric.rules import edges, flow_cancels
from flowfabric.rules.flows import passes_data
from flowfabric.store.port import GetAll, ScanAll, Store

log = logging.getLogger("flowfabric.flows")

MAX_DEPTH = 50
MAX_ROUND = 500
MAX_TRIES = 10
FIRST_PAUSE_S = 0.002
MAX_SIBLINGS = 1_024
MEMBER_COLUMNS = Member.__struct_fields__
_LIGHT = Execution.__struct_fields__[:-2]
_EVENT_COLUMNS = ("execution_id", "event_id", "outcome", "dispatched_at_ms")
_EDGE_STATE = ("edge_id", "dep_state")
GroupKey = tuple[int, UUID, UUID]


class _Job(Struct):
    idents: Sequence[ExecutionId]
    answer: asyncio.Future[Cascaded]


class _Ending(Struct):
    """An execution found ended, its outgoing edges that wait for that, and the events that told of it."""

    member: Member
    open_edges: list[Edge]
    events: list[int]


class Cascade:
    """One per engine. Whoever ends something waits here until what follows has been done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Job] = []
        self._task: asyncio.Task[None] | None = None
        self._marks: list[Plan] = []

    def ended(self, idents: Sequence[ExecutionId]) -> asyncio.Future[Cascaded]:
        """Never fails: what could not be done is left to the reconciler."""
        job = _Job(idents, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return job.answer

    async def finish(self) -> None:
        """Waits until nothing is under way."""
        while self._task is not None and not self._task.done():
            await asyncio.wait((self._task,))

    async def _drain(self) -> None:
        while self._waiting or self._marks:
            if not self._waiting:
                await self._mark()
                continue
            jobs, self._waiting = self._waiting, []
            tally = Cascaded()
            try:
                tally = await self._run([ident for job in jobs for ident in job.idents])
            except Exception:
                log.exception("dependencies of %d ended executions are left to the reconciler", len(jobs))
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_result(tally)

    async def _mark(self) -> None:
        marks, self._marks = self._marks, []
        try:
            await self._store.commit_many(marks)
        except Exception:
            log.warning("%d completion events stay undispatched for now", len(marks), exc_info=True)

    async def _run(self, idents: Sequence[ExecutionId]) -> Cascaded:
        resolved = cascaded = 0
        level = list(dict.fromkeys(idents))
        for depth in range(MAX_DEPTH + 1):
            cascaded += len(level) if depth else 0
            following: list[ExecutionId] = []
            for at in range(0, len(level), MAX_ROUND):
                count, skipped = await self._round(level[at : at + MAX_ROUND])
                resolved += count
                following += skipped
            if not following:
                break
            level = list(dict.fromkeys(following))
        return Cascaded(resolved, cascaded)

    async def _round(self, idents: Sequence[ExecutionId]) -> tuple[int, list[ExecutionId]]:
        """All edges that leave these executions; how many, and which executions ended because of it."""
        endings = await self._endings(idents)
        ends: dict[GroupKey, list[tuple[_Ending, Edge]]] = {}
        for ending in endings:
            for edge in ending.open_edges:
                ends.setdefault((edge.partition_key, edge.flow_id, edge.downstream_eid), []).append((ending, edge))
        over: list[ExecutionId] = []
        fired: list[EdgeGroup] = []
        left: set[GroupKey] = set(ends)
        for tries in range(MAX_TRIES):
            if not left:
                break
            if tries:
                await asyncio.sleep(FIRST_PAUSE_S * tries)
            left = await self._settle({key: ends[key] for key in left}, over, fired)
        for group in fired:
            over += await self.cancel_siblings(group)
        for ending in endings:
            if not any((e.partition_key, e.flow_id, e.downstream_eid) in left for e in ending.open_edges):
                self._marks += [edges.MARK_DISPATCHED(ending.member.partition_key, event_id=event) for event in ending.events]
        if left:
            log.warning("%d groups kept changing; the reconciler counts their edges", len(left))
        return sum(len(ending.open_edges) for ending in endings), over

    async def _endings(self, idents: Sequence[ExecutionId]) -> list[_Ending]:
        keys = [(ident.partition_index, ident.uuid) for ident in idents]
        loaded = await self._store.load(
            (
                GetAll("ff_exec_core", keys, MEMBER_COLUMNS),
                ScanAll("edges_out", keys, MAX_GRAPH_EDGES),
                ScanAll("completion_events_of", [(key[1],) for key in keys], 100, _EVENT_COLUMNS),
            )
        )
        members = {row[1]: Member(*row) for row in loaded.rows[0]}
        found = {uid: _Ending(member, [], []) for uid, member in members.items() if member.flow_id is not None}
        for uid, event, outcome, dispatched in loaded.rows[2]:
            if dispatched is None and outcome != "resumable" and uid in found:
                found[uid].events.append(event)
        for row in loaded.rows[1]:
            edge = Edge(*row)
            ending = found.get(edge.upstream_eid)
            if ending is None or not ending.member.is_ended or not edge.is_open:
                continue
            if edges.counts_again(edge, ending.member, unheard=bool(ending.events)):
                ending.open_edges.append(edge)
        return list(found.values())

    async def _settle(
        self, ends: dict[GroupKey, list[tuple[_Ending, Edge]]], over: list[ExecutionId], fired: list[EdgeGroup]
    ) -> set[GroupKey]:
        """One try at each group; those that moved meanwhile are to be tried again."""
        keys = list(ends)
        results = [
            (ending.member.partition_key, ending.member.execution_id)
            for several in ends.values()
            for ending, edge in several
            if ending.member.terminal_outcome == "success" and passes_data(edge)
        ]
        loaded = await self._store.load(
            (
                GetAll("ff_edge_group", keys),
                GetAll("ff_exec_core", [(key[0], key[2]) for key in keys], MEMBER_COLUMNS),
                GetAll("ff_exec_core", results, ("execution_id", "result")),
                GetAll("ff_edge", [(e.partition_key, e.flow_id, e.edge_id) for s in ends.values() for _, e in s], _EDGE_STATE),
            )
        )
        groups = {row[:3]: EdgeGroup(*row) for row in loaded.rows[0]}
        children = {row[1]: Member(*row) for row in loaded.rows[1]}
        payloads: dict[UUID, bytes | None] = {row[0]: row[1] for row in loaded.rows[2]}
        still_open = {row[0] for row in loaded.rows[3] if row[1] == "unsatisfied"}
        left: set[GroupKey] = set()
        singles: list[tuple[GroupKey, Plan]] = []
        several_plans: list[tuple[GroupKey, list[Plan]]] = []
        counted: dict[GroupKey, edges.Count] = {}
        for key in keys:
            group = groups.get(key)
            if group is None:
                continue
            counts = self._count(group, [(a, e) for a, e in ends[key] if e.edge_id in still_open], payloads, loaded.now_ms)
            if counts is None:
                continue
            siblings = await self.siblings(group, counts.by) if counts.cancels else []
            plans = edges.settle(counts, children.get(key[2]), siblings, loaded.now_ms, since=group.version)
            counted[key] = counts
            if len(plans) == 1:
                singles.append((key, plans[0]))
            else:
                several_plans.append((key, plans))
        for key, plans, answer in await self._commit(singles, several_plans):
            if not isinstance(answer, Applied):
                left.add(key)
                continue
            over += [children[key[2]].id for plan in plans if plan.form.ends]
            if counted[key].cancels:
                fired.append(counted[key].group)
        return left

    def _count(
        self, group: EdgeGroup, several: list[tuple[_Ending, Edge]], payloads: dict[UUID, bytes | None], now_ms: int
    ) -> edges.Count | None:
        if not several:
            return None
        several = sorted(several, key=lambda pair: (pair[0].member.terminal_at_ms or 0, pair[1].edge_id))
        ended = [
            edges.Ended(
                edge.edge_id,
                edge.upstream_eid,
                ending.member.terminal_outcome,
                edge.upstream_eid in payloads and passes_data(edge),
                payloads.get(edge.upstream_eid),
            )
            for ending, edge in several
        ]
        try:
            return edges.count(group, ended, now_ms)
        except Exception:
            log.exception("group of %s in flow %s cannot be counted", group.downstream_eid, group.flow_id)
            return None

    async def _commit(
        self, singles: list[tuple[GroupKey, Plan]], together: list[tuple[GroupKey, list[Plan]]]
    ) -> list[tuple[GroupKey, list[Plan], Any]]:
        """Plans of one form ride together; those that are several go each in a transaction of its own."""
        by_form: dict[Form, list[tuple[GroupKey, Plan]]] = {}
        for key, plan in singles:
            by_form.setdefault(plan.form, []).append((key, plan))
        runs = [self._store.commit_many([plan for _, plan in run]) for run in by_form.values()]
        alone = [self._store.commit_together(plans) for _, plans in together]
        said = await asyncio.gather(*runs, *alone, return_exceptions=True)
        done: list[tuple[GroupKey, list[Plan], Any]] = []
        for run, answers in zip(by_form.values(), said, strict=False):
            each = answers if isinstance(answers, list) else [answers] * len(run)
            done += [(key, [plan], answer) for (key, plan), answer in zip(run, each, strict=True)]
        done += [(key, plans, answer) for (key, plans), answer in zip(together, said[len(runs) :], strict=True)]
        return done

    # ---- siblings of a group that has fired

    async def siblings(self, group: EdgeGroup, by: UUID | None) -> list[UUID]:
        """Upstreams of a group that are not over yet."""
        inbound = ScanAll("edges_in", [(group.partition_key, group.downstream_eid)], MAX_GRAPH_EDGES)
        found = [Edge(*row) for row in (await self._store.load((inbound,))).rows[0]]
        others = dict.fromkeys(e.upstream_eid for e in found if e.flow_id == group.flow_id and e.upstream_eid != by)
        keys = [(group.partition_key, other) for other in others]
        loaded = await self._store.load((GetAll("ff_exec_core", keys, MEMBER_COLUMNS),))
        return [member.execution_id for row in loaded.rows[0] if not (member := Member(*row)).is_ended]

    async def cancel_siblings(self, group: EdgeGroup) -> list[ExecutionId]:
        """Cancels whom a fired group has listed and takes it off the queue; who was cancelled by this call."""
        done: list[ExecutionId] = []
        for _ in range(MAX_TRIES):
            stored = await self._group(group)
            if stored is None or not stored.cancel_siblings_pending_flag:
                break
            owed = flow_cancels.owed_siblings(stored)
            reason = stored.cancel_siblings_reason or "sibling_quorum_satisfied"
            for at in range(0, len(owed), MAX_SIBLINGS):
                some, unsettled = await self.cancel_members(stored.partition_key, owed[at : at + MAX_SIBLINGS], reason)
                done += some
                if unsettled:
                    return done
            # As it was before the cancels: a group that has fired anew since has others on its list.
            if isinstance(await self._store.commit(flow_cancels.drain(stored)), Applied):
                break
        return done

    async def _group(self, group: EdgeGroup) -> EdgeGroup | None:
        key = (group.partition_key, group.flow_id, group.downstream_eid)
        rows = (await self._store.load((GetAll("ff_edge_group", [key]),))).rows[0]
        return EdgeGroup(*rows[0]) if rows else None

    async def cancel_members(
        self, partition: int, members: Iterable[UUID], reason: str, by: str = "operator_override", *, told: bool = False
    ) -> tuple[list[ExecutionId], bool]:
        """Cancels those that are not over, however they move meanwhile; whom, and whether any could not be settled."""
        wanted = list(members)
        done: list[ExecutionId] = []
        for tries in range(MAX_TRIES):
            loaded = await self._store.load((GetAll("ff_exec_core", [(partition, uid) for uid in wanted], _LIGHT),))
            alive = [Execution(*(*row, None, None)) for row in loaded.rows[0]]
            alive = [member for member in alive if member.lifecycle_phase not in ("terminal", "cancelled")]
            if not alive:
                return done, False
            if tries:
                await asyncio.sleep(FIRST_PAUSE_S * tries)
            plans = [flow_cancels.cancel_member(m, reason, by, loaded.now_ms, told=told) for m in alive]
            order = sorted(range(len(plans)), key=lambda at: plans[at].form.name)
            answers = await self._store.commit_many([plans[at] for at in order])
            done += [alive[at].id for at, answer in zip(order, answers, strict=True) if isinstance(answer, Applied)]
            gone = {ident.uuid for ident in done}
            wanted = [member.execution_id for member in alive if member.execution_id not in gone]
        return done, bool(wanted)
