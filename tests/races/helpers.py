"""Several engines on one database or cell, each with its own connections, so that races are between
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
from flowfabric.store.valkey.audit import audit
from flowfabric.store.valkey.options import Options as Cell
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, snapshot_of
from tests import valkey
from tests.patience import patient
from tests.postgres import clean_database

Place = Options | Cell
"""A database of Postgres, or a cell of Valkey."""


def place_of(kind: str) -> Place:
    """A new one."""
    if kind == "valkey":
        return valkey.new_store(ManualClock()).options
    return clean_database()


async def _opened(place: Place, clock: ManualClock | None) -> PostgresStore | ValkeyStore:
    if isinstance(place, Cell):
        return await ValkeyStore(place, clock=clock).open()
    return await PostgresStore(place, clock=clock).open(check=False)


@asynccontextmanager
async def engines(
    place: Place, count: int, clock: ManualClock | None = None
) -> AsyncIterator[list[Engine]]:
    opened: list[PostgresStore | ValkeyStore] = []
    try:
        for _ in range(count):
            opened.append(await _opened(place, clock))  # noqa: PERF401 - closed when one fails
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
    if isinstance(engine.store, ValkeyStore):
        assert await audit(engine.store.options) == []
    return world


async def until(holds: Callable[[], Awaitable[Any]]) -> None:
    """Polls the server up to a limit."""
    async with patient(10):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
