"""Several engines on one database, each with its own connections, so that races are between
sessions of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, CreateExecutionArgs
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, snapshot_of
from tests.patience import patient


@asynccontextmanager
async def engines(
    options: Options, count: int, clock: ManualClock | None = None
) -> AsyncIterator[list[Engine]]:
    stores = [PostgresStore(options, clock=clock) for _ in range(count)]
    opened: list[PostgresStore] = []
    try:
        opened = [await store.open(check=False) for store in stores]
        yield [Engine(store, seed=at) for at, store in enumerate(opened)]
    finally:
        for store in opened:
            await store.close()


def ident(n: int, partition: int | None = None) -> ExecutionId:
    """The n-th execution of a test; consecutive ones are in different partitions unless one is
    named.
    """
    return ExecutionId.of(n % 7 if partition is None else partition, UUID(int=n + 1))


async def create_all(engine: Engine, wanted: Iterable[CreateExecutionArgs]) -> None:
    for answer in await engine.create_executions(list(wanted)):
        assert isinstance(answer, Created)


async def sound_world(engine: Engine) -> Snapshot:
    """The stored rows, after a check of every invariant."""
    world = snapshot_of(await engine.store.dump(TABLES_READ))
    assert [str(violation) for violation in check(world)] == []
    return world


async def until(holds: Callable[[], Awaitable[Any]]) -> None:
    """Polls the server up to a limit."""
    async with patient(10):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
