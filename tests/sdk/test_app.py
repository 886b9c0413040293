"""An app connects once, and waits for results without polling."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric import App, Engine
from flowfabric.errors import ConfigError, TransportError
from tests.patience import patient

from .helpers import unanswered, until, worked_off


async def test_concurrent_callers_share_one_connection_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("memory://")
    real, tries = app.another_engine, []

    async def flaky() -> Engine:
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise TransportError("test", "nobody there")
        return await real()

    monkeypatch.setattr(app, "another_engine", flaky)
    async with patient(5):
        found = await asyncio.gather(*(app.engine() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [TransportError] * 3
        first, *others = await asyncio.gather(*(app.engine() for _ in range(3)))
    assert all(each is first for each in others) and len(tries) == 2
    await app.close()
    await app.close()


def test_an_app_belongs_to_one_event_loop() -> None:
    app = App("memory://")

    @app.task
    async def work() -> None: ...

    async def submit_and_wait() -> None:
        run = await work.submit()
        with pytest.raises(TimeoutError):
            await run.result(timeout=0.01)
        await app.close()

    asyncio.run(submit_and_wait())
    asyncio.run(submit_and_wait())
    asyncio.run(app.__aenter__())
    with pytest.raises(ConfigError, match="connected in another event loop"):
        asyncio.run(submit_and_wait())


def test_only_what_is_in_memory_counts_as_local() -> None:
    local = ["memory://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"]
    assert [App(url).is_local for url in local] == [True] * 3
    shared = [
        "sqlite:///memory.db",
        "postgresql://memory-host/db",
        "sqlite:////data/in-memory/ff.db",
    ]
    assert [App(url).is_local for url in shared] == [False] * 3


async def test_waiter_woken_without_an_end_waits_on(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay took the end back before the waiter read it."""

    @app.task
    async def work() -> str:
        return "done"

    run = await work.submit()
    looks = unanswered(monkeypatch, memory, "read_outcome", 0, landed=False)
    waiting = asyncio.create_task(run.result())
    await until(lambda: len(looks) == 1)
    app.results.wake(run.id.uuid)
    await until(lambda: len(looks) == 2)
    await asyncio.sleep(0.02)
    assert len(looks) == 2
    await worked_off(app)
    assert await waiting == "done"
    await app.close()
