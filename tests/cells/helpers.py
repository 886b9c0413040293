"""Two namespaces on one Valkey server, each in a cell of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from flowfabric.connect import ValkeyBackend
from flowfabric.engine.cells.cells_engine import CellsEngine
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy, Work
from flowfabric.store.clock import Clock
from tests import valkey

LANE = "default"


def new_url() -> str:
    """The URL of an empty deployment."""
    return valkey.server().url_of(f"cells-{next(valkey.CELLS)}")


@asynccontextmanager
async def opened(url: str | None = None, clock: Clock | None = None) -> AsyncIterator[CellsEngine]:
    engine = await ValkeyBackend.connect(url or new_url(), clock=clock)
    try:
        yield engine
    finally:
        await engine.close()


async def create(engine: EngineProtocol, namespace: str, n: int = 1) -> list[ExecutionId]:
    made = [ExecutionId.solo(LANE) for _ in range(n)]
    for each in made:
        await engine.create_execution(CreateExecutionArgs(execution_id=each, namespace=namespace))
    return made


def policy(namespace: str | None, wait_ms: int | None = None) -> ClaimPolicy:
    return ClaimPolicy("w", "w-1", 30_000, wait_ms, namespace)


async def claim(engine: EngineProtocol, namespace: str | None, n: int = 1) -> list[Work]:
    return await engine.claim_many(LANE, (), policy(namespace), n)
