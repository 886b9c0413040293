"""Work under a quota starts when the quota opens, not at the next poll of a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from flowfabric import App, Engine, Worker
from flowfabric.engine.claims import claims
from flowfabric.model.attempt import Attempt
from flowfabric.sdk import producer
from flowfabric.store.clock import system_clock
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing.virtual_clock import VirtualClock
from tests.conftest import ENGINES, make_engine
from tests.patience import patient
from tests.remote.served import Served

POLL_S = 300.0
MOST_S = 20.0
"""Far above the three seconds it takes, and far below one poll of an idle worker."""


@pytest.fixture(params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    monkeypatch.setattr(producer, "POLL_S", POLL_S)
    monkeypatch.setattr(claims, "POLL_S", POLL_S)
    made = make_engine(request.param, system_clock, tmp_path)  # type: ignore[arg-type]
    yield made
    asyncio.run(made.close())


async def paced(
    engine: Engine, ways: list[Engine], lanes: list[str] | None = None
) -> tuple[float, list[int]]:
    """How long seven runs take at two per second, and when the store admitted each; one worker per
    way to the engine. A busy machine may begin a run well after its admission.
    """
    apps = [declared(App("memory://", engine=way)) for way in ways]
    workers = [Worker(app, lanes=lanes, loops=False) for app in apps]
    for worker in workers:
        await worker.__aenter__()
    try:
        began = time.monotonic()
        runs = await apps[0].tasks["call"].submit_many([()] * 7)
        async with patient(60):
            for run in runs:
                await run.result()
        took = time.monotonic() - began
        rows = (await engine.store.dump(["ff_attempt"]))["ff_attempt"]
        return took, sorted(Attempt(*row).started_at_ms or 0 for row in rows)
    finally:
        for worker in workers:
            await worker.stop()


def declared(app: App) -> App:
    app.quota("x", requests=2, per="1s", lane="calls")

    @app.task(lane="calls")
    async def call() -> None: ...

    @app.task
    async def other() -> None: ...

    return app


def at_its_pace(took: float, starts: list[int]) -> None:
    assert 2.9 <= took < MOST_S and len(starts) == 7
    gaps = [late - early for early, late in zip(starts, starts[2:], strict=False)]
    assert min(gaps) >= 1_000


async def test_two_a_second_take_three_seconds_for_seven(engine: Engine) -> None:
    at_its_pace(*await paced(engine, [engine]))


async def test_two_workers_share_the_pace(engine: Engine) -> None:
    at_its_pace(*await paced(engine, [engine, engine]))


@pytest.mark.parametrize("lanes", [["calls"], ["calls", "default"]], ids=["one lane", "two lanes"])
async def test_the_pace_is_kept_over_http(lanes: list[str], engine: Engine) -> None:
    """A worker of one lane waits with its claim on the server, one of two lanes beside it."""
    served = Served(engine)
    try:
        at_its_pace(*await paced(engine, [cast(Engine, served)], lanes))
    finally:
        await served.end()


async def test_quota_place_freed_by_another_worker_is_used(engine: Engine, tmp_path: Path) -> None:
    """The place belongs to a lease that another engine on the same store holds."""
    elsewhere = engine
    if isinstance(engine.store, ValkeyStore):
        elsewhere = Engine(ValkeyStore(engine.store.options, clock=system_clock))
    elif engine.backend_label != "memory":
        label = {"sqlite": "sqlite-file"}.get(engine.backend_label, engine.backend_label)
        elsewhere = make_engine(label, system_clock, tmp_path)  # type: ignore[arg-type]
    hold, began = asyncio.Event(), [0]
    apps = [placed(App("memory://", engine=each), began, hold) for each in (engine, elsewhere)]
    await opened(elsewhere)
    try:
        runs = await apps[0].tasks["call"].submit_many([()] * 2)
        async with Worker(apps[1], concurrency=1, loops=False), patient(60):
            await until(lambda: began[0] == 1)
            async with Worker(apps[0], loops=False):
                await until(lambda: began[0] == 1)
                hold.set()
                before = time.monotonic()
                for run in runs:
                    await run.result()
                assert time.monotonic() - before < MOST_S
    finally:
        with suppress(Exception):
            await elsewhere.close()


def placed(app: App, began: list[int], hold: asyncio.Event) -> App:
    app.quota("x", concurrent=1, lane="calls")

    @app.task(lane="calls")
    async def call() -> None:
        began[0] += 1
        await hold.wait()

    return app


async def opened(engine: Engine) -> None:
    if isinstance(engine.store, PostgresStore):
        await engine.store.open(check=False)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


@pytest.mark.ff_backend("memory", "sqlite", "postgres")
async def test_time_moved_by_hand_stops_where_a_window_opens(
    ff_clock: VirtualClock, ff_engine: Engine, ff_worker: Callable[..., Worker]
) -> None:
    app = App("memory://")
    app.quota("x", requests=2, per="1s", lane="calls")
    began, starts = ff_clock.now_ms, list[int]()

    @app.task(lane="calls")
    async def call() -> None:
        starts.append(ff_clock.now_ms - began)

    ff_worker(app)
    await call.submit_many([()] * 7)
    await ff_clock.advance("10s")
    assert starts == [0, 0, 1_000, 1_000, 2_000, 2_000, 3_000]
