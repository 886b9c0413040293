"""A large table is migrated beside traffic, and a migration that was killed continues."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from msgspec import structs

from flowfabric.cli.exits import Exit
from flowfabric.connect import sqlite_engine
from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.store.migration_steps import Progress
from flowfabric.store.schema import TABLES
from flowfabric.store.sqlite import migrate as migrate_module
from flowfabric.store.sqlite.migrate import migrate
from flowfabric.store.sqlite.online_migration import PROGRESS
from flowfabric.store.sqlite.registry import open_store
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.cli.commands import refused
from tests.cli.here import flowfabric_here
from tests.engine.helpers import claim, create
from tests.patience import patience
from tests.store.long_migration import BATCH_SIZE, INDEX, MARK
from tests.store.sqlite.migrating_child import LONG, SHIPPED, in_batches_of

from .helpers import plain

LANE = "filled"
ROWS = 6_000
MANY = 1_000_000
SLOWEST_S = 3.0
CHILD = [sys.executable, "-m", "tests.store.sqlite.migrating_child"]


def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the release that has the long migration."""
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, LONG])


@asynccontextmanager
async def filled(path: Path, rows: int = ROWS) -> AsyncIterator[Engine]:
    """An engine of the old release, with rows."""
    engine = sqlite_engine(open_store(str(path), synchronous="NORMAL"))
    try:
        many = [
            CreateExecutionArgs(execution_id=ExecutionId.solo(f"l{n}"), lane_id=LANE)
            for n in range(rows)
        ]
        await engine.create_executions(many)
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def traffic(engine: Engine) -> AsyncIterator[None]:
    """No call takes long."""
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
        yield
    finally:
        stopping.set()
        await working
    assert slowest < patience(SLOWEST_S)


def check_every_row_was_seen_once(path: Path, size: int = BATCH_SIZE) -> None:
    """Rows of the traffic are in another lane; some came behind the batch of their key."""
    with closing(plain(path)) as db:
        seen = f"SELECT DISTINCT {MARK} FROM ff_exec_core WHERE lane_id = ?"
        assert db.execute(seen, (LANE,)).fetchall() == [(1,)]
        assert db.execute("SELECT * FROM ff_migration_progress").fetchall() == []
        assert db.execute(
            f"SELECT count(*) FROM pragma_index_list('ff_exec_core') WHERE name = '{INDEX}'"
        ).fetchone() == (1,)
        known = db.execute("SELECT version, checksum FROM ff_migration_annotation ORDER BY 1")
        assert known.fetchall()[-1] == (LONG.version, in_batches_of(size).checksum)


async def start(path: Path, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *CHILD, str(path), *more, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


async def test_a_killed_migration_continues_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    async with filled(path) as engine, asyncio.timeout(100):
        async with traffic(engine):
            child = await start(path)
            out, error = await child.communicate()
        assert check(snapshot_of(await engine.store.dump(TABLES_READ))) == []
    told = out.decode().splitlines()
    assert (error.decode(), child.returncode) == ("", 0)
    assert told[-1] == "done" and {line.split()[0] for line in told[:-1]} == {"killed"}
    check_every_row_was_seen_once(path)


async def test_two_processes_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    async with filled(path) as engine, traffic(engine), asyncio.timeout(60):
        for child in [await start(path, str(BATCH_SIZE)) for _ in range(2)]:
            assert await child.communicate() == (b"", b"") and child.returncode == 0
    check_every_row_was_seen_once(path)


async def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, told = tmp_path / "ff.db", list[Progress]()
    async with filled(path, BATCH_SIZE + 1):
        pass
    upgrade(monkeypatch)
    with closing(plain(path)) as db:
        assert migrate(db, "x", 1, told.append) == LONG.title
        assert migrate(db, "x", 1, told.append) is None
    assert [(each.step, each.rows) for each in told] == [
        (1, 0),
        (2, BATCH_SIZE),
        (2, BATCH_SIZE + 1),
        (2, 0),
        (3, 0),
        (4, 0),
    ]
    check_every_row_was_seen_once(path)


async def test_opening_a_file_migrates_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade(monkeypatch)
    path = tmp_path / "ff.db"
    store = open_store(str(path))
    assert store.migrated == f"{SHIPPED[0].title}, {LONG.title}"
    await store.close()


def test_a_migration_that_changed_since_it_was_begun_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(monkeypatch)
    with closing(sqlite3.connect(tmp_path / "ff.db", isolation_level=None)) as db:
        db.execute(PROGRESS)
        db.execute(
            "INSERT INTO ff_migration_progress VALUES (?, 1, '', 0, 'another')", (LONG.version,)
        )
        with pytest.raises(TransportError, match="differs from the one that was begun"):
            migrate(db, "x", 1)


async def test_a_mistake_in_a_step_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ff.db"
    async with filled(path, 1):
        pass
    bad = structs.replace(LONG, sql=LONG.sql.replace("coalesce", "coalesced"))
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, bad])
    with pytest.raises(TransportError, match=f"migration {bad.version:04} failed.*coalesced"):
        open_store(str(path))
    monkeypatch.setattr(migrate_module, "shipped", lambda: SHIPPED)
    async with filled(path, 1) as engine:
        await create(engine)


async def test_the_command_prints_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ff.db"
    async with filled(path, 1):
        pass
    upgrade(monkeypatch)
    done = flowfabric_here("migrate", "--db", f"sqlite:///{path}")
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, f"applied {LONG.title}\n")
    assert lines[0] == f"{LONG.title}: step 1 of 4, 0 rows"
    assert lines[-1] == f"{LONG.title}: step 4 of 4, 0 rows"
    again = flowfabric_here("migrate", "--db", f"sqlite:///{path}")
    assert (again.stdout, again.stderr) == ("the database is up to date\n", "")


@pytest.mark.parametrize("args", [("--kind", "pre"), ("--schema", "mine")])
def test_what_is_for_postgres_is_refused(tmp_path: Path, args: tuple[str, str]) -> None:
    done = flowfabric_here("migrate", "--db", f"sqlite:///{tmp_path}/ff.db", *args)
    refused(done, "--kind and --schema: only for Postgres", Exit.USAGE)


def test_a_file_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    done = flowfabric_here("migrate", "--db", f"sqlite:///{tmp_path}/ff.db")
    refused(done, f"{tmp_path}/ff.db: no such database file", Exit.UNREACHABLE)
    assert not (tmp_path / "ff.db").exists()


# ---- a million rows


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_a_million_rows_are_migrated_by_processes_that_are_killed(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    async with filled(path, 1):
        pass
    keys = ("partition_key", "execution_id")
    columns = ", ".join(name for name in TABLES["ff_exec_core"].names if name not in keys)
    with closing(plain(path)) as db:
        db.execute(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?) "
            f"INSERT INTO ff_exec_core (partition_key, execution_id, {columns}) "
            f"SELECT n % 256, randomblob(16), {columns} FROM ff_exec_core, c",
            (MANY,),
        )
    chance, kills = random.Random(7), 0
    async with filled(path, 1) as engine, traffic(engine):
        while True:
            child = await start(path, "5000")
            try:
                async with asyncio.timeout(chance.uniform(1, 5)):
                    assert await child.wait() == 0
                break
            except TimeoutError:
                child.send_signal(signal.SIGKILL)
                await child.wait()
                kills += 1
    assert kills >= 3
    check_every_row_was_seen_once(path, 5_000)
