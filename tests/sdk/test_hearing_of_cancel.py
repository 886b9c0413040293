"""A running task hears of its cancel, and of a revoked lease, within a second."""

from __future__ import annotations

import asyncio
import time

import pytest

from flowfabric import App, Engine, Worker

PATIENCE_S = 5.0


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.mark.meets("cancel", "reclaim")
async def test_a_running_task_hears_of_its_cancel(app: App, engine: Engine) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    run, worker = await endless.submit(), Worker(app, lease="30s")
    going = asyncio.create_task(worker.run_until_idle())
    try:
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        since = time.monotonic()
        await run.cancel()
        await asyncio.wait_for(stopped.wait(), PATIENCE_S)
        assert time.monotonic() - since < 3, "the next renewal is 10 s away"
        await going
    finally:
        await worker.stop()
