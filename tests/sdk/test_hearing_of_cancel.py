"""A running task is cancelled long before its lease is renewed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

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
    """An app, its engine and a clock that only the test moves; every lease is lost."""

    is_local = True

    def __init__(self, began: float) -> None:
        self.now, self._sleep = began, asyncio.sleep

    async def move_to(self, end: float) -> None:
        while self.now < end:
            self.now += 0.001
            await self._sleep(0)

    async def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            await self._sleep(0)

    async def engine(self) -> Apart:
        return self

    async def renew(self, handle: Handle) -> None: ...

    async def are_held(self, handles: list[Handle]) -> list[bool]:
        return [False] * len(handles)


@pytest.mark.parametrize("claimed_after", [0.0, 0.001, 0.15, 0.299])
async def test_a_lease_that_is_lost_right_after_its_claim_is_noticed_within_a_second(
    monkeypatch: pytest.MonkeyPatch, claimed_after: float
) -> None:
    """Wherever between two checks it was claimed."""
    apart = Apart(100.0)
    monkeypatch.setattr(lease_renewer, "time", SimpleNamespace(monotonic=lambda: apart.now))
    monkeypatch.setattr(asyncio, "sleep", apart.sleep)
    renewer, lost_at = LeaseRenewer(cast(App, apart), 600_000), list[float]()
    renewer.hold(Handle("memory", HandleKind.FRESH, b"earlier"), lambda: None)
    await apart.move_to(100.0 + claimed_after)
    held_at = apart.now
    renewer.hold(
        Handle("memory", HandleKind.FRESH, b"x"), lambda: lost_at.append(apart.now - held_at)
    )
    await apart.move_to(held_at + 1.0)
    await renewer.close()
    assert lost_at
