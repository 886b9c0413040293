"""SIGKILL at every await of a task: another process continues, and recorded steps stay."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from flowfabric import Run, Worker, memory_engine

from .crashing import EXPECTED, NEVER, STEPS, Fuse, fused, ten_steps, work_until_dead
from .processes import DEADLINE_S, STORES, ended, eventually, noted, started, url_on

AT_ONCE = 12
STRIDE = {"sqlite": 4, "postgres": 7, "valkey": 7}
"""A step has five points: with these strides each of them is met, at one step or another. Nightly,
a process is killed at every point.
"""


async def points(folder: Path) -> int:
    """The number of points from the first claim to the last answer, without a crash."""
    fuse = Fuse(NEVER)
    engine = memory_engine()
    app = ten_steps("memory://", str(folder), fuse, engine=engine)
    fused(engine, fuse)
    async with Worker(app):
        run = await app.tasks["ten"].submit("dry")
        await eventually(lambda: _answered(run))
        assert await run.result() == EXPECTED
    await app.close()
    await engine.close()
    return fuse.passed


async def _answered(run: Run[object]) -> bool:
    """Whether the run has ended; one that waits is signalled."""
    state = await run.state()
    if state == "suspended":
        await run.signal("yes", 42)
    return state == "completed"


class Crashes:
    """One run and one process for each point; several processes at once."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self.app = ten_steps(url, str(folder), Fuse(NEVER))
        self.killed = 0

    async def at(self, point: int, room: asyncio.Semaphore) -> Run[object]:
        async with room:
            run = await self.app.tasks["ten"].submit(str(point), requires={f"point-{point}"})
            with started(
                work_until_dead,
                self._url,
                str(self._folder),
                [str(run.id)],
                [f"point-{point}"],
                point,
            ) as worker:
                await eventually(lambda: self._over(run, worker))
                code = await ended(worker)
            assert code in (0, -signal.SIGKILL)
            self.killed += code != 0
            return run

    async def _over(self, run: Run[object], worker: BaseProcess) -> bool:
        return not worker.is_alive() or await _answered(run)

    async def finish(self, runs: list[Run[object]], points: range) -> None:
        able = [f"point-{point}" for point in points]
        with started(
            work_until_dead,
            self._url,
            str(self._folder),
            [str(run.id) for run in runs],
            able,
            NEVER,
        ):
            await asyncio.gather(*(eventually(partial(_answered, run), 0.2) for run in runs))


def check(folder: Path, point: int) -> None:
    """Nothing is lost, and no recorded step runs again."""
    lines = noted(folder / str(point))
    for n in range(STEPS):
        ran = [at for at, line in enumerate(lines) if line == f"ran {n}"]
        kept = [at for at, line in enumerate(lines) if line == f"kept {n}"]
        assert ran and kept, f"point {point}: step {n} is lost"
        assert max(ran) < min(kept), f"point {point}: step {n} ran after it was finished"


def kill_at_points(store: str, tmp_path: Path, stride: int) -> None:
    async def go() -> None:
        every = await points(tmp_path)
        assert every > 60
        wanted = range(1, every + 1, stride)
        url = await asyncio.to_thread(url_on, store, tmp_path)
        crashes = Crashes(url, tmp_path)
        async with crashes.app:
            room = asyncio.Semaphore(AT_ONCE)
            runs = await asyncio.gather(*(crashes.at(point, room) for point in wanted))
            await crashes.finish(runs, wanted)
            assert [await run.result(timeout=DEADLINE_S) for run in runs] == [EXPECTED] * len(runs)
        assert crashes.killed >= len(runs) - 2
        for point in wanted:
            check(tmp_path, point)

    asyncio.run(go())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.meets("crash", "reclaim", "step", "delay", "suspend")
def test_recorded_steps_run_once_when_killed_at_some_awaits(store: str, tmp_path: Path) -> None:
    kill_at_points(store, tmp_path, STRIDE[store])


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", STORES)
def test_recorded_steps_run_once_whichever_await_is_killed(store: str, tmp_path: Path) -> None:
    kill_at_points(store, tmp_path, 1)
