"""A connection opened on an empty database gets new plans soon after rows were inserted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.port import Get
from flowfabric.store.postgres.connections import LazyConnection, Options
from flowfabric.store.postgres.store import PostgresStore
from tests.races.helpers import create_all, ident

from .explained import nodes, offences
from .filling import drop, empty, fill

RUNS = 50


@pytest.fixture
def url() -> Iterator[str]:
    made = empty("kept", analyzed=True)
    yield made
    drop(made)


async def a_day_of_work(engine: Engine, first: int) -> None:
    """All calls of a worker, fifty times, on a separate lane."""
    wanted = range(first, first + RUNS)
    await create_all(
        engine, (CreateExecutionArgs(execution_id=ident(n), lane_id="own") for n in wanted)
    )
    for at in wanted:
        handle = await engine.claim("own", (), ClaimPolicy("w", "w-1", 60_000, None))
        assert handle is not None
        await engine.renew(handle)
        await (engine.complete(handle) if at % 2 else engine.fail(handle, "no"))


async def kept_plans(link: LazyConnection) -> dict[str, list[str]]:
    """Offences of the plans that this connection has prepared, by statement."""
    connection: Any = await link.get()
    found = {}
    listed = await connection.fetch(
        "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements"
    )
    for name, sql, count in listed:
        if "ff_" in sql:
            given = f"({', '.join(['NULL'] * count)})" if count else ""
            plan = await connection.fetchval(f'EXPLAIN (FORMAT JSON) EXECUTE "{name}"{given}')
            found[sql] = offences(
                list(nodes(json.loads(plan)[0]["Plan"])), bounded=" WHERE " in sql
            )
    return found


async def test_plans_made_on_empty_tables_are_replaced(url: str) -> None:
    store = await PostgresStore(Options(url, writers=1, readers=1)).open()
    try:
        engine = Engine(store, seed=1)
        writer, reader = store.connections
        for link in (writer, reader):
            await (await link.get()).execute("SET plan_cache_mode = force_generic_plan")
        await look_at_nothing(engine)
        await a_day_of_work(engine, 1_000_000)
        fill(url, 10_000)
        for link in (writer, reader):
            link.keep_plans_until = time.monotonic()  # the event loop uses the clock itself
        await look_at_nothing(engine)
        plans = {**await kept_plans(writer), **await kept_plans(reader)}
        assert len(plans) >= 7
        assert [wrong for wrong in plans.values() if wrong] == []
        await a_day_of_work(engine, 2_000_000)
    finally:
        await store.close()


async def look_at_nothing(engine: Engine) -> None:
    for table, key in (
        ("ff_exec_core", (0, ident(0).uuid)),
        ("ff_claim_grant", (0, ident(0).uuid)),
        ("ff_idempotency", ("a", "b")),
    ):
        assert (await engine.store.load((Get(table, key),))).rows == [[]]
    await engine.set_lane_state("own", "active")
