"""Searches over executions by state, task, lane, tag, time, error and more.

A selective condition uses the index that claims, timers, flows or retention keep anyway, as long as
few rows are in it. Everything else walks the executions by their time of creation. A page examines
a bounded number of rows, so it may hold fewer than asked for, with a cursor to go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.executions import search_filter
from flowfabric.engine.executions.search_filter import ENDED_STATES, FAILED_STATES, Position
from flowfabric.engine.snapshots import load_one, load_rows
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, execution_id, partition_of
from flowfabric.model.execution import Page
from flowfabric.model.search import (
    MAX_PAGE,
    SUMMARY_COLUMNS,
    Counted,
    ExecutionCounts,
    ExecutionFilter,
    ExecutionSummary,
)
from flowfabric.model.state import PublicState
from flowfabric.store.port import AnyMatch, Count, Find, Get, Match, Scan, ScanAll
from flowfabric.store.single_flight import SingleFlight, seen

BY = ("created_at_ms", "execution_id")
FEW = 5_000
"""An index is read whole if it has no more rows than this."""
STEPS = (200, 2_000, 10_000)
"""How many executions are examined in turn, until a page is full."""
MAX_GROUPS = 100
COUNTED = ("namespace", "lane_id", "execution_kind", "public_state")
COUNTS_LAST_S = 2.0
_BY_STATE = {
    PublicState.ACTIVE: ("leased", "lost"),
    PublicState.DELAYED: ("delayed",),
    PublicState.RATE_LIMITED: ("limited",),
    PublicState.WAITING_CHILDREN: ("dependent",),
}
"""Indexes that hold every execution in a state. They may hold others."""


class _Source(Struct, frozen=True):
    """One group of an index."""

    index: str
    group: Mapping[str, Any] = {}


class Search:
    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._counts = _CountCache(core)

    async def find_executions(
        self,
        where: ExecutionFilter,
        limit: int = 50,
        cursor: str | None = None,
        *,
        oldest_first: bool = False,
    ) -> Page[ExecutionSummary]:
        """One page of the executions that match, the newest first. A cursor leads to the next page,
        also where a page holds fewer than `limit`.
        """
        where = search_filter.checked(where)
        size = validation.limit(limit, MAX_PAGE)
        after = None if cursor is None else search_filter.parse_cursor(cursor)
        if size == 0:
            return Page([])
        matches = search_filter.matches_of(where)
        query = _Query(matches, after, size, not oldest_first)
        sources = await self._sources(where)
        if sources is not None:
            found = await self._collected(sources, query)
            if found is not None:
                return _page(found, size, where)
        if where.parent is not None or where.flow is not None:
            flows = [where.flow] if where.flow else await self._flows_of(where)
            query = query.narrowed(Match("flow_id", "in", tuple(flows)))
        return await self._walked(query, where)

    async def read_execution_summary(self, execution: ExecutionId) -> ExecutionSummary | None:
        """What a listing shows of one execution."""
        key = execution_id(execution).key
        return await load_one(
            self._store, Get("ff_exec_core", key, SUMMARY_COLUMNS), ExecutionSummary
        )

    async def count_executions(self, namespace: str | None = None) -> Counted:
        """All executions by namespace, lane, task and state, at most two seconds old."""
        counted = await self._counts.read()
        if namespace is None:
            return counted
        own = [each for each in counted.counts if each.namespace == namespace]
        return Counted(counted.counted_at, own)

    async def _sources(self, where: ExecutionFilter) -> list[_Source] | None:
        """The groups of indexes that hold every match, if a condition has such an index."""
        if where.flow is not None:
            return [_members(partition_of(where.flow, FLOW_PARTITIONS), where.flow)]
        if where.parent is not None:
            flows = await self._flows_of(where)
            pairs = [(partition_of(flow, FLOW_PARTITIONS), flow) for flow in flows]
            return [_members(*pair) for pair in pairs] if len(flows) <= MAX_GROUPS else None
        states = frozenset(where.state)
        if where.worker is not None and not states & ENDED_STATES:
            return [_Source(index) for index in _BY_STATE[PublicState.ACTIVE]]
        if states and states <= _BY_STATE.keys():
            return [_Source(index) for state in states for index in _BY_STATE[state]]
        if states and states <= FAILED_STATES:
            lanes = [where.lane] if where.lane is not None else await self._lanes()
            if lanes is not None:
                groups = [{"lane_id": lane} for lane in lanes]
                return [_Source(index, g) for index in ("failed", "retained") for g in groups]
        return None

    async def _lanes(self) -> list[str] | None:
        rows = await load_rows(
            self._store, Scan("lanes", limit=MAX_GROUPS + 1, columns=("lane_id",))
        )
        return [lane for (lane,) in rows] if len(rows) <= MAX_GROUPS else None

    async def _flows_of(self, where: ExecutionFilter) -> list[UUID]:
        """The flows whose members are the children of the parent."""
        parent = where.parent
        assert parent is not None
        read = ScanAll("children_of", [parent.key], FEW, ("flow_id",))
        return [flow for (flow,) in await load_rows(self._store, read)]

    async def _collected(
        self, sources: Sequence[_Source], query: _Query
    ) -> list[ExecutionSummary] | None:
        """The matches in all of the groups, in order; None if there are too many rows in them."""
        loaded = await self._store.load([query.find(s.index, s.group, FEW) for s in sources])
        hits: dict[Position, ExecutionSummary] = {}
        for rows in loaded.rows:
            if rows and not rows[-1][0]:
                return None
            found = [ExecutionSummary(*row[1:]) for row in rows]
            hits.update((_position(each), each) for each in found)
        ordered = sorted(hits, reverse=query.descending)
        return [hits[position] for position in ordered[: query.size]]

    async def _walked(self, query: _Query, where: ExecutionFilter) -> Page[ExecutionSummary]:
        """Walks the executions by their time of creation."""
        query = query.begun(where)
        found: list[ExecutionSummary] = []
        for examine in STEPS:
            (rows,) = (await self._store.load((query.find("oldest", {}, examine),))).rows
            edge = ExecutionSummary(*rows.pop()[1:]) if rows and not rows[-1][0] else None
            hits = [ExecutionSummary(*row[1:]) for row in rows]
            found += [each for each in hits if search_filter.has_error(each, where.error)]
            if len(hits) == query.size:
                return Page(found, search_filter.cursor_text(_position(hits[-1])))
            if edge is None or query.is_past(edge, where):
                return Page(found)
            query = query.behind(_position(edge), query.size - len(hits))
        assert query.after is not None
        return Page(found, search_filter.cursor_text(query.after))


class _Query(Struct, frozen=True):
    """The conditions of a page, and where it begins."""

    matches: tuple[Match | AnyMatch, ...]
    after: Position | None
    size: int
    descending: bool

    def find(self, index: str, group: Mapping[str, Any], examine: int) -> Find:
        return Find(
            index,
            BY,
            SUMMARY_COLUMNS,
            self.matches,
            group,
            self.descending,
            self.after,
            self.size,
            examine,
        )

    def narrowed(self, match: Match) -> _Query:
        return _Query((*self.matches, match), self.after, self.size, self.descending)

    def behind(self, position: Position, size: int) -> _Query:
        return _Query(self.matches, position, size, self.descending)

    def begun(self, where: ExecutionFilter) -> _Query:
        """Begins where the times of the filter begin."""
        bounds = [where.created_before, where.ended_before]
        if self.descending:
            edges = [(at, UUID(int=0)) for at in bounds if at is not None]
            edges += [self.after] if self.after else []
            return self.behind(min(edges), self.size) if edges else self
        edges = [self.after] if self.after else []
        if where.created_from is not None:
            edges.append((where.created_from - 1, UUID(int=2**128 - 1)))
        return self.behind(max(edges), self.size) if edges else self

    def is_past(self, edge: ExecutionSummary, where: ExecutionFilter) -> bool:
        """Whether nothing behind this execution can match."""
        if self.descending:
            return where.created_from is not None and edge.created_at < where.created_from
        bounds = [at for at in (where.created_before, where.ended_before) if at is not None]
        return bool(bounds) and edge.created_at >= min(bounds)


class _CountCache:
    """Counts every execution when asked, at most once at a time.

    An answer serves for two seconds, or four times as long as it took. A caller in the second half
    of that time starts the next count and does not wait for it.
    """

    def __init__(self, core: Core) -> None:
        self._store, self._flight = core.store, SingleFlight()
        self._last: Counted | None = None
        self._from_s = self._until_s = 0.0

    async def read(self) -> Counted:
        now = time.monotonic()
        if self._last is None or now >= self._until_s:
            return await self._flight.once(None, self._count)
        if now >= self._from_s:
            self._next = asyncio.ensure_future(self._flight.once(None, self._count))
            self._next.add_done_callback(seen)
        return self._last

    async def _count(self) -> Counted:
        began = time.monotonic()
        loaded = await self._store.load((Count("ff_exec_core", COUNTED),))
        lasts = max(COUNTS_LAST_S, 4 * (time.monotonic() - began))
        self._from_s, self._until_s = began + lasts / 2, began + lasts
        self._last = Counted(
            loaded.now_ms, sorted(starmap(ExecutionCounts, loaded.rows[0]), key=astuple)
        )
        return self._last


def _members(partition: int, flow: UUID) -> _Source:
    return _Source("members", {"partition_key": partition, "flow_id": flow})


def _position(found: ExecutionSummary) -> Position:
    return found.created_at, found.execution_uuid


def _page(
    found: list[ExecutionSummary], size: int, where: ExecutionFilter
) -> Page[ExecutionSummary]:
    cursor = search_filter.cursor_text(_position(found[-1])) if len(found) == size else None
    return Page([each for each in found if search_filter.has_error(each, where.error)], cursor)
