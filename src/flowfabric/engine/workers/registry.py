"""The worker registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from flowfabric.engine import validation
from flowfabric.engine.claims.routing import Routing, registered
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import full_page, load_all, load_one, load_rows, pages
from flowfabric.errors import bad_input, invalid
from flowfabric.ids import lane_id, name
from flowfabric.model import worker as model
from flowfabric.model.execution import Page
from flowfabric.model.policy import check_worker_capabilities
from flowfabric.rules.workers import registry
from flowfabric.store.port import Get, Scan

MAX_WORKERS_PAGE = 1_000
MAX_WORKER_LANES = 256


class WorkerRegistry:
    """Registers workers, lists the live ones and removes those that are silent."""

    def __init__(self, core: Core, routing: Routing) -> None:
        self._core, self._store = core, core.store
        self._routing = routing

    async def register_worker(
        self, args: model.RegisterWorkerArgs
    ) -> model.Registered | model.Refreshed:
        """Registers a worker and its capabilities; releases work that waited for such a worker."""
        validation.worker(args.worker_id, args.worker_instance_id)
        name(args.namespace, "namespace")
        _check_lanes(args.lanes)
        tokens = check_worker_capabilities(args.capabilities)
        validation.ttl_ms(args.liveness_ttl_ms, "liveness_ttl_ms", model.MAX_LIVENESS_TTL_MS)
        now = await self._now(args.now)
        load = self._worker_loader(args.namespace, args.worker_instance_id)
        result: model.Registered | model.Refreshed = await self._core.run(
            load, lambda stored: registry.register(stored, args, now)
        )
        if now + args.liveness_ttl_ms > await self._store.now_ms():
            await self._routing.release_for(args.namespace, tokens)
        return result

    async def heartbeat_worker(
        self, worker_instance_id: str, namespace: str = "default", now: int | None = None
    ) -> model.Refreshed | model.NotRegistered:
        name(worker_instance_id, "worker_instance_id")
        name(namespace, "namespace")
        at = await self._now(now)
        load = self._worker_loader(namespace, worker_instance_id)
        return await self._core.run(load, lambda stored: registry.heartbeat(stored, at))

    async def mark_worker_dead(
        self,
        worker_instance_id: str,
        reason: str = "",
        namespace: str = "default",
        now: int | None = None,
    ) -> model.Marked | model.NotRegistered:
        """Removes a worker from the registry; its leases expire at their own time."""
        name(worker_instance_id, "worker_instance_id")
        name(namespace, "namespace")
        _check_reason(reason)
        at = await self._now(now)
        load = self._worker_loader(namespace, worker_instance_id)
        return await self._core.run(load, lambda stored: registry.mark_dead(stored, reason, at))

    async def list_workers(
        self,
        namespace: str | None = None,
        after: str | tuple[str, str] | None = None,
        limit: int = MAX_WORKERS_PAGE,
    ) -> Page[model.WorkerInfo]:
        """Live workers by instance id.

        Without a namespace it lists all namespaces, and the cursor is (namespace, instance id).
        """
        size = validation.limit(limit, MAX_WORKERS_PAGE)
        if namespace is not None:
            name(namespace, "namespace")
        if not size:
            return Page([])
        position = None if after is None else _checked_position(after, namespace)
        scan = registered(namespace, position, size + 1)
        found: list[model.WorkerInfo] = []
        now = await self._store.now_ms()
        async for page in pages(self._store, scan, model.WorkerInfo):
            found += [worker for worker in page if worker.expires_at_ms > now]
            if len(found) > size:
                break
        items, last = full_page(found, size)
        if last is None:
            return Page(items)
        instance = last.worker_instance_id
        return Page(items, instance if namespace is not None else (last.namespace, instance))

    async def drop_silent_workers(self, limit: int = 100) -> int:
        """Removes workers whose heartbeat is overdue; returns how many."""
        size = validation.limit(limit, MAX_WORKERS_PAGE)
        now = await self._store.now_ms()
        silent = Scan("worker_expiry", upto=now - 1, limit=size)
        found = await load_all(self._store, silent, model.WorkerInfo)
        return await self._core.commit_each([registry.drop_silent(each, now) for each in found])

    async def forget_worker_events(self, limit: int = 1_000) -> int:
        """Drops registry events past the retention of completed executions; returns how many."""
        size = validation.limit(limit, MAX_WORKERS_PAGE)
        bound = await self._store.now_ms() - self._core.settings.retention_completed_ms
        scan = Scan("worker_events", upto=bound, limit=size, columns=("event_id",))
        rows = await load_rows(self._store, scan)
        return await self._core.commit_each(
            [registry.FORGET_EVENT(event_id=event) for (event,) in rows]
        )

    def _worker_loader(
        self, namespace: str, instance: str
    ) -> Callable[[], Awaitable[model.WorkerInfo | None]]:
        read = Get("ff_worker_registry", (namespace, instance))
        return lambda: load_one(self._store, read, model.WorkerInfo)

    async def _now(self, given: int | None) -> int:
        return await self._store.now_ms() if given is None else validation.timestamp(given, "now")


def _check_lanes(lanes: object) -> None:
    if not isinstance(lanes, set | frozenset | tuple | list) or len(lanes) > MAX_WORKER_LANES:
        raise invalid("lanes", f"a set of at most {MAX_WORKER_LANES} lanes")
    for lane in lanes:
        lane_id(lane, "lanes")


def _check_reason(reason: object) -> None:
    size = len(reason.encode(errors="replace")) if isinstance(reason, str) else 0
    if not isinstance(reason, str) or size > model.MAX_DEAD_REASON_BYTES:
        raise bad_input(f"reason: exceeds {model.MAX_DEAD_REASON_BYTES} bytes (got {size})")
    if any(ord(ch) < 32 or ord(ch) == 127 for ch in reason):
        raise bad_input("reason: must not contain control characters")
    validation.text(reason, "reason")


def _checked_position(after: object, namespace: str | None) -> tuple[str, ...]:
    parts = (after,) if isinstance(after, str) else after
    if not isinstance(parts, tuple) or len(parts) != (1 if namespace is not None else 2):
        accepted = "the cursor of the page before: an instance id, or (namespace, instance id)"
        raise invalid("after", accepted, after)
    return tuple(name(part, "after") for part in parts)
