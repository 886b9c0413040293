"""Engines to measure, opened on fresh storage."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.raw import PAYLOAD
from flowfabric import CreateExecutionArgs, Engine, ExecutionId, SqliteBackend, memory_engine

LANE = "bench"
BULK = 1_000


@asynccontextmanager
async def opened(store: str) -> AsyncIterator[tuple[Engine, Path]]:
    """A fresh engine, and the folder beside it for a raw rival. The folder is on the working disk, not in memory."""
    logging.getLogger("flowfabric").setLevel(logging.ERROR)
    with TemporaryDirectory(prefix="flowfabric-bench-", dir=".") as folder:
        path = Path(folder)
        engine = memory_engine() if store == "memory" else await SqliteBackend.new(str(path / "engine.db"), dev=True)
        try:
            yield engine, path
        finally:
            await engine.close()


def creations(n: int) -> list[CreateExecutionArgs]:
    return [
        CreateExecutionArgs(execution_id=ExecutionId.solo(LANE), lane_id=LANE, execution_kind="bench", input_payload=PAYLOAD)
        for _ in range(n)
    ]


async def fill(engine: Engine, n: int) -> None:
    for at in range(0, n, BULK):
        await engine.create_executions(creations(min(BULK, n - at)))
