"""SIGKILL at every call of the store that a bulk job makes: each run is acted upon once."""

from __future__ import annotations

import asyncio
import json
import signal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Engine
from flowfabric.engine.bulk import bulk_actions
from flowfabric.model.attempt import FailureClass
from flowfabric.model.bulk import BulkAction, BulkArgs, BulkState
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.search import ExecutionFilter
from flowfabric.store.schema import TABLES
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.engine.helpers import LANE, TTL_MS, create
from tests.sdk.crashing import NEVER, Fuse
from tests.sdk.processes import STORES, ended, eventually, started, url_on

from .bulk_processes import PAGE, fused, opened, run_job

RUNS = 17
STRIDE = 6
AT_ONCE = 4
ACTIONS = ("cancel", "retry", "priority", "delete")
SHARE = [
    pytest.param(
        *each, marks=[pytest.mark.nightly] if each[0] == "valkey" and each[1] != "cancel" else []
    )
    for each in product(STORES, ACTIONS)
]
"""What differs between actions does not differ between stores."""
KINDS = {"cancel": "cancelled", "retry": "replayed", "priority": "priority_changed"}


def _args(action: str, namespace: str) -> BulkArgs:
    return BulkArgs(
        action=BulkAction(action),
        where=ExecutionFilter(namespace=namespace),
        requested_by="ada",
        reason="crash",
        priority=5 if action == "priority" else None,
    )


async def _fail_all(engine: Engine, namespace: str) -> None:
    policy = ClaimPolicy("w", f"w-{namespace}", TTL_MS, None, namespace)
    while work := await engine.claim_many(LANE, (), policy, 50):
        for each in work:
            await engine.fail(each.handle, "boom", FailureClass.PERMANENT)


async def _prepare(engine: Engine, action: str, namespace: str) -> None:
    for _ in range(RUNS):
        await create(engine, namespace=namespace)
    if action in ("retry", "delete"):
        await _fail_all(engine, namespace)


async def _events(engine: Engine, job: str) -> list[tuple[str, str]]:
    """The kind and the subject of each operator event of a job."""
    names = TABLES["ff_operator_event"].names
    found = []
    for values in (await engine.store.dump(["ff_operator_event"]))["ff_operator_event"]:
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        details = json.loads(row["details"])
        if details.get("job") == job:
            subject = details.get("execution", str(row["execution_id"]))
            found.append((row["event_type"], subject))
    return found


async def _points(url: str, action: str) -> int:
    """The number of points of a job that is not killed."""
    engine = await opened(url)
    fuse = Fuse(NEVER)
    try:
        await _prepare(engine, action, "dry")
        job = await engine.start_bulk(_args(action, "dry"))
        fused(engine, fuse)
        await engine.run_bulk(job.job_id, 100)
    finally:
        await engine.close()
    return fuse.passed


async def _killed_at(
    point: int, url: str, action: str, engine: Engine, room: asyncio.Semaphore
) -> bool:
    """Whether the process was killed there. Another process finishes the job in any case."""
    namespace = f"{action}-{point}"
    async with room:
        await _prepare(engine, action, namespace)
        job = await engine.start_bulk(_args(action, namespace))
        with started(run_job, url, str(job.job_id), point) as process:
            await eventually(lambda: not process.is_alive())
            code = await ended(process)
        assert code in (0, -signal.SIGKILL)
        if action == "retry":
            await _fail_all(engine, namespace)
        with started(run_job, url, str(job.job_id), NEVER) as process:
            await eventually(lambda: not process.is_alive())
            assert await ended(process) == 0
    found = await engine.read_bulk(job.job_id)
    assert found is not None and found.state is BulkState.COMPLETED
    assert (found.matched, found.changed) == (RUNS, RUNS), f"point {point}"
    events = await _events(engine, str(job.job_id))
    kinds = {kind for kind, _ in events}
    assert kinds == {KINDS.get(action, "deleted")}
    assert len(events) == len(set(events)) == RUNS, f"point {point}: an execution twice"
    return code != 0


@pytest.mark.parametrize(("store", "action"), SHARE)
@pytest.mark.meets("crash", "cancel")
@pytest.mark.meets("crash", "replay")
def test_each_run_is_acted_upon_once_when_the_process_is_killed(
    store: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(bulk_actions, "PAGE_SIZES", {})

    async def go(url: str) -> None:
        every = await _points(url, action)
        assert every >= 20
        engine = await opened(url)
        room = asyncio.Semaphore(AT_ONCE)
        try:
            wanted = range(1, every + 1, STRIDE)
            killed = await asyncio.gather(
                *(_killed_at(point, url, action, engine, room) for point in wanted)
            )
            assert sum(killed) >= len(killed) - 1
            assert check(snapshot_of(await engine.store.dump(TABLES_READ))) == []
        finally:
            await engine.close()

    asyncio.run(go(url_on(store, tmp_path)))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.meets("crash", "second_tenant")
def test_an_erasure_that_is_killed_is_finished_by_another_process(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(bulk_actions, "PAGE_SIZES", {})

    async def killed_at(point: int, engine: Engine, url: str) -> bool:
        namespace = f"erase-{point}"
        await _prepare(engine, "erase", namespace)
        job = await engine.erase_namespace(namespace)
        codes = []
        for last in (point, NEVER):
            with started(run_job, url, str(job.job_id), last) as process:
                codes.append(await ended(process))
        found = await engine.read_bulk(job.job_id)
        assert found is not None and found.state is BulkState.COMPLETED
        assert (found.matched, found.changed) == (RUNS, RUNS), f"point {point}"
        return codes == [-signal.SIGKILL, 0]

    async def go(url: str) -> None:
        engine = await opened(url)
        try:
            killed = [await killed_at(point, engine, url) for point in range(3, 48, 9)]
            assert all(killed)
            assert (await engine.store.dump(["ff_exec_core"]))["ff_exec_core"] == []
            assert check(snapshot_of(await engine.store.dump(TABLES_READ))) == []
        finally:
            await engine.close()

    asyncio.run(go(url_on(store, tmp_path)))
