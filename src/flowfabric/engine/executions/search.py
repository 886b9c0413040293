"""Searches over executions by state, task, lane, tag, time, error and more.

A selective condition uses the index that claims, timers, flows or retention keep anyway, as long as
few rows are in it. Everything else walks the executions by their time of creation, and adds those
that a worker holds, which are in no index of this order. A page examines a bounded number of rows,
so it may hold fewer than asked for, with a cursor to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.executions import search_filter
from flowfabric.engine.executions.search_filter import Position
from flowfabric.engine.executions.search_pages import Examined, Query, Source, position_of
from flowfabric.engine.snapshots import load_one, load_rows
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, execution_id, partition_of
from flowfabric.model.execution import Page
from flowfabric.model.search import MAX_PAGE, SUMMARY_COLUMNS, ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState
from flowfabric.store.port import Get, ScanAll

_HELD = ("leased", "lost")
"""Every execution that a worker holds or has lost, as many as all workers have slots."""
_FAILED = ("failed", "retained")
_BY_STATE = {
    PublicState.WAITING: ("ready", "routed", "blocked"),
    PublicState.DELAYED: ("delayed",),
    PublicState.RATE_LIMITED: ("limited",),
    PublicState.WAITING_CHILDREN: ("dependent",),
    PublicState.SUSPENDED: ("suspended_executions",),
    PublicState.FAILED: _FAILED,
    PublicState.EXPIRED: _FAILED,
}
"""Indexes that hold every execution in a state. They may hold others."""
_BY_LANE = _FAILED


class Reach(Struct, frozen=True):
    """How many rows a page examines.

    `few`: the most rows of an index that is read whole; `members`: of a flow. `flows`: the most
    flows of a parent whose members are read one flow at a time. `steps`: executions that are
    examined by their time of creation, step by step until the page is full.
    """

    few: int = 2_000
    members: int = 10_000
    flows: int = 50
    steps: tuple[int, ...] = (200, 1_000, 4_000)


DEFAULT_REACH = Reach()


class Search:
    def __init__(self, core: Core, reach: Reach = DEFAULT_REACH) -> None:
        self._store, self._reach = core.store, reach

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
        query = Query(search_filter.matches_of(where), after, size, not oldest_first)
        sources = await self._selective(where)
        if sources is not None:
            examined = await self._examined(query, sources)
            if examined is not None:
                return _page(_exact(examined, where), size, examined.frontier)
        return await self._walked(query.begun(where), where)

    async def read_execution_summary(self, execution: ExecutionId) -> ExecutionSummary | None:
        """What a listing shows of one execution."""
        key = execution_id(execution).key
        read = Get("ff_exec_core", key, SUMMARY_COLUMNS)
        return await load_one(self._store, read, ExecutionSummary)

    async def _selective(self, where: ExecutionFilter) -> list[Source] | None:
        """Sources that hold every match, if a condition has an index of its own."""
        if where.flow is not None:
            return [self._members(where.flow)]
        if where.parent is not None:
            read = ScanAll("children_of", [where.parent.key], self._reach.flows + 1, ("flow_id",))
            flows = [flow for (flow,) in await load_rows(self._store, read)]
            if len(flows) <= self._reach.flows:
                return [self._members(flow) for flow in flows]
        if where.worker is not None or where.state == (PublicState.ACTIVE,):
            return _held()
        states = set(where.state) - {PublicState.ACTIVE}
        if not states or not states <= _BY_STATE.keys():
            return None
        held = _held() if PublicState.ACTIVE in where.state else []
        return held + [
            Source(index, self._reach.few, _group(index, where.lane))
            for index in dict.fromkeys(index for state in states for index in _BY_STATE[state])
        ]

    def _members(self, flow: UUID) -> Source:
        group = {"partition_key": partition_of(flow, FLOW_PARTITIONS), "flow_id": flow}
        return Source("members", self._reach.members, group)

    async def _walked(self, query: Query, where: ExecutionFilter) -> Page[ExecutionSummary]:
        """Walks the executions by their time of creation."""
        held = _held() if not where.state or PublicState.ACTIVE in where.state else []
        found: list[ExecutionSummary] = []
        frontier: Position | None = None
        for examine in self._reach.steps:
            examined = await self._examined(query, [Source("unowned", examine), *held])
            assert examined is not None, "the index that is walked has the order of the page"
            found += _exact(examined, where)
            frontier = examined.frontier
            if frontier is not None and query.is_past(frontier, where):
                frontier = None
            if frontier is None or len(found) >= query.size:
                break
            query = query.behind(frontier)
        return _page(found, query.size, frontier)

    async def _examined(self, query: Query, sources: Sequence[Source]) -> Examined | None:
        reads = [query.find(source) for source in sources]
        return query.merged(reads, (await self._store.load(reads)).rows)


def _held() -> list[Source]:
    return [Source(index, None) for index in _HELD]


def _group(index: str, lane: str | None) -> dict[str, str]:
    return {"lane_id": lane} if lane is not None and index in _BY_LANE else {}


def _exact(examined: Examined, where: ExecutionFilter) -> list[ExecutionSummary]:
    return [each for each in examined.hits if search_filter.is_exact(each, where)]


def _page(
    found: list[ExecutionSummary], size: int, frontier: Position | None
) -> Page[ExecutionSummary]:
    """The first of these, with a cursor if others may follow."""
    if len(found) > size:
        frontier = position_of(found[size - 1])
    cursor = None if frontier is None else search_filter.cursor_text(frontier)
    return Page(found[:size], cursor)
