"""The store vacuums a table that has collected dead rows, beside the work of its callers."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from flowfabric.engine.engine import Engine
from flowfabric.store.postgres import vacuum
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.vacuum import MIN_DEAD, TableCount
from tests.engine.helpers import create

from .helpers import engine_on

ROWS, UPDATES = 50, 20


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred dead rows are enough, and there is no pause."""
    monkeypatch.setattr(vacuum, "MIN_DEAD", 500)
    monkeypatch.setattr(vacuum, "REST", 0)


async def leave_dead_rows(engine: Engine, options: Options) -> None:
    for _ in range(ROWS):
        await create(engine)
    with psycopg.connect(options.url, autocommit=True) as db:
        db.execute("VACUUM ff_exec_core")
        for _ in range(UPDATES):
            db.execute("UPDATE ff_exec_core SET priority = priority + 1")
        db.execute("SELECT pg_stat_force_next_flush()")


def dead_rows(options: Options) -> int:
    with psycopg.connect(options.url) as db:
        row = db.execute("SELECT pg_stat_get_dead_tuples('ff_exec_core'::regclass)").fetchone()
    assert row is not None
    return int(row[0])


async def until_it_is_done(options: Options, fewer_than: int) -> None:
    async with asyncio.timeout(30):
        while dead_rows(options) >= fewer_than:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_dead_rows_are_removed(options: Options, few: None) -> None:
    async with engine_on(options) as engine:
        await leave_dead_rows(engine, options)
        assert dead_rows(options) >= 500
        assert await engine.store.maintain() == 1
        await create(engine)
        await until_it_is_done(options, fewer_than=100)


async def test_a_table_with_few_dead_rows_is_left_alone(options: Options) -> None:
    async with engine_on(options) as engine:
        await create(engine)
        assert await engine.store.maintain() == 0


async def test_a_pause_follows_each_vacuum(
    options: Options, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "REST", 1_000_000)
    async with engine_on(options) as engine:
        await leave_dead_rows(engine, options)
        assert await engine.store.maintain() == 1
        await until_it_is_done(options, fewer_than=100)
        await leave_dead_rows(engine, options)
        assert await engine.store.maintain() == 0


async def test_a_store_closes_while_it_vacuums(options: Options, few: None) -> None:
    """A lock that VACUUM waits for would keep it for ever, and SKIP_LOCKED does not wait."""
    async with engine_on(options) as engine:
        await leave_dead_rows(engine, options)
        with psycopg.connect(options.url) as db:
            db.execute("LOCK TABLE ff_exec_core IN SHARE ROW EXCLUSIVE MODE")
            assert await engine.store.maintain() == 1
            began = time.monotonic()
            await engine.close()
            assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("table", "dead", "live", "needed"),
    [
        ("ff_exec_core", MIN_DEAD - 1, 0, False),
        ("ff_exec_core", MIN_DEAD, 10**9, True),
        ("ff_lease_event", MIN_DEAD, 10**9, False),
        ("ff_lease_event", 5 * 10**7, 10**9, True),
        ("ff_lease_event", MIN_DEAD, 1, True),
    ],
)
def test_the_table_that_claims_walk_needs_it_first(
    table: str, dead: int, live: int, needed: bool
) -> None:
    assert TableCount(table, dead, live).needs_vacuum is needed
