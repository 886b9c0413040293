"""SIGKILL at every await of a parent and its children: each child is submitted once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from flowfabric import Engine, Worker, memory_engine
from flowfabric.store.schema import TABLES

from .crashing import NEVER, Fuse, fused
from .families import CALLS, CHILDREN, EXPECTED, RUNS, family_app, raise_family
from .processes import DEADLINE_S, STORES, ended, eventually, noted, started, url_on

AT_ONCE = 8
STRIDE = {"sqlite": 9, "postgres": 13, "valkey": 13}


async def points(folder: Path) -> int:
    """The number of points from the first claim to the last answer, without a crash."""
    fuse, engine = Fuse(NEVER), memory_engine()
    app = family_app("memory://", "dry", str(folder), fuse, engine=engine)
    fused(engine, fuse, CALLS)
    run = await app.tasks["parent"].submit()
    await Worker(app, concurrency=2).run_until_idle()
    assert await run.result() == EXPECTED
    assert await runs_on(engine, "dry") == RUNS
    await app.close()
    await engine.close()
    return fuse.passed


async def runs_on(engine: Engine, lane: str) -> int:
    at = TABLES["ff_exec_core"].names.index("lane_id")
    return sum(
        row[at] == lane for row in (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"]
    )


async def killed_at(point: int, url: str, folder: Path, room: asyncio.Semaphore) -> bool:
    """Whether the process was killed there; the next process finishes the run in any case."""
    lane = f"point-{point}"
    app = family_app(url, lane, str(folder), Fuse(NEVER))
    async with room, app:
        run = await app.tasks["parent"].submit()
        with started(raise_family, url, lane, str(folder), str(run.id), point) as worker:
            await eventually(lambda: not worker.is_alive())
            code = await ended(worker)
        assert code in (0, -signal.SIGKILL)
        with started(raise_family, url, lane, str(folder), str(run.id), NEVER):
            assert await run.result(timeout=DEADLINE_S) == EXPECTED, f"point {point}"
        assert await runs_on(await app.engine(), lane) == RUNS, (
            f"point {point}: somebody was started twice"
        )
        ran = noted(folder / lane)
        assert len(set(ran)) == 2 * CHILDREN and len(ran) <= 2 * CHILDREN + 2, (
            f"point {point}: {ran}"
        )
        return code != 0


def kill_at_points(store: str, tmp_path: Path, stride: int) -> None:
    async def go() -> None:
        every = await points(tmp_path)
        assert every > 60
        wanted = range(1, every + 1, stride)
        url = await asyncio.to_thread(url_on, store, tmp_path)
        room = asyncio.Semaphore(AT_ONCE)
        killed = await asyncio.gather(*(killed_at(point, url, tmp_path, room) for point in wanted))
        assert sum(killed) >= len(killed) - 3

    asyncio.run(go())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.meets("crash", "reclaim", "child")
def test_each_child_runs_once_when_killed_at_some_awaits(store: str, tmp_path: Path) -> None:
    kill_at_points(store, tmp_path, STRIDE[store])


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", STORES)
def test_each_child_runs_once_whichever_await_is_killed(store: str, tmp_path: Path) -> None:
    kill_at_points(store, tmp_path, 1)
