"""Damaged files, foreign files and read-only folders each raise a specific error."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest

from flowfabric.connect import look_at, read_tables, sqlite_engine
from flowfabric.errors import ConfigError, Corruption, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.sqlite.registry import open_store
from flowfabric.verify.snapshot import TABLES_READ

ME = ClaimPolicy("w", "w-1", 30_000, None)


async def work(path: Path) -> None:
    """Opens the file, reads, claims, creates and closes."""
    backend = sqlite_engine(open_store(str(path)))
    try:
        await backend.claim_many("default", (), ME, 20)
        await backend.create_execution(CreateExecutionArgs(execution_id=ExecutionId.of(0, uuid4())))
        await backend.census()
        await backend.trim_retention("default")
    finally:
        await backend.close()


async def _filled(path: Path) -> None:
    backend = sqlite_engine(open_store(str(path)))
    idents = [ExecutionId.of(0, uuid4()) for _ in range(30)]
    await backend.create_executions(
        [CreateExecutionArgs(execution_id=ident, tags={"a": "b"}) for ident in idents]
    )
    for work in await backend.claim_many("default", (), ME, 5):
        await backend.complete(work.handle, b"x")
    await backend.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "ff.db"
    asyncio.run(_filled(path))
    return path.read_bytes()


# ---- damage


def in_a_name(data: bytearray, dice: random.Random) -> None:
    """Damages a byte of a table's or a column's name."""
    spots = [found.start() for found in re.finditer(rb"ff_[a-z_]+", data[: 4096 * 20])]
    data[dice.choice(spots) + dice.randrange(6)] = dice.choice((0xFF, 0xC3, 0x80))


def in_a_text(data: bytearray, dice: random.Random) -> None:
    spots = [
        found.start() for found in re.finditer(rb"runnable|default|waiting|CREATE|INTEGER", data)
    ]
    for _ in range(dice.choice((1, 2, 8))):
        data[dice.choice(spots) + dice.randrange(6)] = dice.choice((0xFF, 0xC3, 0x80, 0))


def anywhere(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.randint(1, 200)):
        data[dice.randrange(100, len(data))] = dice.randrange(256)


def cut_off(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(100, len(data)) :]


@pytest.mark.parametrize(
    "damage", [in_a_name, in_a_text, anywhere, cut_off], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("seed", range(4))
def test_damage_is_an_engine_error_or_harmless(
    whole: bytes, tmp_path: Path, damage: Callable[[bytearray, random.Random], None], seed: int
) -> None:
    path, data = tmp_path / "ff.db", bytearray(whole)
    damage(data, random.Random(seed))
    path.write_bytes(data)
    for use in (
        lambda: asyncio.run(work(path)),
        lambda: read_tables(str(path), TABLES_READ),
        lambda: asyncio.run(looked(path)),
    ):
        with suppress(FlowFabricError):
            use()


async def looked(path: Path) -> None:
    engine = await look_at(str(path))
    try:
        await engine.census()
    finally:
        await engine.store.close()


def test_a_damaged_name_is_reported(whole: bytes, tmp_path: Path) -> None:
    path, data = tmp_path / "ff.db", bytearray(whole)
    data[data.index(b"CREATE TABLE ff_exec_core") + 14] = 0xFF
    path.write_bytes(data)
    with pytest.raises(Corruption, match="damaged"):
        asyncio.run(work(path))
    with pytest.raises(Corruption, match="damaged"):
        read_tables(str(path), TABLES_READ)


# ---- the database of the Rust FlowFabric


def foreign(path: Path) -> None:
    """A database as the migrations of the Rust FlowFabric leave it."""
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL,
            installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL,
                checksum BLOB NOT NULL,
            execution_time BIGINT NOT NULL);
        INSERT INTO _sqlx_migrations VALUES (1, 'initial', '2026-01-01', 1, x'00', 1);
        CREATE TABLE ff_migration_annotation (version INTEGER NOT NULL PRIMARY KEY,
            name TEXT NOT NULL,
            applied_at_ms INTEGER NOT NULL, backward_compatible INTEGER NOT NULL);
        INSERT INTO ff_migration_annotation VALUES (1, '0001_initial', 1, 0);
        CREATE TABLE ff_exec_core (partition_key INTEGER NOT NULL, execution_id BLOB NOT NULL,
            PRIMARY KEY (partition_key, execution_id));
        """
    )
    db.close()


def test_a_database_of_the_rust_flowfabric_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    foreign(path)
    before = schema_of(path)
    for use in (
        lambda: asyncio.run(work(path)),
        lambda: read_tables(str(path), TABLES_READ),
        lambda: asyncio.run(looked(path)),
    ):
        with pytest.raises(ConfigError, match="Rust FlowFabric"):
            use()
    assert schema_of(path) == before


def schema_of(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


# ---- where nothing can be written


def read_by_another(path: Path) -> str:
    """The result of reading the database in a process whose user has no write permission."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65_534)
                os.setuid(65_534)
            try:
                said = f"{len(read_tables(str(path), TABLES_READ)['ff_exec_core'])} executions"
            except FlowFabricError as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def read_only(whole: bytes) -> Iterator[Path]:
    """A database in a folder without write permission."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ff.db"
        path.write_bytes(whole)
        path.chmod(0o444)
        folder.chmod(0o555)
        yield path
        folder.chmod(0o755)


def test_a_database_on_a_read_only_file_system_is_read(read_only: Path) -> None:
    assert read_by_another(read_only) == "30 executions"


def test_an_unreadable_log_is_reported_with_a_solution(read_only: Path) -> None:
    read_only.parent.chmod(0o755)
    read_only.with_name("ff.db-wal").write_bytes(b"\0" * 64)
    read_only.parent.chmod(0o555)
    said = read_by_another(read_only)
    assert (
        said.startswith("NoDatabase: ")
        and "copy it, with its -wal file" in said
        and "not a FlowFabric" not in said
    )


def test_a_file_without_read_permission_is_reported(read_only: Path) -> None:
    read_only.chmod(0o000)
    assert "may not read the file" in read_by_another(read_only)
