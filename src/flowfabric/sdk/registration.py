"""A worker's entry in the registry of workers, and its heartbeat."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.worker import NotRegistered, RegisterWorkerArgs

log = logging.getLogger("flowfabric.worker")

SHORTEST_TTL_MS = 1_000


class Registration(Struct):
    """Who a worker is to the engine, and what it can run."""

    worker_id: str
    instance_id: str
    namespace: str
    lanes: frozenset[str]
    capabilities: tuple[str, ...]
    lease_ms: int

    def policy(self, wait_ms: int | None = None) -> ClaimPolicy:
        return ClaimPolicy(self.worker_id, self.instance_id, self.lease_ms, wait_ms, self.namespace)

    async def add(self, engine: EngineProtocol) -> None:
        await engine.register_worker(
            RegisterWorkerArgs(
                worker_id=self.worker_id,
                worker_instance_id=self.instance_id,
                namespace=self.namespace,
                lanes=self.lanes,
                capabilities=frozenset(self.capabilities),
                liveness_ttl_ms=max(self.lease_ms, SHORTEST_TTL_MS),
            )
        )

    async def remove(self, engine: EngineProtocol) -> None:
        """Capability routing notices at once, instead of after the entry's time to live."""
        with suppress(EngineError):
            await engine.mark_worker_dead(self.instance_id, "stopped", self.namespace)

    async def beat(self, engine: EngineProtocol) -> None:
        """Sends a heartbeat every third of the lease time; registers again after a removal."""
        while True:
            await asyncio.sleep(self.lease_ms / 3_000)
            try:
                answer = await engine.heartbeat_worker(self.instance_id, self.namespace)
                if isinstance(answer, NotRegistered):
                    await self.add(engine)
            except EngineError as error:
                log.warning("heartbeat failed; trying again", extra={"reason": str(error)})
            except Exception:
                log.exception("heartbeat failed; trying again")
