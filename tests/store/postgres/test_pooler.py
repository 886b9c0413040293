"""Behind a transaction-mode pooler no state is kept on a session, and all calls work."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend
from flowfabric.engine.background import LoopSettings
from flowfabric.errors import TransportError
from flowfabric.model.attempt import FailureClass
from flowfabric.store.postgres.connections import WRITER_SETTINGS, Options
from flowfabric.testing.postgres import free_port
from tests.engine.helpers import claim, create, running, state, worker

from .helpers import engine_on, one, plain, until, world

POOLED = 2


@pytest.fixture
def pooled(options: Options) -> Options:
    return structs.replace(options, pooler=True)


async def a_whole_life(engine: PostgresBackend) -> None:
    """Create with a key, fail, retry by the loops, renew, complete, read, subscribe."""
    stream = await engine.subscribe_completion()
    ident, handle = await running(
        engine, idempotency_key="k", input_payload=b"in", tags={"app.a": "1"}
    )
    await engine.renew(handle)
    await engine.progress(handle, 50, "half")
    await engine.fail(handle, "boom", FailureClass.TRANSIENT)
    again = await engine.claim("default", (), worker(max_wait_ms=20_000))
    assert again is not None
    await engine.complete(again, b"out")
    assert await engine.get_execution_result(ident) == b"out"
    assert (await anext(stream)).execution_id == ident
    many = [await create(engine) for _ in range(20)]
    await asyncio.gather(*[engine.complete(await claim(engine)) for _ in many])
    assert [await state(engine, each) for each in many] == ["ENDED(success)"] * len(many)
    await world(engine)


async def on_every_session(engine: PostgresBackend, sql: str) -> list[Any]:
    """Runs on the engine's own connections, which must be idle."""
    links = engine.store.connections
    return [await link.current.fetchval(sql) for link in links if link.current is not None]


async def test_no_state_is_kept_on_a_session(pooled: Options, options: Options) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''"
    chosen = "SELECT setting FROM pg_settings WHERE name = 'plan_cache_mode'"
    async with engine_on(pooled) as engine:
        engine.with_scanners(LoopSettings(delayed_promoter_ms=50))
        await a_whole_life(engine)
        with plain(options) as db:
            names = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                "application_name = 'flowfabric'"
            )
            assert one(db, names) == 0
            assert one(db, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == 0
            assert one(db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        await engine.shutdown_prepare()
        assert set(await on_every_session(engine, prepared)) == {0}
        assert set(await on_every_session(engine, chosen)) == {"auto"}
    async with engine_on(options) as engine:
        await create(engine)
        assert max(await on_every_session(engine, prepared)) > 0
        assert WRITER_SETTINGS["plan_cache_mode"] in await on_every_session(engine, chosen)


async def test_leadership_needs_no_session(pooled: Options) -> None:
    async with engine_on(pooled) as engine, engine_on(pooled) as other:
        assert engine.with_scanners() and other.with_scanners()
        await until(lambda: leads(engine) or leads(other))
        assert leads(engine) is not leads(other)
        assert await engine.store.execute_for_test("SELECT backend FROM ff_leader") == [(0,)]


def leads(engine: PostgresBackend) -> bool:
    return engine.loops.leads


async def test_no_notifications_accumulate_without_listeners(pooled: Options) -> None:
    async with engine_on(pooled) as engine:
        for n in range(20):
            await create(engine, lane_id=f"lane{n}")
        assert (
            engine.store.notifier.pending.topics == {} and engine.store.notifier.pending.dues == {}
        )


async def test_a_waiting_claim_is_woken_by_its_own_process(pooled: Options) -> None:
    async with engine_on(pooled) as engine:
        waiting = asyncio.ensure_future(engine.claim("default", (), worker(max_wait_ms=60_000)))
        await until(lambda: ("ready", "default") in engine.store.hub.waiters)
        async with asyncio.timeout(2):
            await create(engine)
            assert await waiting is not None


# ---- a real one, where there is one


@pytest.fixture
def pgbouncer(options: Options, tmp_path: Path) -> Iterator[str]:
    """The url of a PgBouncer that has fewer sessions than an engine has connections."""
    binary = shutil.which("pgbouncer")
    if binary is None:
        pytest.skip("needs pgbouncer on the path")
    parts = psycopg.conninfo.conninfo_to_dict(options.url)
    port = free_port()
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        f"""[databases]
* = host={parts["host"]} port={parts["port"]} user={parts["user"]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {POOLED}
ignore_startup_parameters = extra_float_digits
"""
    )
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    user = "nobody" if os.geteuid() == 0 else None
    command = [binary, "-q", str(config)]
    process = subprocess.Popen(
        command, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}?sslmode=disable"
    finally:
        process.terminate()
        process.wait(10)


async def test_a_whole_execution_behind_pgbouncer(pgbouncer: str, options: Options) -> None:
    await until_it_answers(pgbouncer)
    async with (
        engine_on(Options(pgbouncer, pooler=True)) as engine,
        engine_on(Options(pgbouncer, pooler=True)) as other,
    ):
        engine.with_scanners(LoopSettings(delayed_promoter_ms=50))
        await a_whole_life(engine)
        await asyncio.gather(
            *(create(each, idempotency_key=f"{n}") for n, each in enumerate((engine, other) * 20))
        )
        await world(other)
        with plain(options) as db:
            assert (
                one(
                    db,
                    "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()",
                )
                <= POOLED + 1
            )


async def until_it_answers(url: str) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                engine = await PostgresBackend.connect(url, pooler=True)
            except TransportError:
                await asyncio.sleep(0.02)
                continue
            await engine.close()
            return
