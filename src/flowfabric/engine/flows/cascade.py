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

from flowfabric.engine.flows.child_flows import PARENT_ENDED, ChildFlows, Wake
from flowfabric.engine.telemetry import NO_TELEMETRY
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import MAX_GRAPH_EDGES, CancelFlowPolicy, Cascaded, Edge, EdgeGroup, Flow
from flowfabric.model.flow_links import Member, Upstream
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Applied, Form, Plan
from flowfabric.rules.flows import cancels, edge_forms, edges
from flowfabric.rules.flows.flows import counted_as, passes_data
from flowfabric.store.port import GetAll, Row, ScanAll, Store

log = logging.getLogger("flowfabric.flows")

MAX_DEPTH = 50
MAX_ROUND = 500
MAX_BATCHES = 2
MAX_TRIES = 10
FIRST_PAUSE_S = 0.002
MAX_SIBLINGS = 1_024
MAX_EVENTS = 100
MAX_CHILD_FLOWS = 10_000
MEMBER_COLUMNS = Member.__struct_fields__
_COLUMNS = Execution.__struct_fields__
_CANCELLED_BY = (
    "partition_key",
    "execution_id",
    "lifecycle_phase",
    "ownership_state",
    "terminal_outcome",
    "public_state",
    "attempt_index",
    "total_attempt_count",
    "current_attempt_id",
    "current_lease_id",
    "current_worker_instance_id",
    "lease_epoch",
    "version",
)
_AT = tuple(_COLUMNS.index(column) for column in _CANCELLED_BY)
_EVENT_COLUMNS = ("event_id", "dispatched_at_ms", "outcome")
_UPSTREAM_COLUMNS = Upstream.__struct_fields__
_EDGE_STATE = ("edge_id", "dep_state")
GroupKey = tuple[int, UUID, UUID]


class _Job(Struct):
    idents: Sequence[ExecutionId]
    answer: asyncio.Future[Cascaded]


class _Ending(Struct):
    """An execution found ended, its outgoing edges that wait for that, and the groups these belong to."""

    upstream: Upstream
    open_edges: list[Edge]
    groups: set[GroupKey]


class _Round(Struct):
    """What a round has led to: who ended by it, which groups have siblings to cancel, of whose end everybody has heard.

    Groups in `broken` cannot be counted.
    """

    over: list[ExecutionId] = []
    fired: list[EdgeGroup] = []
    told: set[UUID] = set()
    broken: set[GroupKey] = set()


class _Try(Struct):
    """What is to be committed for one group."""

    key: GroupKey
    plans: list[Plan]
    counted: edges.GroupCount
    told: list[UUID]


Ends = dict[GroupKey, list[tuple[_Ending, Edge]]]


def _narrow(row: Row) -> Execution:
    """An execution of which only what a cancel asks for was read."""
    values: list[Any] = [None] * len(_COLUMNS)
    for at, value in zip(_AT, row, strict=True):
        values[at] = value
    return Execution(*values)


def _edge(row: Row) -> Edge:
    return Edge(*row)


def _group_of(edge: Edge) -> GroupKey:
    return edge.partition_key, edge.flow_id, edge.downstream_eid


