"""The erasure of a namespace: nothing of it is left, and nothing of another one is touched."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.bulk import bulk_actions, namespace_rows
from flowfabric.engine.engine import Engine
from flowfabric.model.bulk import BulkState
from flowfabric.model.flow import CreateFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .bulk_helpers import asked, done, sound
from .flow_helpers import finish, submit
from .helpers import create, dump, invalid, registration, running, state
from .limit_helpers import quota

PAGE = 2


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(bulk_actions, "PAGE_SIZES", {})
    monkeypatch.setattr(namespace_rows, "PAGE", PAGE)


async def _furnished(engine: Engine, name: str) -> None:
    """Executions in several states, flows, children, keys, limits, schedules and workers."""
    own: dict[str, Any] = {"namespace": name}
    for at in range(3):
        await create(engine, lane_id=f"{name}-{at}", idempotency_key=f"k{at}", **own)
    ident, _ = await running(engine, lane_id=f"{name}-run", **own)
    await submit(
        engine, f"{name}-a>{name}-b", parent=Parent(execution_id=ident, waitpoint_key="w"), **own
    )
    _, held = await running(engine, lane_id=f"{name}-end", **own)
    await engine.record_step(held, 0, "build", b"1")
    await engine.complete(held, b"")
    graph = await submit(engine, f"{name}-x {name}-y", **own)
    await finish(engine, graph, f"{name}-x")
    await engine.create_flow(CreateFlowArgs(flow_id=uuid4(), **own))
    limit = await quota(engine, cap=1, namespace=name)
    await engine.attach_limit("quota", limit, "lane", f"{name}-limited")
    await create(engine, lane_id=f"{name}-limited", **own)
    await engine.begin_schedule(name, "nightly")
    await engine.register_worker(registration(f"{name}-i", lanes=("default",), **own))
    await done(engine, asked("priority", priority=1, where={"namespace": name}))


async def _of(engine: Engine, name: str) -> dict[str, int]:
    """How many rows of each table name the namespace."""
    found = {}
    for table, rows in (await dump(engine)).items():
        columns = TABLES[table].names
        at = columns.index("namespace") if "namespace" in columns else None
        count = sum(row[at] == name for row in rows if at is not None)
        if count:
            found[table] = count
    return found


async def test_nothing_of_the_namespace_is_left(engine: Engine, clock: ManualClock) -> None:
    await _furnished(engine, "ann")
    await _furnished(engine, "bob")
    await engine.parts.core.cascade.finish()
    before = await _of(engine, "bob")
    flows = len((await dump(engine))["ff_flow_core"])
    job = await engine.erase_namespace("ann", "ada")
    while job.state is BulkState.RUNNING:
        job = await engine.run_bulk(job.job_id, 1_000)
        await engine.parts.core.cascade.finish()
    assert (job.changed, job.refused) == (10, 0)
    assert await _of(engine, "ann") == {"ff_bulk_job": 1}
    assert await _of(engine, "bob") == before
    left = await dump(engine)
    assert len(left["ff_flow_core"]) == flows // 2
    assert {row[0] for row in left["ff_step"]} <= {row[0] for row in left["ff_exec_core"]}
    await sound(engine)


async def test_what_is_created_after_the_job_stays(engine: Engine, clock: ManualClock) -> None:
    await create(engine, namespace="ann")
    job = await engine.erase_namespace("ann")
    clock.advance(1)
    later = await create(engine, namespace="ann")
    job = await engine.run_bulk(job.job_id, 1_000)
    assert (job.state, job.changed) == (BulkState.COMPLETED, 1)
    assert await state(engine, later) == "READY"


async def test_a_namespace_must_be_named(engine: Engine) -> None:
    await invalid(engine.erase_namespace(""), "namespace")
    await invalid(engine.start_bulk(asked("erase", where={"namespace": "ann"})), "erase_namespace")
