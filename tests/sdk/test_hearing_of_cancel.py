"""A running task is cancelled long before its lease is renewed."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric import App, Engine, Worker
from flowfabric.model.lease import RevokeLeaseArgs

PATIENCE_S = 40.0
"""The limit is a second; a busy machine may take longer, but the next renewal is 200 s away."""


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.mark.parametrize("how", ["cancel", "revoke"])
async def test_running_task_is_cancelled_within_a_second(
    app: App, engine: Engine, how: str
) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        if stopped.is_set():
            return
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    run, worker = await endless.submit(), Worker(app, lease="10m")
    going = asyncio.create_task(worker.run_until_idle())
    try:
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        if how == "cancel":
            await run.cancel()
        else:
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=run.id))
        await asyncio.wait_for(stopped.wait(), PATIENCE_S)
        await asyncio.wait_for(going, PATIENCE_S)
        assert await run.state() == ("cancelled" if how == "cancel" else "completed")
    finally:
        await worker.stop()
