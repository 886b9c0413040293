"""Engines on one cell, each with a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from flowfabric.connect import valkey_engine
from flowfabric.engine.engine import Engine
from flowfabric.store.valkey.audit import audit
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, snapshot_of
from tests.patience import patient


@asynccontextmanager
async def engine_on(options: Options, clock: ManualClock | None = None) -> AsyncIterator[Engine]:
    engine = valkey_engine(await ValkeyStore(options, clock=clock).open())
    try:
        yield engine
    finally:
        await engine.close()


async def world(engine: Engine) -> Snapshot:
    """The stored rows, after a check of every invariant and of every index."""
    found = snapshot_of(await engine.store.dump(TABLES_READ))
    assert [str(violation) for violation in check(found)] == []
    assert isinstance(engine.store, ValkeyStore)
    assert await audit(engine.store.options) == []
    return found


async def until(holds: Callable[[], Any | Awaitable[Any]]) -> None:
    async with patient(20):
        while True:
            found = holds()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.005)
