"""Workers as processes: taking over, stopping in order, keeping leases, sharing a lane."""

from __future__ import annotations

import asyncio
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from flowfabric import CreateExecutionArgs, ExecutionId
from flowfabric.connect import read_tables
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.store.schema import TABLES

from .labours import labour, labours
from .processes import (
    DEADLINE_S,
    STORES,
    ask_to_end,
    ended,
    eventually,
    note,
    noted,
    started,
    url_on,
)


class Place:
    """A database, its app, and what the processes on it have recorded."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.app = labours(url, str(folder))

    def worker(self, **options: Any) -> Any:
        return started(labour, self.url, str(self.folder), options)

    @property
    def evidence(self) -> list[str]:
        return noted(self.folder / "evidence")

    async def drained(self, process: BaseProcess) -> None:
        ask_to_end(process)
        assert await ended(process) == 0


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(url_on(request.param, tmp_path), tmp_path)


async def test_a_wait_in_one_process_resumes_in_another(place: Place) -> None:
    async with place.app as app:
        run = await app.tasks["asks"].submit()
        with place.worker() as first:
            await eventually(lambda: _is(run, "suspended"))
            await place.drained(first)
            pid = first.pid
        await run.signal("yes", "indeed")
        with place.worker() as second:
            assert await run.result(timeout=DEADLINE_S) == [pid, "indeed", second.pid]


async def _is(run: Any, state: str) -> bool:
    return bool(await run.state() == state)


async def test_stopped_worker_loses_nothing(place: Place) -> None:
    """All slots are taken. What ends within the grace is finished, the rest continues elsewhere."""
    async with place.app as app:
        lasts = app.tasks["lasts"]
        quick, slow = await lasts.submit("quick", 0.4), await lasts.submit("slow", 600.0)
        with place.worker(concurrency=2, grace="800ms") as first:
            await eventually(lambda: len(place.evidence) == 2)
            late = await lasts.submit("late", 0.0)
            await place.drained(first)
            assert await quick.result(timeout=DEADLINE_S) == first.pid
            assert (await slow.state(), await late.state()) in (
                ("delayed", "waiting"),
                ("waiting", "waiting"),
            )
        assert not any(line.startswith("begins late") for line in place.evidence)
        with place.worker() as second:
            assert await late.result(timeout=DEADLINE_S) == second.pid
            await eventually(lambda: f"begins slow {second.pid}" in place.evidence)
            assert (await slow.outcome()).total_attempt_count == 1
            await slow.cancel()


async def test_a_blocked_event_loop_keeps_its_lease(place: Place) -> None:
    """For three times the lease, while another worker would take what is lost."""
    async with place.app as app:
        run = await app.tasks["blocks"].submit(3.0)
        with place.worker(concurrency=1):
            await eventually(lambda: place.evidence)
            with place.worker(concurrency=1):
                assert await run.result(timeout=DEADLINE_S) == [0, 42]
    assert len(place.evidence) == 1


async def test_a_lease_that_is_taken_away_stops_the_task(place: Place) -> None:
    async with place.app as app:
        run = await app.tasks["held"].submit()
        with place.worker(concurrency=1):
            await eventually(lambda: place.evidence)
            engine = await app.engine()
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=run.id))
            assert await run.result(timeout=DEADLINE_S) == "done"
    assert noted(place.folder / "lost") == ["lost True"]


@pytest.mark.meets("timeout", "crash", "retry")
@pytest.mark.parametrize("lease", ["1s", "30s"])
async def test_a_task_with_a_timeout_outlives_its_worker(place: Place, lease: str) -> None:
    """After a kill the run has the whole timeout again, whether lease or timeout ends first."""
    async with place.app as app:
        run = await app.tasks["limited"].submit()
        with place.worker(lease=lease) as first:
            await eventually(lambda: place.evidence)
            first.kill()
            await ended(first)
        note(place.folder / "lost", "the first worker")
        with place.worker() as second:
            assert await run.result(timeout=DEADLINE_S) == second.pid


async def test_two_workers_share_a_lane_and_keep_to_their_slots(place: Place) -> None:
    """Two slots each: never more at once, none claimed beyond them, both have a share."""
    async with place.app as app:
        runs = await app.tasks["counts"].submit_many(range(60))
        most: Counter[str] = Counter()
        with place.worker(concurrency=2) as one, place.worker(concurrency=2) as two:
            while sum(line.startswith("ends") for line in place.evidence) < len(runs):
                most |= await asyncio.to_thread(_held, place)
            for worker in (one, two):
                await place.drained(worker)
            pids = {one.pid, two.pid}
    lines = [line.split() for line in place.evidence]
    assert Counter(n for word, n, _ in lines if word == "begins") == Counter(
        str(n) for n in range(60)
    )
    assert {int(pid) for _, _, pid in lines} == pids
    for pid in pids:
        assert _most_at_once([word for word, _, by in lines if int(by) == pid]) <= 2
    assert all(held <= 2 for held in most.values())


def _held(place: Place) -> Counter[str]:
    """How many executions each worker holds, in one read."""
    columns = [column.name for column in TABLES["ff_exec_core"].columns]
    phase, holder = columns.index("lifecycle_phase"), columns.index("current_worker_instance_id")
    rows = read_tables(place.url, ["ff_exec_core"])["ff_exec_core"]
    return Counter(row[holder] for row in rows if row[phase] == "active")


def _most_at_once(words: list[str]) -> int:
    now = most = 0
    for word in words:
        now += 1 if word == "begins" else -1
        most = max(most, now)
    return most


async def test_run_of_an_undeclared_task_is_given_back(place: Place) -> None:
    """Submitted without the SDK, so that nothing keeps the run from this worker."""
    async with place.app as app:
        ident = ExecutionId.solo("default")
        engine = await app.engine()
        await engine.create_execution(
            CreateExecutionArgs(execution_id=ident, lane_id="default", execution_kind="strange")
        )
        known = await app.tasks["lasts"].submit("known", 0.0)
        with place.worker():
            await known.result(timeout=DEADLINE_S)
            run = app.run(ident)
            await eventually(lambda: _is(run, "delayed"))
            assert (await run.outcome()).total_attempt_count == 1
