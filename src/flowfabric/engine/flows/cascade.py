"""What follows when executions of a flow end: their edges are counted, and those that waited go on or are skipped.

Runs right after the commit that ended them, for all that ended meanwhile at once, one round after the other. Everything in it
may be repeated: a crash in between leaves the completion event undispatched, and the reconciler starts again from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.batcher import Batcher
from flowfabric.engine.flows.child_flows import PARENT_ENDED, ChildFlows, Wake
from flowfabric.engine.flows.member_cancels import MemberCancels
from flowfabric.engine.telemetry import TelemetrySlot
from flowfabric.ids import ExecutionId
from flowfabric.model.event import is_end
from flowfabric.model.flow import (
    MAX_GRAPH_EDGES,
    CancelFlowPolicy,
    Cascaded,
    Edge,
    EdgeGroup,
    Flow,
    Member,
    Upstream,
)
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Applied, Form, Plan
from flowfabric.rules.flows import edges
from flowfabric.rules.flows.flows import counted_as, passes_data
from flowfabric.store.port import GetAll, Row, ScanAll, Store

log = logging.getLogger("flowfabric.flows")

MAX_DEPTH = 50
MAX_ROUND = 500
MAX_BATCHES = 2
MAX_CALLS = 10_000
MAX_TRIES = 10
FIRST_PAUSE_S = 0.002
MAX_EVENTS = 100
MAX_CHILD_FLOWS = 10_000
MEMBER_COLUMNS = Member.__struct_fields__
_EVENT_COLUMNS = ("event_id", "dispatched_at_ms", "outcome")
_UPSTREAM_COLUMNS = Upstream.__struct_fields__
_EDGE_STATE = ("edge_id", "dep_state")
GroupKey = tuple[int, UUID, UUID]


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
    counted: edges.Count
    told: list[UUID]


Ends = dict[GroupKey, list[tuple[_Ending, Edge]]]


def _edge(row: Row) -> Edge:
    return Edge(*row)


def _group_of(edge: Edge) -> GroupKey:
    return edge.partition_key, edge.flow_id, edge.downstream_eid


class Cascade:
    """One per engine. Whoever ends something waits here until what follows has been done."""

    def __init__(self, store: Store, wake: Wake, telemetry: TelemetrySlot) -> None:
        self._store = store
        self.members = MemberCancels(store, telemetry)
        self.children = ChildFlows(store, self._cancel_children, wake)
        self._ends: Batcher[None, Sequence[ExecutionId], Cascaded] = Batcher(
            self._follow,
            MAX_CALLS,
            in_flight=MAX_BATCHES,
            keeps_cancelled=True,
            idle=self._mark_untold,
        )
        self._busy: set[GroupKey] = set()
        self._freed = asyncio.Event()
        self._untold: list[UUID] = []

    def ended(self, idents: Sequence[ExecutionId]) -> asyncio.Future[Cascaded]:
        """Never fails: what could not be done is left to the reconciler."""
        return self._ends.submit(None, idents)

    async def end_members(
        self,
        partition: int,
        members: Iterable[UUID],
        reason: str,
        by: str = "operator_override",
        *,
        told: bool = False,
        policy: str = CancelFlowPolicy.CANCEL_ALL,
    ) -> tuple[list[ExecutionId], set[UUID]]:
        """Cancels members and cascades: the cancelled ones, and those that could not be settled."""
        cancelled, left = await self.members.cancel(
            partition, members, reason, by, told=told, policy=policy
        )
        await self._end(cancelled)
        return cancelled, left

    async def end_siblings(self, group: EdgeGroup) -> None:
        await self._end(await self.members.cancel_siblings(group))

    async def end_children(self, flows: Sequence[Flow]) -> list[ExecutionId]:
        return await self._end(await self.children.cancel(flows))

    async def _end(self, cancelled: list[ExecutionId]) -> list[ExecutionId]:
        if cancelled:
            await self.ended(cancelled)
        return cancelled

    @property
    def is_behind(self) -> bool:
        """So many wait that whoever ends more should wait as well."""
        return self._ends.backlog(None) >= MAX_ROUND

    async def finish(self) -> None:
        """Waits until nothing is under way."""
        await self._ends.finish()

    async def _follow(self, _: None, ends: list[Sequence[ExecutionId]]) -> list[Cascaded]:
        log.debug("looking for what waits for the ends of %s", ends[:5])
        tally = Cascaded()
        try:
            tally = await self._run([ident for idents in ends for ident in idents])
        except Exception:
            log.exception(
                "dependencies of %d ended executions are left to the reconciler", len(ends)
            )
        return [tally] * len(ends)

    def _mark_untold(self) -> Coroutine[None, None, None] | None:
        """Completion events whose consequences have been seen to are told to be; that may wait until there is time."""
        if not self._untold:
            return None
        ended, self._untold = self._untold[:MAX_ROUND], self._untold[MAX_ROUND:]
        return self._mark(ended)

    async def _mark(self, ended: list[UUID]) -> None:
        try:
            read = ScanAll(
                "completion_events_of", [(uid,) for uid in ended], MAX_EVENTS, _EVENT_COLUMNS
            )
            rows = (await self._store.load((read,))).rows[0]
            marks = [
                edges.MARK_DISPATCHED(0, event_id=row[0])
                for row in rows
                if row[1] is None and is_end(row[2])
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
                done.over += await self.members.cancel_siblings(group)
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
            if edges.counts_again(edge, ending.upstream, unheard=edge.upstream_eid in unheard):
                ending.open_edges.append(edge)
                ending.groups.add(_group_of(edge))
        return list(found.values()), [
            flow
            for flow in (Flow(*row) for row in child_flows)
            if flow.parent_execution_id in ended
        ]

    async def _cancel_children(self, partition: int, members: list[UUID]) -> list[ExecutionId]:
        return (await self.members.cancel(partition, members, PARENT_ENDED, "parent", told=True))[0]

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
        return {row[0] for row in rows if row[2] is None and is_end(row[3])}

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
            siblings = (
                await self.members.siblings(groups[key], counted.by) if counted.cancels else ()
            )
            child = children.get(key[2])
            # The end of a child whose join has ended may have to wake the parent: it is marked after that.
            told = [
                e.upstream.execution_id
                for e, _ in here
                if len(e.groups) == 1 and not (child and child.is_ended)
            ]
            plans = edges.settle(
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
    ) -> edges.Count | None:
        """In the order in which they ended; None when the group's counters make no sense."""
        if len(here) > 1:
            here = sorted(
                here, key=lambda pair: (pair[0].upstream.terminal_at_ms or 0, pair[1].edge_id)
            )
        ended = [
            edges.Ended(
                edge.edge_id,
                edge.upstream_eid,
                counted_as(edge, ending.upstream.terminal_outcome),
                edge.upstream_eid in results and passes_data(edge),
                results.get(edge.upstream_eid),
            )
            for ending, edge in here
        ]
        try:
            return edges.count(group, ended, now_ms)
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
