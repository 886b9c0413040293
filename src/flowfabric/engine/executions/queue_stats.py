"""Counting what there is to do, at a bounded price however much that is."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

from flowfabric.engine.core import Core
from flowfabric.model.queue_stats import LaneLoad, QueueStats
from flowfabric.store.port import GetAll, Read, Scan, ScanAll, Tally

MAX_LANES = 200
MAX_NAMESPACES = 100
"""So many of each lane are looked into for its oldest; all are counted."""
MAX_GATES = 100
MAX_QUEUES = 2_000
MAX_COUNTED = 10_000
"""Of each state over all lanes. Waiting executions are counted lane by lane, so that a long queue hides no other."""
MAX_WAITING, LEAST_WAITING = 50_000, 500
MAX_PRIORITIES, FRONT = 8, 16
"""To find the oldest, so many are looked at where each of the highest priorities begins."""
_STATES = {
    "delayed": "delayed",
    "leased": "active",
    "lost": "active",
    "routed": "waiting",
    "limited": "rate_limited",
    "dependent": "waiting_children",
}
_TIMERS = (
    "delayed",
    "leased",
    "attempt_timeout",
    "deadline",
    "suspension_timeout",
    "budget_resets",
)
_LAST = (2**62, UUID(int=2**128 - 1))
_Queue = tuple[str, str, str]
"""A lane, a namespace and a gate."""


class QueueCounts:
    """Queue depths and the age of the oldest overdue timer."""

    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store

    async def census(self) -> QueueStats:
        """How many executions of which lane are in which state and have not ended; live workers; cancels that are owed."""
        loaded = await self._store.load((Scan("lanes", limit=MAX_LANES, columns=("lane_id",)),))
        lanes = [row[0] for row in loaded.rows[0]]
        each = max(MAX_WAITING // max(len(lanes), 1), LEAST_WAITING)
        reads: list[Read] = [Tally(index, MAX_COUNTED, ("lane_id",)) for index in _STATES]
        reads += [
            Tally("suspended", MAX_COUNTED, ("partition_key", "execution_id")),
            Tally("cancel_backlog_members", MAX_COUNTED, ("partition_key",)),
            Scan(
                "worker_expiry",
                after=(loaded.now_ms + 1, "", ""),
                limit=MAX_COUNTED,
                columns=("namespace",),
            ),
        ]
        reads += [
            Tally("ready_namespaces", each, ("lane_id",), {"lane_id": lane}) for lane in lanes
        ]
        found = iter((await self._store.load(reads)).rows)
        counts: Counter[tuple[str, str]] = Counter()
        for state in _STATES.values():
            counts.update({(lane, state): n for lane, n in next(found)})
        suspended, backlog, workers = next(found), next(found), next(found)
        counts.update(
            [(lane, "suspended") for lane in await self._lanes_of([row[:2] for row in suspended])]
        )
        for rows in found:
            counts.update({(lane, "waiting"): n for lane, n in rows})
        oldest = await self._oldest(
            await self._queues([lane for lane in lanes if counts[lane, "waiting"]])
        )
        states: dict[str, dict[str, int]] = {lane: {} for lane in lanes}
        for (lane, state), n in counts.items():
            states.setdefault(lane, {})[state] = n
        loads = tuple(LaneLoad(lane, said, oldest.get(lane, 0)) for lane, said in states.items())
        live = dict(Counter(row[0] for row in workers))
        return QueueStats(
            loads, live, sum(row[1] for row in backlog), await self.oldest_overdue_ms()
        )

    async def _queues(self, lanes: list[str]) -> list[_Queue]:
        """Where something waits: skipping from namespace to namespace, in all lanes at once."""
        if not lanes:
            return []
        gates = ScanAll(
            "gates_of_lane",
            [(lane,) for lane in lanes],
            MAX_GATES,
            ("lane_id", "namespace", "gate"),
        )
        behind: list[_Queue] = [
            (row[0], row[1], row[2]) for row in (await self._store.load((gates,))).rows[0]
        ]
        queues: list[_Queue] = []
        after: dict[str, tuple[str] | None] = dict.fromkeys(lanes)
        for _ in range(MAX_NAMESPACES):
            if not after:
                break
            reads = [
                Scan("ready_namespaces", {"lane_id": lane}, at, limit=1, columns=("namespace",))
                for lane, at in after.items()
            ]
            rows = (await self._store.load(reads)).rows
            after = {lane: (found[0][0],) for lane, found in zip(after, rows, strict=True) if found}
            queues += [(lane, at[0], "") for lane, at in after.items() if at is not None]
        return [*queues, *behind][:MAX_QUEUES]

    async def oldest_overdue_ms(self) -> int:
        """How long ago the oldest timer was due that no loop has acted on; 0 when none is late. Reads one row of each index."""
        dues = await asyncio.gather(*(self._store.next_due(index) for index in _TIMERS))
        now = await self._store.now_ms()
        return max((now - due for due in dues if due is not None and due < now), default=0)

    async def _lanes_of(self, keys: list[tuple[int, UUID]]) -> list[str]:
        rows = (
            (await self._store.load((GetAll("ff_exec_core", keys, ("lane_id",)),))).rows[0]
            if keys
            else []
        )
        return [row[0] for row in rows]

    async def _oldest(self, queues: list[_Queue]) -> dict[str, int]:
        """How long the oldest of each lane has been waiting. A queue is sorted by priority, and each of these by age."""
        ages: dict[str, int] = {}
        after: dict[_Queue, tuple[int, int, UUID] | None] = dict.fromkeys(queues)
        for _ in range(MAX_PRIORITIES):
            if not after:
                break
            columns = ("priority", "last_transition_at")
            reads = [
                Scan("ready", _group(queue), at, limit=FRONT, columns=columns)
                for queue, at in after.items()
            ]
            loaded = await self._store.load(reads)
            for queue, rows in zip(tuple(after), loaded.rows, strict=True):
                ages[queue[0]] = max(
                    [ages.get(queue[0], 0), *(loaded.now_ms - since for _, since in rows)]
                )
                if len(rows) < FRONT:
                    del after[queue]
                else:
                    after[queue] = (rows[-1][0], *_LAST)
        return ages


def _group(queue: _Queue) -> dict[str, str]:
    return {"lane_id": queue[0], "namespace": queue[1], "gate": queue[2]}
