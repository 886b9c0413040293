"""The worker registry."""

from __future__ import annotations

from typing import Any

from flowfabric.engine import checks
from flowfabric.engine.reads import Reads
from flowfabric.errors import Contention, ValidationError, ValidationKind
from flowfabric.ids import lane_id, name
from flowfabric.model.execution import Execution, Page
from flowfabric.model.policy import check_worker_capabilities
from flowfabric.model.worker import (
    MAX_DEAD_REASON_BYTES,
    MAX_LIVENESS_TTL_MS,
    Marked,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorkerArgs,
    WorkerInfo,
)
from flowfabric.plan import Applied
from flowfabric.rules import workers
from flowfabric.store.port import Get, Scan

MAX_WORKERS_PAGE = 1_000
ROUTE_PAGE = 100


class Workers(Reads):
    async def register_worker(self, args: RegisterWorkerArgs) -> Registered | Refreshed:
        """Says that a worker is alive and what it can run. Work that waited for such a worker is released."""
        name(args.worker_id, "worker_id")
        name(args.worker_instance_id, "worker_instance_id")
        name(args.namespace, "namespace")
        for lane in args.lanes:
            lane_id(lane, "lanes")
        check_worker_capabilities(args.capabilities)
        checks.ttl_ms(args.liveness_ttl_ms, "liveness_ttl_ms", MAX_LIVENESS_TTL_MS)
        now = await self._now(args.now)
        load = self._worker_loader(args.namespace, args.worker_instance_id)
        result: Registered | Refreshed = await self.settle(load, lambda stored: workers.register(stored, args, now))
        await self.release_routed()
        return result

    async def heartbeat_worker(
        self, worker_instance_id: str, namespace: str = "default", now: int | None = None
    ) -> Refreshed | NotRegistered:
        name(worker_instance_id, "worker_instance_id")
        at = await self._now(now)
        load = self._worker_loader(namespace, worker_instance_id)
        result: Refreshed | NotRegistered = await self.settle(
            load, lambda stored: workers.heartbeat(stored, namespace, worker_instance_id, at)
        )
        return result

    async def mark_worker_dead(
        self, worker_instance_id: str, reason: str = "", namespace: str = "default", now: int | None = None
    ) -> Marked | NotRegistered:
        """Takes a worker out of the registry. Its leases run out by themselves."""
        name(worker_instance_id, "worker_instance_id")
        if not isinstance(reason, str) or len(reason.encode(errors="replace")) > MAX_DEAD_REASON_BYTES:
            size = len(reason.encode(errors="replace")) if isinstance(reason, str) else 0
            raise ValidationError(ValidationKind.INVALID_INPUT, f"reason: exceeds {MAX_DEAD_REASON_BYTES} bytes (got {size})")
        if any(ord(ch) < 32 or ord(ch) == 127 for ch in reason):
            raise ValidationError(ValidationKind.INVALID_INPUT, "reason: must not contain control characters")
        at = await self._now(now)
        load = self._worker_loader(namespace, worker_instance_id)
        result: Marked | NotRegistered = await self.settle(load, lambda stored: workers.mark_dead(stored, reason, at))
        return result

    async def list_workers(
        self, namespace: str | None = None, after: str | tuple[str, str] | None = None, limit: int = MAX_WORKERS_PAGE
    ) -> Page:
        """Live workers by instance id; without a namespace, of all of them, with (namespace, instance) as the cursor."""
        size = checks.limit(limit, MAX_WORKERS_PAGE)
        found: list[WorkerInfo] = []
        position: tuple[Any, ...] | None = None
        if after is not None:
            position = (after,) if isinstance(after, str) else tuple(after)
        while size and len(found) <= size:
            group = {} if namespace is None else {"namespace": namespace}
            scan = Scan("all_workers" if namespace is None else "workers", group, position, limit=size + 1)
            loaded = await self.store.load((scan,))
            page = [WorkerInfo(*row) for row in loaded.rows[0]]
            found += [w for w in page if w.expires_at_ms > loaded.now_ms]
            if len(page) <= size:
                break
            position = _position(page[-1], namespace)
        full = len(found) > size
        return Page(found[:size], _cursor(found[size - 1], namespace) if full else None)

    async def drop_silent_workers(self, limit: int = 100) -> int:
        """Removes workers whose heartbeat is overdue; how many."""
        now = await self.store.now_ms()
        loaded = await self.store.load((Scan("worker_expiry", upto=now - 1, limit=limit),))
        plans = [workers.drop_silent(WorkerInfo(*row), now) for row in loaded.rows[0]]
        return sum(isinstance(a, Applied) for a in await self.store.commit_many(plans)) if plans else 0

    async def release_routed(self, limit: int = 1_000) -> int:
        """Lets go of executions that waited for a capable worker and now have one; how many."""
        after: tuple[Any, ...] | None = None
        live: list[WorkerInfo] | None = None
        released = 0
        for _ in range(limit // ROUTE_PAGE):
            loaded = await self.store.load((Scan("routed", after=after, limit=ROUTE_PAGE),))
            waiting = [Execution(*row) for row in loaded.rows[0]]
            if waiting and live is None:
                live = await self.live_workers()
            for execution in waiting:
                if workers.covers(live or [], execution.namespace, execution.required_capabilities):
                    try:
                        await self.unblock_execution(execution.id, execution.blocking_reason)
                        released += 1
                    except Contention:
                        continue  # somebody else released or moved it
            if len(waiting) < ROUTE_PAGE:
                break
            after = (waiting[-1].last_transition_at, waiting[-1].execution_id)
        return released

    def _worker_loader(self, namespace: str, instance: str) -> Any:
        async def load() -> WorkerInfo | None:
            loaded = await self.store.load((Get("ff_worker_registry", (namespace, instance)),))
            return WorkerInfo(*loaded.rows[0][0]) if loaded.rows[0] else None

        return load

    async def _now(self, given: int | None) -> int:
        return await self.store.now_ms() if given is None else checks.timestamp(given, "now")


def _position(worker: WorkerInfo, namespace: str | None) -> tuple[str, ...]:
    return (worker.worker_instance_id,) if namespace is not None else (worker.namespace, worker.worker_instance_id)


def _cursor(worker: WorkerInfo, namespace: str | None) -> str | tuple[str, str]:
    return worker.worker_instance_id if namespace is not None else (worker.namespace, worker.worker_instance_id)
