"""Executions that no live worker can run: they are parked, so that claims need not skip them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from itertools import starmap
from uuid import UUID

from msgspec import structs

from flowfabric.engine.claims.namespace_rotation import MAX_NAMESPACES, NamespaceRotation
from flowfabric.engine.core import Core
from flowfabric.engine.executions.quarantine import readable_rows
from flowfabric.engine.filters import passes
from flowfabric.engine.snapshots import behind, every, load_all, pages
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.worker import Routed, WorkerInfo
from flowfabric.rules.claims import routing
from flowfabric.store.port import Scan

log = logging.getLogger("flowfabric.routes")

CHECK_EVERY_MS = 1_000
MAX_LOGGED = 5
RECENT_CLAIM_MS = 10_000
MAX_CHECKS = 1_000
HEAD_PAGE = 100
MAX_HEADS = 1_000
MAX_CHECKED_NAMESPACES = 64
ROUTE_PAGE = 500
MAX_RELEASED = 1_000
WORKER_PAGE = 1_000
COLUMNS = Routed.__struct_fields__
Position = tuple[int, UUID]
"""The time of the last transition and the id of a parked execution."""


class Routing:
    """Parks executions that no live worker can run, and releases them."""

    def __init__(self, core: Core, rotation: NamespaceRotation) -> None:
        self._core, self._store = core, core.store
        self._rotation = rotation
        self._checked_at: dict[tuple[str, str | None, tuple[str, ...]], int] = {}

    async def live_workers(self, namespace: str | None = None) -> list[WorkerInfo]:
        """The workers of a namespace, or of all, whose last heartbeat has not expired."""
        now = await self._store.now_ms()
        found = await every(self._store, registered(namespace, None, WORKER_PAGE), WorkerInfo)
        return [worker for worker in found if worker.expires_at_ms > now]

    # ---- beside a claim

    async def check_routes(
        self, lane: str, namespace: str | None, offered: tuple[str, ...], now_ms: int | None = None
    ) -> bool:
        """Parks heads of a lane that no live worker can run; true if it released any execution.

        Does nothing until `CHECK_EVERY_MS` after the first claim and after each check.
        """
        now = await self._store.now_ms() if now_ms is None else now_ms
        if not self._is_due(lane, namespace, offered, now):
            return False
        namespaces = [
            each async for each in self.namespaces(lane, namespace, MAX_CHECKED_NAMESPACES)
        ]
        reads = [_heads(lane, each) for each in namespaces]
        if offered:
            reads.append(_parked())
        loaded = await self._store.load(reads)
        found = [
            await readable_rows(self._store, list(starmap(Routed, rows))) for rows in loaded.rows
        ]
        for each, heads in zip(namespaces, found, strict=False):
            if routing.not_covered_by(heads, offered):
                await self._park(lane, each, offered, heads)
        return bool(offered) and await self._release_claimable(lane, namespace, offered, found[-1])

    async def namespaces(
        self, lane: str, namespace: str | None, most: int = MAX_NAMESPACES
    ) -> AsyncIterator[str]:
        """The namespace given, or all with ready work in the lane."""
        if namespace is not None:
            yield namespace
            return
        async for each in self._rotation.namespaces(lane, most):
            yield each

    def _is_due(self, lane: str, namespace: str | None, offered: tuple[str, ...], now: int) -> bool:
        """False for the first claim of its kind, which stays one round trip."""
        key = (lane, namespace, offered)
        before = self._checked_at.get(key)
        if before is not None and now < before + CHECK_EVERY_MS:
            return False
        if len(self._checked_at) >= MAX_CHECKS:
            self._checked_at.clear()
        self._checked_at[key] = now
        return before is not None

    async def _park(
        self, lane: str, namespace: str, offered: Collection[str], heads: list[Routed]
    ) -> None:
        live, seen = await self.live_workers(namespace), 0
        while heads:
            seen += len(heads)
            now = await self._store.now_ms()
            parked = routing.uncovered(
                routing.not_covered_by(heads, offered), live, self._claiming(lane, namespace, now)
            )
            done = await self._core.commit_each([routing.park(head, now) for head in parked])
            if done:
                _log_parked(lane, namespace, offered, parked, done)
                await self._release_for_new_workers(namespace, parked)
            if done < len(heads) or len(heads) < HEAD_PAGE or seen >= MAX_HEADS:
                return
            heads = await readable_rows(
                self._store, await load_all(self._store, _heads(lane, namespace), Routed)
            )

    def _claiming(self, lane: str, namespace: str, now: int) -> list[tuple[str, ...]]:
        """The capabilities of recent claims in this process, whose workers may be unregistered."""
        since = now - RECENT_CLAIM_MS
        return [
            offered
            for (claimed, of, offered), at in self._checked_at.items()
            if claimed == lane and of in (namespace, None) and at > since
        ]

    async def _release_for_new_workers(self, namespace: str, parked: Sequence[Routed]) -> None:
        """A worker that registered before the park was committed found nothing to release."""
        moved = [
            structs.replace(each, version=each.version + 1, blocking_reason=routing.WAITING)
            for each in parked
        ]
        await self._release(moved, await self.live_workers(namespace), len(moved))

    async def _release_claimable(
        self, lane: str, namespace: str | None, offered: Collection[str], parked: list[Routed]
    ) -> bool:
        """Releases what the claimer can run. A claimer is live, registered or not."""
        released = 0
        while parked:
            free = routing.claimable(parked, lane, namespace, offered)
            released += await self._release_each(free)
            if len(parked) < ROUTE_PAGE or released:
                break
            parked = await load_all(self._store, behind(_parked(), parked[-1]), Routed)
        return released > 0

    # ---- releasing

    async def release_page(
        self, after: Position | None, limit: int, wanted: ScannerFilter | None = None
    ) -> tuple[int, Position | None]:
        """Releases parked executions of one page that a live worker can run, at most `limit`.

        Returns their number, and the position behind the page, None at the end.
        """
        parked = await load_all(self._store, _parked(after), Routed)
        if not parked:
            return 0, None
        done = await self._release(parked, await self.live_workers(), limit, wanted)
        last = parked[-1]
        is_full = len(parked) == ROUTE_PAGE
        return done, (last.last_transition_at, last.execution_id) if is_full else None

    async def release_for(self, namespace: str, offered: Collection[str]) -> int:
        """Releases executions of a namespace that these capabilities cover; returns how many."""
        released = 0
        async for parked in pages(self._store, _parked(), Routed):
            released += await self._release_each(routing.covered_by(parked, namespace, offered))
        return released

    async def _release(
        self,
        parked: Sequence[Routed],
        live: Collection[WorkerInfo],
        limit: int,
        wanted: ScannerFilter | None = None,
    ) -> int:
        free = [each for each in routing.covered(parked, live) if passes(each, wanted)]
        return await self._release_each(free[:limit])

    async def _release_each(self, free: Sequence[Routed]) -> int:
        now = await self._store.now_ms()
        return await self._core.commit_each([routing.release(each, now) for each in free])


def _log_parked(
    lane: str, namespace: str, offered: Collection[str], parked: Sequence[Routed], done: int
) -> None:
    idents = [ExecutionId.of(each.partition_key, each.execution_id) for each in parked[:MAX_LOGGED]]
    needs = {need for each in parked for need in each.required_capabilities}
    log.info(
        "executions parked until a capable worker registers",
        extra={
            "lane": lane,
            "namespace": namespace,
            "parked": done,
            "execution_ids": [str(ident) for ident in idents],
            "missing": sorted(needs - set(offered))[:MAX_LOGGED],
        },
    )


def _heads(lane: str, namespace: str) -> Scan:
    group = {"lane_id": lane, "namespace": namespace, "gate": ""}
    return Scan("ready", group, limit=HEAD_PAGE, columns=COLUMNS)


def _parked(after: Position | None = None) -> Scan:
    return Scan("routed", after=after, limit=ROUTE_PAGE, columns=COLUMNS)


def registered(namespace: str | None, after: tuple[str, ...] | None, limit: int) -> Scan:
    """The workers of a namespace, or of all."""
    if namespace is None:
        return Scan("all_workers", after=after, limit=limit)
    return Scan("workers", {"namespace": namespace}, after, limit=limit)
