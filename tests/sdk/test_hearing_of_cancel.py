"""A running task is cancelled long before its lease is renewed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowfabric import App, Engine, Worker
from flowfabric.model.lease import Handle, HandleKind, RevokeLeaseArgs
from flowfabric.sdk import lease_renewer
from flowfabric.sdk.lease_renewer import LeaseRenewer
from tests.patience import patience

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
        await asyncio.wait_for(began.wait(), patience(PATIENCE_S))
        if how == "cancel":
            await run.cancel()
        else:
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=run.id))
        await asyncio.wait_for(stopped.wait(), patience(PATIENCE_S))
        await asyncio.wait_for(going, patience(PATIENCE_S))
        assert await run.state() == ("cancelled" if how == "cancel" else "completed")
    finally:
        await worker.stop()


class Apart:
    """An event loop's sleep and a clock that only it moves; every lease is lost."""

    def __init__(self, began: float) -> None:
        self.now, self._sleep = began, asyncio.sleep

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await self._sleep(0)

    async def engine(self) -> Any:
        return self

    async def are_held(self, handles: list[Handle]) -> list[bool]:
        return [False] * len(handles)


@pytest.mark.parametrize("claimed_after", [0.0, 0.001, 0.15, 0.299])
async def test_a_lease_that_is_lost_right_after_its_claim_is_noticed_within_a_second(
    monkeypatch: pytest.MonkeyPatch, claimed_after: float
) -> None:
    """Wherever between two checks it was claimed."""
    apart = Apart(100.0)
    monkeypatch.setattr(lease_renewer, "time", SimpleNamespace(monotonic=apart.monotonic))
    monkeypatch.setattr(asyncio, "sleep", apart.sleep)
    keeper, lost_at = (
        LeaseRenewer(cast(App, apart), 600_000),
        asyncio.get_running_loop().create_future(),
    )
    keeper._loop = cast(Any, SimpleNamespace(call_soon_threadsafe=lambda call: call()))
    checking = asyncio.create_task(keeper._check_often())
    held_at = 100.0 + claimed_after
    keeper._held[b"x"] = lease_renewer._Held(
        Handle("memory", HandleKind.FRESH, b"x"),
        1e9,
        1e9,
        lambda: lost_at.set_result(apart.now),
        held_at,
    )
    assert await asyncio.wait_for(lost_at, patience(PATIENCE_S)) - held_at < 1.0
    checking.cancel()
