"""An idle worker is woken by new work, not by its poll."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from flowfabric import App, CreateQuotaPolicyArgs, Worker
from flowfabric.sdk import producer
from tests.patience import patient


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """A worker that is not woken waits for an hour."""
    monkeypatch.setattr(producer, "POLL_S", 3_600.0)
    return App(f"sqlite:///{tmp_path / 'ff.db'}")


async def test_new_work_wakes_an_idle_worker(app: App) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app, Worker(app), patient(30):
        for n in range(5):
            assert await (await double.submit(n)).result() == 2 * n


async def test_freed_quota_wakes_an_idle_worker(app: App) -> None:
    running, most = 0, 0

    @app.task(lane="narrow")
    async def one_at_a_time() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async with app, patient(60):
        engine, quota = await app.engine(), uuid4()
        await engine.create_quota_policy(
            CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1)
        )
        await engine.attach_limit("quota", quota, "lane", "narrow")
        runs = await one_at_a_time.submit_many([()] * 5)
        async with Worker(app):
            for run in runs:
                await run.result()
    assert most == 1
