"""A long write transaction of another program holds back events and is reported."""

from __future__ import annotations

import asyncio
import re

import psycopg
import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions import explain
from flowfabric.model.explanation import Why
from flowfabric.model.queue_stats import LongWriter
from flowfabric.store.postgres.connections import Options
from tests.engine.helpers import create
from tests.patience import patient
from tests.server.client import served

from .helpers import engine_on


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write transaction counts as a long one."""
    monkeypatch.setattr(explain, "LONG_WRITING_MS", 0)


def writing(options: Options) -> psycopg.Connection:
    """A foreign connection with a transaction that has written."""
    db = psycopg.connect(options.url, application_name="report")
    db.execute("CREATE TABLE foreign_table (x int)")
    return db


async def named(engine: Engine, pid: int | None) -> LongWriter | None:
    """Waits until it is this one, or none, since other tests write on the same server."""
    async with patient(30):
        while True:
            found = await engine.events_held_back_by()
            if (found.pid if found else None) == pid:
                return found
            await asyncio.sleep(0.01)


async def test_a_long_writer_is_named_with_its_pid_until_it_ends(
    options: Options, at_once: None
) -> None:
    async with engine_on(options) as engine, served(engine) as client:
        ident = await create(engine)
        await named(engine, None)
        with writing(options) as db:
            pid = db.info.backend_pid
            found = await named(engine, pid)
            assert found is not None and found.application == "report"
            reason = (await engine.explain_execution(ident)).reasons[-1]
            assert reason.code is Why.EVENTS_HELD_BACK and f"backend {pid} (report)" in reason.says
            assert isinstance(reason.facts, LongWriter) and reason.facts.pid == pid
            said = (await client.get("/readyz")).json["checks"]["events"]
            assert re.search(rf"backend {pid} has had a transaction open for \d+ s", said)
            assert "report" not in said
            db.rollback()
            await named(engine, None)


async def test_short_writers_and_readers_are_not_reported(
    options: Options,
) -> None:
    async with engine_on(options) as engine:
        with writing(options) as db:
            assert await engine.events_held_back_by() is None
            db.rollback()
            db.execute("SELECT 1")
            found = await engine.store.longest_writer()
            assert found is None or found.pid != db.info.backend_pid
            db.rollback()
