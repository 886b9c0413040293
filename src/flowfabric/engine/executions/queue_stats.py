"""Queue depths. Each execution that has not ended is counted in an index of its own state."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import starmap
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import load_all
from flowfabric.model.queue_stats import LaneLoad, QueueStats
from flowfabric.store.port import Read, Scan, ScanAll, Tally

MAX_LANES = 200
MAX_NAMESPACES = 100
"""So many namespaces of a lane are searched for its oldest execution; all are counted."""
MAX_GATES = 100
MAX_QUEUES = 2_000
MAX_WORKERS = 10_000
ALL = 2**31 - 1
MAX_PRIORITIES, FRONT = 8, 16
"""The oldest is searched among so many rows at the front of each of the highest priorities."""
_STATES = {
    "ready": "waiting",
    "blocked": "waiting",
    "delayed": "delayed",
    "leased": "active",
    "lost": "active",
    "routed": "waiting",
    "limited": "rate_limited",
    "dependent": "waiting_children",
    "suspended_executions": "suspended",
}
"""Indexes, and the public state of the executions in them."""
_TIMERS = (
    "delayed",
    "leased",
    "attempt_timeout",
    "deadline",
    "suspension_timeout",
    "budget_resets",
)
_LAST = (2**62, UUID(int=2**128 - 1))


class _Queue(Struct, frozen=True):
    lane_id: str
    namespace: str
    gate: str


class ReadyExecution(Struct, frozen=True):
    """A claimable execution at the front of a queue."""

    priority: int
    last_transition_at: int
    partition_key: int
    execution_id: UUID
    lane_id: str
    execution_kind: str


class QueueCounts:
    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def census(self) -> QueueStats:
        """Executions that have not ended by lane and state, live workers, and pending cancels.

        All of them are counted, on one snapshot.
        """
        loaded = await self._store.load((Scan("lanes", limit=MAX_LANES, columns=("lane_id",)),))
        lanes = [lane for rows in loaded.rows for (lane,) in rows]
        alive = (loaded.now_ms + 1, "", "")
        reads: list[Read] = [
            Tally("cancel_backlog_members", ALL, ("partition_key",)),
            Scan("worker_expiry", {}, alive, None, MAX_WORKERS, ("namespace",)),
        ]
        reads += [Tally(index, ALL, ("lane_id",)) for index in _STATES]
        backlog, workers, *tallies = (await self._store.load(reads)).rows
        counts: Counter[tuple[str, str]] = Counter()
        for state, rows in zip(_STATES.values(), tallies, strict=True):
            counts.update({(lane, state): n for lane, n in rows})
        waiting = [lane for lane in lanes if counts[lane, "waiting"]]
        oldest = await self.oldest_ready(waiting)
        now = await self._store.now_ms() if oldest else 0
        ages = {lane: max(now - each.last_transition_at, 0) for lane, each in oldest.items()}
        by_lane: dict[str, dict[str, int]] = {lane: {} for lane in lanes}
        for (lane, state), n in counts.items():
            by_lane.setdefault(lane, {})[state] = n
        return QueueStats(
            tuple(LaneLoad(lane, found, ages.get(lane, 0)) for lane, found in by_lane.items()),
            dict(Counter(namespace for (namespace,) in workers)),
            sum(n for _, n in backlog),
            await self.oldest_overdue_ms(),
        )

    async def oldest_ready(
        self, lanes: Sequence[str], namespace: str | None = None
    ) -> dict[str, ReadyExecution]:
        """The execution of each lane that is claimable for the longest time."""
        return await self._oldest(await self._queues(lanes, namespace))

    async def _queues(self, lanes: Sequence[str], namespace: str | None) -> list[_Queue]:
        if not lanes:
            return []
        columns = _Queue.__struct_fields__
        read = ScanAll("gates_of_lane", [(lane,) for lane in lanes], MAX_GATES, columns)
        gated = await load_all(self._store, read, _Queue)
        if namespace is None:
            return [*await self._plain_queues(lanes), *gated][:MAX_QUEUES]
        own = [queue for queue in gated if queue.namespace == namespace]
        return [*(_Queue(lane, namespace, "") for lane in lanes), *own][:MAX_QUEUES]

    async def _plain_queues(self, lanes: Sequence[str]) -> list[_Queue]:
        """The queues that have rows. Skips from namespace to namespace, in all lanes at once."""
        plain: list[_Queue] = []
        after: dict[str, tuple[str] | None] = dict.fromkeys(lanes)
        for _ in range(MAX_NAMESPACES):
            if not after:
                break
            reads = [
                Scan("ready_namespaces", {"lane_id": lane}, at, limit=1, columns=("namespace",))
                for lane, at in after.items()
            ]
            found = (await self._store.load(reads)).rows
            namespaces = [
                (lane, name) for lane, rows in zip(after, found, strict=True) for (name,) in rows
            ]
            plain += [_Queue(lane, name, "") for lane, name in namespaces]
            after = {lane: (name,) for lane, name in namespaces}
        return plain

    async def oldest_overdue_ms(self) -> int:
        """The age of the oldest overdue timer, 0 if none is overdue. Reads one row per index."""
        dues = await asyncio.gather(*(self._store.next_due(index) for index in _TIMERS))
        now = await self._store.now_ms()
        return max((now - due for due in dues if due is not None and due < now), default=0)

    async def _oldest(self, queues: list[_Queue]) -> dict[str, ReadyExecution]:
        """The oldest of each lane. A priority of a queue is sorted by age."""
        oldest: dict[str, ReadyExecution] = {}
        after: dict[_Queue, tuple[int, int, UUID] | None] = dict.fromkeys(queues)
        for _ in range(MAX_PRIORITIES):
            if not after:
                break
            reads = [
                Scan(
                    "ready",
                    structs.asdict(queue),
                    at,
                    limit=FRONT,
                    columns=ReadyExecution.__struct_fields__,
                )
                for queue, at in after.items()
            ]
            loaded = await self._store.load(reads)
            for queue, rows in zip(tuple(after), loaded.rows, strict=True):
                found = list(starmap(ReadyExecution, rows))
                known = [oldest[queue.lane_id]] if queue.lane_id in oldest else []
                if found:
                    oldest[queue.lane_id] = min([*known, *found], key=_since)
                if len(found) < FRONT:
                    del after[queue]
                else:
                    after[queue] = (found[-1].priority, *_LAST)
        return oldest


def _since(ready: ReadyExecution) -> int:
    return ready.last_transition_at
