"""A large table is migrated beside traffic, and a migration that was killed continues."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend, migrate_postgres, migration_script, postgres_engine
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, Contention, TransportError, Unavailable
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.store.migration_steps import Progress
from flowfabric.store.postgres import migrate as migrate_module
from flowfabric.store.postgres import online_migration
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.schema import TABLES
from tests.cli.here import flowfabric_here
from tests.engine.helpers import claim, create
from tests.patience import patience
from tests.postgres import database
from tests.store.long_migration import BATCH_SIZE, INDEX, MARK, SQL
from tests.store.postgres.migrating_child import LONG, SHIPPED

from .helpers import one, plain, until, world

ROWS = 6_000
MANY = 1_000_000
SEEN = f"SELECT {MARK}, count(*) FROM ff_exec_core WHERE created_at_ms <= %s GROUP BY 1"
VALID = f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{INDEX}')"
BUILDING = """SELECT pid FROM pg_stat_activity WHERE datname = current_database()
    AND query LIKE 'CREATE INDEX%' AND state = 'active' AND wait_event_type = 'Lock'"""
NOW = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
SLOWEST_S = 3.0
CHILD = [sys.executable, "-m", "tests.store.postgres.migrating_child"]


def migrated(url: str) -> str:
    asyncio.run(migrate_postgres(url))
    return url


@pytest.fixture
def url() -> str:
    """A migrated database of an old release."""
    return migrated(database("online"))


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release that has the long migration."""
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, LONG])


async def old_engine(url: str) -> Engine:
    """Of the old release, which does not know that the schema is behind."""
    return postgres_engine(await PostgresStore(Options(url)).open(check=False))


async def fill(engine: Engine, rows: int = ROWS) -> int:
    """The server's time behind the last row."""
    many = [CreateExecutionArgs(execution_id=ExecutionId.solo(f"l{n}")) for n in range(rows)]
    await engine.create_executions(many)
    with plain(engine.store.options) as db:
        return int(one(db, NOW))


@asynccontextmanager
async def traffic(url: str) -> AsyncIterator[Engine]:
    """An engine of the old release that works; no call of it takes long."""
    engine = await old_engine(url)
    slowest, stopping = 0.0, asyncio.Event()

    async def work() -> None:
        nonlocal slowest
        while not stopping.is_set():
            began = time.monotonic()
            await create(engine)
            await engine.complete(await claim(engine), b"done")
            slowest = max(slowest, time.monotonic() - began)

    working = asyncio.create_task(work())
    try:
        yield engine
    finally:
        stopping.set()
        await working
        await engine.close()
    assert slowest < patience(SLOWEST_S)


def check_every_row_was_seen_once(url: str, until_ms: int) -> None:
    with plain(url) as db:
        assert one(db, "SELECT count(*) FROM ff_migration_progress") == 0
        assert one(db, VALID) is True
        assert [seen for seen, _ in db.execute(SEEN, (until_ms,)).fetchall()] == [1]