class Cascade:
    """One per engine. Whoever ends something waits here until what follows has been done."""

    def __init__(self, store: Store, wake: Wake) -> None:
        self._store = store
        self.children = ChildFlows(store, self._cancel_children, wake)
        self._waiting: list[_Job] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = 0
        self._busy: set[GroupKey] = set()
        self._freed = asyncio.Event()
        self._untold: list[UUID] = []
        self.onlooker = NO_TELEMETRY

    def ended(self, idents: Sequence[ExecutionId]) -> asyncio.Future[Cascaded]:
        """Never fails: what could not be done is left to the reconciler."""
        job = _Job(idents, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        if self._draining < MAX_BATCHES:
            self._draining += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return job.answer

    @property
    def is_behind(self) -> bool:
        """So many wait that whoever ends more should wait as well."""
        return len(self._waiting) >= MAX_ROUND

    async def finish(self) -> None:
        """Waits until nothing is under way."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _drain(self) -> None:
        try:
            while self._waiting or self._untold:
                if not self._waiting:
                    await self._mark()
                    continue
                jobs, self._waiting = self._waiting, []
                log.debug(
                    "looking for what waits for the ends of %s", [job.idents for job in jobs[:5]]
                )
                tally = Cascaded()
                try:
                    tally = await self._run([ident for job in jobs for ident in job.idents])
                except Exception:
                    log.exception(
                        "dependencies of %d ended executions are left to the reconciler", len(jobs)
                    )
                for job in jobs:
                    if not job.answer.done():
                        job.answer.set_result(tally)
        finally:
            self._draining -= 1  # in the same breath as finding nothing, or a job that comes now would wait for nobody

    async def _mark(self) -> None:
        """Completion events whose consequences have been seen to are told to be; that may wait until there is time."""
        ended, self._untold = self._untold[:MAX_ROUND], self._untold[MAX_ROUND:]
        try:
            read = ScanAll(
                "completion_events_of", [(uid,) for uid in ended], MAX_EVENTS, _EVENT_COLUMNS
            )
            rows = (await self._store.load((read,))).rows[0]
            marks = [
                edge_forms.MARK_DISPATCHED(event_id=row[0])
                for row in rows
                if row[1] is None and row[2] != "resumable"
            ]
            if marks:
                await self._store.commit_many(marks)
        except Exception:
            log.warning("%d completion events stay undispatched for now", len(ended), exc_info=True)

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
        endings, child_flows = await self._endings(idents)
        ends: Ends = {}
        for ending in endings:
            for edge in ending.open_edges:
                ends.setdefault(_group_of(edge), []).append((ending, edge))
        done = _Round()
        left, tries = list(ends), 0
        while left and tries < MAX_TRIES:
            mine = [key for key in left if key not in self._busy][:MAX_ROUND]
            if not mine:
                self._freed.clear()
                await self._freed.wait()
                continue
            self._busy.update(mine)
            try:
                again = await self._settle({key: ends[key] for key in mine}, done)
            finally:
                self._busy.difference_update(mine)
                self._freed.set()
            taken = set(mine)
            left = [*again, *(key for key in left if key not in taken)]
            if again:
                tries += 1
                await asyncio.sleep(FIRST_PAUSE_S * tries)
        for group in done.fired:
            try:
                done.over += await self.cancel_siblings(group)
            except Exception:  # of this group only: the dispatcher looks at it again
                log.exception("siblings upstream of %s have to wait", group.downstream_eid)
        done.over += await self.children.cancel(child_flows)
        if left:
            log.warning("%d groups kept changing; the reconciler counts their edges", len(left))
        behind = {*left, *done.broken}
        seen = [
            e.upstream
            for e in endings
            if e.upstream.execution_id not in done.told and not e.groups & behind
        ]
        flows = [(up.partition_key, up.flow_id) for up in seen if up.flow_id and up.is_ended]
        failed = await self.children.wake_parents(flows)
        self._untold += [
            up.execution_id for up in seen if (up.partition_key, up.flow_id) not in failed
        ]
        return sum(len(ending.open_edges) for ending in endings), done.over

    async def _endings(self, idents: Sequence[ExecutionId]) -> tuple[list[_Ending], list[Flow]]:
        """Members of flows with their outgoing edges, and the flows of children of all that have ended."""
        keys = [(ident.partition_index, ident.uuid) for ident in idents]
        reads = (
            GetAll("ff_exec_core", keys, _UPSTREAM_COLUMNS),
            ScanAll("edges_out", keys, MAX_GRAPH_EDGES),
            ScanAll("children_of", keys, MAX_CHILD_FLOWS),
        )
        members, leaving, child_flows = (await self._store.load(reads)).rows
        ended = {row[1] for row in members if row[3] in ENDED_PHASES}
        found = {
            row[1]: _Ending(Upstream(*row), [], set()) for row in members if row[2] is not None
        }
        over = {
            uid for uid, ending in found.items() if ending.upstream.lifecycle_phase in ENDED_PHASES
        }
        waiting = [
            edge for edge in map(_edge, leaving) if edge.upstream_eid in over and edge.is_open
        ]
        unheard = await self._unheard(
            {e.upstream_eid for e in waiting if e.reset_at_ms is not None}
        )
        for edge in waiting:
            ending = found[edge.upstream_eid]
            if edges.counts_after_replay(
                edge, ending.upstream, unheard=edge.upstream_eid in unheard
            ):
                ending.open_edges.append(edge)
                ending.groups.add(_group_of(edge))
        return list(found.values()), [
            flow
            for flow in (Flow(*row) for row in child_flows)
            if flow.parent_execution_id in ended
        ]

    async def _cancel_children(self, partition: int, members: list[UUID]) -> list[ExecutionId]:
        return (await self.cancel_members(partition, members, PARENT_ENDED, "parent", told=True))[0]

    async def _unheard(self, ended: set[UUID]) -> set[UUID]:
        """Those of whose end nobody has seen to what follows."""
        if not ended:
            return set()
        read = ScanAll(
            "completion_events_of",
            [(uid,) for uid in ended],
            MAX_EVENTS,
            ("execution_id", *_EVENT_COLUMNS),
        )
        rows = (await self._store.load((read,))).rows[0]
        return {row[0] for row in rows if row[2] is None and row[3] != "resumable"}

    async def _settle(self, ends: Ends, done: _Round) -> list[GroupKey]:
        """One try at each group; those that moved meanwhile are to be tried again."""
        keys = list(ends)
        pairs = [pair for several in ends.values() for pair in several]
        good = [
            edge
            for ending, edge in pairs
            if ending.upstream.terminal_outcome == "success" and passes_data(edge)
        ]
        wanted = [(edge.partition_key, edge.upstream_eid) for edge in good]
        loaded = await self._store.load(
            (
                GetAll("ff_edge_group", keys),
                GetAll("ff_exec_core", [(key[0], key[2]) for key in keys], MEMBER_COLUMNS),
                GetAll(
                    "ff_edge",
                    [(e.partition_key, e.flow_id, e.edge_id) for _, e in pairs],
                    _EDGE_STATE,
                ),
                *((GetAll("ff_exec_core", wanted, ("execution_id", "result")),) if wanted else ()),
            )
        )
        groups = {row[:3]: EdgeGroup(*row) for row in loaded.rows[0]}
        children = {row[1]: Member(*row) for row in loaded.rows[1]}
        still_open = {row[0] for row in loaded.rows[2] if row[1] == "unsatisfied"}
        results: dict[UUID, bytes | None] = (
            {row[0]: row[1] for row in loaded.rows[3]} if wanted else {}
        )
        tried: list[_Try] = []
        for key in keys:
            here = [(ending, edge) for ending, edge in ends[key] if edge.edge_id in still_open]
            if key not in groups or not here:
                continue
            counted = self._count(groups[key], here, results, loaded.now_ms)
            if counted is None:
                done.broken.add(key)
                continue
            siblings = await self.siblings(groups[key], counted.by) if counted.cancels else ()
            child = children.get(key[2])
            # The end of a child whose join has ended may have to wake the parent: it is marked after that.
            told = [
                e.upstream.execution_id
                for e, _ in here
                if len(e.groups) == 1 and not (child and child.is_ended)
            ]
            plans = edges.resolve_group(
                counted,
                child,
                loaded.now_ms,
                since=groups[key].version,
                siblings=siblings,
                told=told,
            )
            tried.append(_Try(key, plans, counted, told))
        again: list[GroupKey] = []
        for one, answer in await self._commit(tried):
            if not isinstance(answer, Applied):
                again.append(one.key)
                continue
            done.told.update(one.told)
            done.over += [children[one.key[2]].id for plan in one.plans if plan.form.ends]
            if one.counted.cancels:
                done.fired.append(one.counted.group)
        return again

    def _count(
        self,
        group: EdgeGroup,
        here: list[tuple[_Ending, Edge]],
        results: dict[UUID, bytes | None],
        now_ms: int,
    ) -> edges.GroupCount | None:
        """In the order in which they ended; None when the group's counters make no sense."""
        if len(here) > 1:
            here = sorted(
                here, key=lambda pair: (pair[0].upstream.terminal_at_ms or 0, pair[1].edge_id)
            )
        ended = [
            edges.UpstreamEnd(
                edge.edge_id,
                edge.upstream_eid,
                counted_as(edge, ending.upstream.terminal_outcome),
                edge.upstream_eid in results and passes_data(edge),
                results.get(edge.upstream_eid),
            )
            for ending, edge in here
        ]
        try:
            return edges.count_ends(group, ended, now_ms)
        except Exception:  # one group that cannot be read must not hold up the others
            log.exception(
                "group of %s in flow %s cannot be counted", group.downstream_eid, group.flow_id
            )
            return None

    async def _commit(self, tried: list[_Try]) -> list[tuple[_Try, Any]]:
        """Plans of one form ride together; those that are several go each in a transaction of its own."""
        runs: dict[Form, list[_Try]] = {}
        for one in tried:
            if len(one.plans) == 1:
                runs.setdefault(one.plans[0].form, []).append(one)
        several = [one for one in tried if len(one.plans) > 1]
        said = await asyncio.gather(
            *(self._store.commit_many([one.plans[0] for one in run]) for run in runs.values()),
            *(self._store.commit_together(one.plans) for one in several),
            return_exceptions=True,
        )
        answers: list[tuple[_Try, Any]] = []
        for run, each in zip(runs.values(), said, strict=False):
            answers += zip(run, each if isinstance(each, list) else [each] * len(run), strict=True)
        return answers + list(zip(several, said[len(runs) :], strict=True))

    # ---- siblings of a group that has fired

    async def siblings(self, group: EdgeGroup, by: UUID | None) -> list[UUID]:
        """Upstreams of a group that are not over yet."""
        inbound = ScanAll(
            "edges_in",
            [(group.partition_key, group.downstream_eid)],
            MAX_GRAPH_EDGES,
            ("flow_id", "upstream_eid"),
        )
        rows = (await self._store.load((inbound,))).rows[0]
        others = dict.fromkeys(
            upstream for flow, upstream in rows if flow == group.flow_id and upstream != by
        )
        keys = [(group.partition_key, other) for other in others]
        states = (
            await self._store.load(
                (GetAll("ff_exec_core", keys, ("execution_id", "lifecycle_phase")),)
            )
        ).rows[0]
        return [uid for uid, phase in states if phase not in ENDED_PHASES]

    async def cancel_siblings(self, group: EdgeGroup) -> list[ExecutionId]:
        """Cancels whom a fired group has listed and takes it off the queue; who was cancelled by this call."""
        done: list[ExecutionId] = []
        for _ in range(MAX_TRIES):
            stored = await self._group(group)
            if stored is None or not stored.cancel_siblings_pending_flag:
                break
            owed = cancels.pending_siblings(stored)
            reason = stored.cancel_siblings_reason or "sibling_quorum_satisfied"
            for at in range(0, len(owed), MAX_SIBLINGS):
                some, left = await self.cancel_members(
                    stored.partition_key, owed[at : at + MAX_SIBLINGS], reason
                )
                done += some
                self.onlooker.siblings_cancelled(
                    reason, len(some), len(owed[at : at + MAX_SIBLINGS]) - len(some) - len(left)
                )
                if left:
                    return done
            # As it was before the cancels: a group that has fired anew since has others on its list.
            if isinstance(await self._store.commit(cancels.drain(stored)), Applied):
                break
        return done

    async def _group(self, group: EdgeGroup) -> EdgeGroup | None:
        key = (group.partition_key, group.flow_id, group.downstream_eid)
        rows = (await self._store.load((GetAll("ff_edge_group", [key]),))).rows[0]
        return EdgeGroup(*rows[0]) if rows else None

    async def cancel_members(
        self,
        partition: int,
        members: Iterable[UUID],
        reason: str,
        by: str = "operator_override",
        *,
        told: bool = False,
        policy: str = CancelFlowPolicy.CANCEL_ALL,
    ) -> tuple[list[ExecutionId], set[UUID]]:
        """Cancels those the policy is about, however they move meanwhile; whom, and who could not be settled."""
        left = set(members)
        done: list[ExecutionId] = []
        for tries in range(MAX_TRIES):
            loaded = await self._store.load(
                (GetAll("ff_exec_core", [(partition, uid) for uid in left], _CANCELLED_BY),)
            )
            alive = cancels.members_to_cancel([_narrow(row) for row in loaded.rows[0]], policy)
            if not alive:
                return done, set()
            if tries:
                await asyncio.sleep(FIRST_PAUSE_S * tries)
            plans = [
                (m.id, cancels.cancel_member(m, reason, by, loaded.now_ms, told=told))
                for m in alive
            ]
            plans.sort(key=lambda pair: pair[1].form.name)
            answers = await self._store.commit_many([plan for _, plan in plans])
            gone = [
                ident
                for (ident, _), answer in zip(plans, answers, strict=True)
                if isinstance(answer, Applied)
            ]
            done += gone
            left = {member.execution_id for member in alive}.difference(
                ident.uuid for ident in gone
            )
        return done, left
