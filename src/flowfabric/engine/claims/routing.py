"""Work that no live worker can take is parked, so that nobody has to look past it, and goes on as soon as one can."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.claims.namespace_rotation import MOST_TURNS, NamespaceRotation
from flowfabric.engine.core import Core
from flowfabric.engine.executions.quarantine import sound
from flowfabric.engine.filters import passes
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.worker import Routed, WorkerInfo
from flowfabric.plan import Applied, Plan
from flowfabric.rules.claims import routing
from flowfabric.store.port import Row, Scan

log = logging.getLogger("flowfabric.routes")

LOOK_EVERY_MS = 1_000
LOGGED = 5
ASKED_LATELY_MS = 10_000
MAX_REMEMBERED = 1_000
HEADS = 100
MOST_HEADS = 1_000
MOST_NAMESPACES = 64
ROUTE_PAGE = 500
MAX_RELEASED = 1_000
WORKER_PAGE = 1_000
COLUMNS = Routed.__struct_fields__
Position = tuple[Any, ...] | None


class Routing:
    """Parks executions that no live worker can run, and releases them."""

    def __init__(self, core: Core, rotation: NamespaceRotation) -> None:
        self._core, self._store = core, core.store
        self._rotation = rotation
        self._looked: dict[tuple[str, str | None, tuple[str, ...]], int] = {}

    async def live_workers(self, namespace: str | None = None) -> list[WorkerInfo]:
        """Every worker of a namespace, or of all of them, whose last heartbeat still counts."""
        found: list[WorkerInfo] = []
        index, group = (
            ("all_workers", {}) if namespace is None else ("workers", {"namespace": namespace})
        )
        after: Position = None
        while True:
            loaded = await self._store.load((Scan(index, group, after, limit=WORKER_PAGE),))
            page = [WorkerInfo(*row) for row in loaded.rows[0]]
            found += [w for w in page if w.expires_at_ms > loaded.now_ms]
            if len(page) < WORKER_PAGE:
                return found
            last = page[-1].worker_instance_id
            after = (page[-1].namespace, last) if namespace is None else (last,)

    # ---- beside a claim

    async def look_around(
        self, lane: str, namespace: str | None, offered: tuple[str, ...], now_ms: int | None = None
    ) -> bool:
        """Now and then: parks what stands before the lane without anybody to take it; whether the caller should ask again."""
        if not self._is_time_to_look(
            lane, namespace, offered, await self._store.now_ms() if now_ms is None else now_ms
        ):
            return False
        looked_at = [each async for each in self.namespaces(lane, namespace, MOST_NAMESPACES)]
        reads = [_heads(lane, each) for each in looked_at]
        if offered:
            reads.append(Scan("routed", limit=ROUTE_PAGE, columns=COLUMNS))
        found = [await self._sound(rows) for rows in (await self._store.load(reads)).rows]
        for each, heads in zip(looked_at, found, strict=False):
            if routing.not_covered_by(heads, offered):
                await self._park(lane, each, offered, heads)
        return bool(offered) and await self._release_within_reach(
            lane, namespace, offered, found[-1]
        )

    async def namespaces(
        self, lane: str, namespace: str | None, most: int = MOST_TURNS
    ) -> AsyncIterator[str]:
        """That one, or each that has something ready there."""
        if namespace is not None:
            yield namespace
            return
        async for each in self._rotation.namespaces(lane, most):
            yield each

    def _is_time_to_look(
        self, lane: str, namespace: str | None, offered: tuple[str, ...], now: int
    ) -> bool:
        """Not at first: who asks once asks the store once."""
        key = (lane, namespace, offered)
        before = self._looked.get(key)
        if before is not None and now < before + LOOK_EVERY_MS:
            return False
        if len(self._looked) >= MAX_REMEMBERED:
            self._looked.clear()
        self._looked[key] = now
        return before is not None

    async def _park(
        self, lane: str, namespace: str, offered: Collection[str], heads: list[Routed]
    ) -> None:
        live, seen = await self.live_workers(namespace), 0
        while heads:
            seen += len(heads)
            now = await self._store.now_ms()
            parked = routing.uncovered(
                routing.not_covered_by(heads, offered), live, self._asking(lane, namespace, now)
            )
            done = await self._commit_each([routing.park(head, now) for head in parked])
            if done:
                said = {
                    "lane": lane,
                    "namespace": namespace,
                    "execution_ids": [
                        str(ExecutionId.of(e.partition_key, e.execution_id))
                        for e in parked[:LOGGED]
                    ],
                    "missing": sorted(
                        {need for e in parked for need in e.required_capabilities} - set(offered)
                    )[:LOGGED],
                }
                log.info(
                    "%d of lane %s need a worker with other capabilities, and wait for one",
                    done,
                    lane,
                    extra=said,
                )
                await self._mind_the_gap(namespace, parked)
            if done < len(heads) or len(heads) < HEADS or seen >= MOST_HEADS:
                return
            heads = await self._sound((await self._store.load((_heads(lane, namespace),))).rows[0])

    def _asking(self, lane: str, namespace: str, now: int) -> list[tuple[str, ...]]:
        """What those offer who have been asking for work of this place here: they need not be registered to be there."""
        since = now - ASKED_LATELY_MS
        return [
            offered
            for (asked, of, offered), at in self._looked.items()
            if asked == lane and of in (namespace, None) and at > since
        ]

    async def _mind_the_gap(self, namespace: str, parked: Sequence[Routed]) -> None:
        """A worker that registered while this was being parked has found nothing to release: it is looked for once more."""
        moved = [
            structs.replace(each, version=each.version + 1, blocking_reason=routing.WAITING)
            for each in parked
        ]
        await self._release(moved, await self.live_workers(namespace), len(moved))

    async def _release_within_reach(
        self, lane: str, namespace: str | None, offered: Collection[str], parked: list[Routed]
    ) -> bool:
        """Whoever asks for work is there, registered or not."""
        released = 0
        while parked:
            mine = routing.claimable(parked, lane, namespace, offered)
            now = await self._store.now_ms()
            released += await self._commit_each([routing.release(each, now) for each in mine])
            if len(parked) < ROUTE_PAGE or released:
                break
            parked = await self._parked(_position(parked[-1]))
        return released > 0

    # ---- releasing

    async def release_routed(self, limit: int = 1_000, wanted: ScannerFilter | None = None) -> int:
        """Lets go of executions that waited for a capable worker and now have one; how many."""
        size = validation.limit(limit, MAX_RELEASED)
        released, after = 0, None
        while released < size:
            done, after = await self.release_page(after, size - released, wanted)
            released += done
            if after is None:
                break
        return released

    async def release_page(
        self, after: Position, limit: int, wanted: ScannerFilter | None = None
    ) -> tuple[int, Position]:
        """As `release_routed`, for one page of those that wait; and where the next one begins, None at the end."""
        waiting = await self._parked(after)
        if not waiting:
            return 0, None
        done = await self._release(waiting, await self.live_workers(), limit, wanted)
        full = len(waiting) == ROUTE_PAGE
        return done, _position(waiting[-1]) if full else None

    async def release_for(self, namespace: str, offered: Collection[str]) -> int:
        """Everything of a namespace that waited for a worker with these capabilities; how many."""
        released, after = 0, None
        while True:
            waiting = await self._parked(after)
            free = routing.covered_by(waiting, namespace, offered)
            now = await self._store.now_ms()
            released += await self._commit_each([routing.release(each, now) for each in free])
            if len(waiting) < ROUTE_PAGE:
                return released
            after = _position(waiting[-1])

    async def _release(
        self,
        waiting: list[Routed],
        live: Collection[WorkerInfo],
        limit: int,
        wanted: ScannerFilter | None = None,
    ) -> int:
        free = [w for w in routing.covered(waiting, live) if passes(w, wanted)][:limit]
        now = await self._store.now_ms()
        return await self._commit_each([routing.release(each, now) for each in free])

    async def _sound(self, rows: list[Row]) -> list[Routed]:
        return await sound(self._store, _routed(rows))

    async def _parked(self, after: Position) -> list[Routed]:
        return _routed(
            (
                await self._store.load(
                    (Scan("routed", after=after, limit=ROUTE_PAGE, columns=COLUMNS),)
                )
            ).rows[0]
        )

    async def _commit_each(self, plans: list[Plan]) -> int:
        """How many went through: what somebody else moved meanwhile is left alone."""
        return (
            sum(isinstance(answer, Applied) for answer in await self._store.commit_many(plans))
            if plans
            else 0
        )


def _heads(lane: str, namespace: str) -> Scan:
    return Scan(
        "ready", {"lane_id": lane, "namespace": namespace, "gate": ""}, limit=HEADS, columns=COLUMNS
    )


def _routed(rows: list[Row]) -> list[Routed]:
    return [Routed(*row) for row in rows]


def _position(last: Routed) -> Position:
    return last.last_transition_at, last.execution_id
