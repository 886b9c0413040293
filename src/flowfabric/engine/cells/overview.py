"""Counts and the state of a deployment, as the sum over its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec.structs import astuple, replace

from flowfabric.engine import validation
from flowfabric.engine.cells.pool import Cells
from flowfabric.engine.executions.deployment import (
    MAX_BUDGET_ROWS,
    MAX_STALLED,
    fullest_first,
    oldest_first,
)
from flowfabric.model.deployment import DeploymentStatus, LaneStatus, OverdueTimers
from flowfabric.model.queue_stats import LaneLoad, QueueStats
from flowfabric.model.search import Counted
from flowfabric.model.state import LaneState


class Overview:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    async def count_executions(
        self, namespace: str | None = None, lanes: Sequence[str] | None = None
    ) -> Counted:
        if namespace is not None:
            return await self._cells.cell(namespace).count_executions(namespace, lanes)
        found = await self._cells.answers(lambda cell: cell.count_executions(None, lanes))
        counts = chain.from_iterable(each.counts for each in found)
        return Counted(min(each.counted_at for each in found), sorted(counts, key=astuple))

    async def read_deployment(self, namespace: str | None = None) -> DeploymentStatus:
        validation.optional_namespace(namespace)
        if namespace is None:
            return _whole(await self._cells.answers(lambda cell: cell.read_deployment(None)))
        cell = self._cells.cell(namespace)
        return await cell.read_deployment(namespace)

    async def census(self) -> QueueStats:
        found = await self._cells.answers(lambda cell: cell.census())
        states: dict[str, Counter[str]] = {}
        ages: Counter[str] = Counter()
        for load in chain.from_iterable(each.lanes for each in found):
            states.setdefault(load.lane, Counter()).update(load.states)
            ages[load.lane] = max(ages[load.lane], load.oldest_ready_ms)
        workers: Counter[str] = Counter()
        for each in found:
            workers.update(each.workers)
        return QueueStats(
            tuple(LaneLoad(lane, dict(states[lane]), ages[lane]) for lane in sorted(states)),
            dict(workers),
            sum(each.cancel_backlog for each in found),
            max(each.oldest_overdue_ms for each in found),
        )


def _whole(parts: Sequence[DeploymentStatus]) -> DeploymentStatus:
    held: Counter[str] = Counter()
    for each in parts:
        held.update(each.held)
    now = max(each.as_of for each in parts)
    return replace(
        parts[0],
        as_of=now,
        counted_at=min(each.counted_at for each in parts),
        counts=sorted(chain.from_iterable(each.counts for each in parts), key=astuple),
        lanes=_lanes(chain.from_iterable(each.lanes for each in parts)),
        timers=_timers(chain.from_iterable(each.timers for each in parts)),
        stalled=sorted(chain.from_iterable(p.stalled for p in parts), key=oldest_first)[
            :MAX_STALLED
        ],
        budgets=sorted(chain.from_iterable(p.budgets for p in parts), key=fullest_first)[
            :MAX_BUDGET_ROWS
        ],
        held=dict(held),
    )


def _lanes(found: Iterable[LaneStatus]) -> list[LaneStatus]:
    """A lane has the state that keeps work back in one of its cells, and the oldest work of all."""
    lanes: dict[str, LaneStatus] = {}
    for each in found:
        known = lanes.setdefault(each.lane, each)
        state = each.state if known.state == LaneState.ACTIVE else known.state
        oldest = max(known.oldest_ready_ms, each.oldest_ready_ms)
        lanes[each.lane] = LaneStatus(each.lane, state, oldest)
    return [lanes[name] for name in sorted(lanes)]


def _timers(found: Iterable[OverdueTimers]) -> list[OverdueTimers]:
    timers: dict[str, OverdueTimers] = {}
    for each in found:
        known = timers.get(each.kind, OverdueTimers(each.kind, 0, 0))
        oldest = max(known.oldest_ms, each.oldest_ms)
        timers[each.kind] = OverdueTimers(each.kind, known.count + each.count, oldest)
    return list(timers.values())