async def test_a_killed_migration_continues_where_it_stopped(url: str) -> None:
    async with traffic(url) as engine, asyncio.timeout(100):
        filled = await fill(engine)
        child = await asyncio.create_subprocess_exec(
            *CHILD, url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, error = await child.communicate()
        await world(engine)
    told = out.decode().splitlines()
    assert (error.decode(), child.returncode) == ("", 0)
    assert told[-1] == "done" and {line.split()[0] for line in told[:-1]} == {"killed"}
    check_every_row_was_seen_once(url, filled)


async def start(url: str, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*CHILD, url, *more, stdout=subprocess.PIPE)


async def test_an_index_that_a_crash_left_invalid_is_built_again(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrated_up_to("build_index", url, monkeypatch)
    with plain(url, autocommit=False) as reader, plain(url) as db:
        reader.execute("UPDATE ff_exec_core SET priority = 0 WHERE false")
        child = await start(url, str(BATCH_SIZE))
        await until(lambda: one(db, BUILDING))
        child.send_signal(signal.SIGKILL)
        await child.wait()
        db.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM ({BUILDING}) AS building")
        assert one(db, VALID) is False
        reader.rollback()
        assert await migrate_postgres(url) == [LONG.title]
        assert one(db, VALID) is True


async def test_of_two_processes_one_waits_and_rows_are_seen_once(url: str, ahead: None) -> None:
    async with traffic(url) as engine:
        filled = await fill(engine)
        told: list[Progress] = []
        applied = await asyncio.gather(
            *(migrate_postgres(url, report=told.append) for _ in range(3))
        )
    assert sorted(applied) == [[], [], [LONG.title]]
    check_every_row_was_seen_once(url, filled)
    batches = [each for each in told if each.step == 2 and each.rows]
    assert len(batches) >= ROWS // BATCH_SIZE
    assert all(a.rows <= b.rows for a, b in pairwise(batches))
    assert str(told[-1]) == f"{LONG.title}: step 4 of 4, 0 rows"


async def test_a_table_that_is_in_use_is_waited_for_without_blocking_it(
    url: str, ahead: None
) -> None:
    async with traffic(url) as engine:
        await fill(engine, 10)
        with plain(url, autocommit=False) as reader:
            reader.execute("SELECT count(*) FROM ff_exec_core")
            migrating = asyncio.ensure_future(migrate_postgres(url))
            await asyncio.sleep(3 * online_migration.LOCK_TIMEOUT_MS / 1_000)
            assert not migrating.done()
            reader.rollback()
        assert await migrating == [LONG.title]


async def test_a_locked_row_delays_its_batch_only(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_migration, "LOCK_TIMEOUT_MS", 50)
    engine = await old_engine(url)
    filled = await fill(engine, 3 * BATCH_SIZE)
    await engine.close()
    told: list[Progress] = []
    await migrated_up_to("run_batches", url, monkeypatch)
    with plain(url, autocommit=False) as holder:
        holder.execute(
            "SELECT 1 FROM ff_exec_core ORDER BY partition_key DESC, execution_id DESC "
            "LIMIT 1 FOR NO KEY UPDATE"
        )
        migrating = asyncio.ensure_future(migrate_postgres(url, report=told.append))
        await until(lambda: told and told[-1].rows >= 2 * BATCH_SIZE)
        await asyncio.sleep(0.2)
        assert not migrating.done() and told[-1].rows < 3 * BATCH_SIZE
        holder.rollback()
    assert await migrating == [LONG.title]
    check_every_row_was_seen_once(url, filled)


async def migrated_up_to(part: str, url: str, patch: pytest.MonkeyPatch) -> None:
    """The process stops at this part of the migration."""
    with patch.context() as stopping:
        stopping.setattr(online_migration.OnlineMigration, part, _stop)
        with pytest.raises(KeyError):
            await migrate_postgres(url)


async def _stop(*_: object) -> None:
    raise KeyError


async def test_it_gives_up_on_a_lock_that_is_never_free(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_migration, "LOCK_TIMEOUT_MS", 10)
    monkeypatch.setattr(online_migration, "MAX_TRIES", 3)
    with plain(url, autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM ff_exec_core")
        with pytest.raises(Contention):
            await migrate_postgres(url)
        reader.rollback()
    assert await migrate_postgres(url) == [LONG.title]


async def test_until_it_is_done_old_code_works_and_new_code_is_refused(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrated_up_to("run_batches", url, monkeypatch)
    with pytest.raises(Unavailable, match=f"needs {LONG.title}"):
        await PostgresBackend.connect(url)
    with monkeypatch.context() as older:
        older.setattr(migrate_module, "shipped", lambda: SHIPPED)
        assert await migrate_postgres(url) == []
        async with traffic(url) as engine:
            await create(engine)
    assert await migrate_postgres(url) == [LONG.title]
    await (await PostgresBackend.connect(url)).close()


async def test_a_migration_that_changed_since_it_was_begun_is_refused(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain(url) as db:
        db.execute(online_migration.PROGRESS)
        db.execute(
            "INSERT INTO ff_migration_progress VALUES (%s, 1, '', 0, 'another')", (LONG.version,)
        )
    with pytest.raises(TransportError, match="differs from the one that was begun"):
        await migrate_postgres(url)


async def test_a_mistake_in_a_step_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = structs.replace(LONG, sql=SQL.replace("coalesce", "coalesced"))
    engine = await PostgresBackend.connect(url)
    await fill(engine, 1)
    await engine.close()
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, bad])
    with pytest.raises(TransportError, match="coalesced"):
        await migrate_postgres(url)


async def test_limits_of_the_role_do_not_end_the_building_of_an_index(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrated_up_to("build_index", url, monkeypatch)
    with plain(url, autocommit=False) as writer, plain(url) as db:
        writer.execute("UPDATE ff_exec_core SET priority = 0 WHERE false")
        migrating = asyncio.ensure_future(
            migrate_postgres(f"{url}?statement_timeout=700ms&lock_timeout=700ms")
        )
        await until(lambda: one(db, BUILDING))
        await asyncio.sleep(1)
        writer.rollback()
        assert await migrating == [LONG.title]
        assert one(db, VALID) is True


async def test_a_pooler_cannot_hold_the_lock_of_a_migration(url: str, ahead: None) -> None:
    with pytest.raises(ConfigError, match="not of a pooler"):
        await migrate_postgres(url, pooler=True)
    assert await migrate_postgres(url, pooler=True, listen_url=url) == [LONG.title]
    assert await migrate_postgres(url, pooler=True) == []


def test_a_script_applies_the_steps_at_once(ahead: None) -> None:
    url = database("online")
    with plain(url) as db:
        db.execute(migration_script())
        assert one(db, VALID) is True
    assert asyncio.run(migrate_postgres(url)) == []


def test_the_command_prints_its_progress(url: str, ahead: None) -> None:
    done = flowfabric_here("migrate", "--db", url)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, f"applied {LONG.title}\n")
    assert lines[0] == f"{LONG.title}: step 1 of 4, 0 rows"
    assert lines[-1] == f"{LONG.title}: step 4 of 4, 0 rows"


# ---- a million rows


COPY = """INSERT INTO ff_exec_core (partition_key, execution_id, {columns})
    SELECT n %% 256, gen_random_uuid(), {columns} FROM ff_exec_core, generate_series(1, %s) AS n"""


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_a_million_rows_are_migrated_by_processes_that_are_killed(url: str) -> None:
    engine = await PostgresBackend.connect(url)
    ident = await create(engine)
    await engine.complete(await claim(engine), b"done")
    assert await engine.get_execution_result(ident) == b"done"
    await engine.close()
    keys = ("partition_key", "execution_id")
    with plain(url) as db:
        columns = ", ".join(name for name in TABLES["ff_exec_core"].names if name not in keys)
        db.execute(COPY.format(columns=columns), (MANY,))
        db.execute("ANALYZE ff_exec_core")
        filled = one(db, NOW)
    chance, kills = random.Random(7), 0
    async with traffic(url):
        while True:
            child = await start(url, "5000")
            try:
                async with asyncio.timeout(chance.uniform(1, 5)):
                    assert await child.wait() == 0
                break
            except TimeoutError:
                child.send_signal(signal.SIGKILL)
                await child.wait()
                kills += 1
    assert kills >= 3
    check_every_row_was_seen_once(url, filled)
