"""The schema is brought up to date once, whole or not at all."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from flowfabric.errors import TransportError, Unavailable
from flowfabric.store.schema import INDEXES, TABLES
from flowfabric.store.sql.ddl import index_name, sqlite_schema
from flowfabric.store.sqlite import migrate as migrate_module
from flowfabric.store.sqlite.migrate import Migration, migrate, shipped
from flowfabric.store.sqlite.registry import open_store

from .helpers import plain

BAD = Migration(2, "bad", "CREATE TABLE ff_half (x);\n\nCREATE TABEL ff_other (x);\n")
GOOD = Migration(2, "good", "CREATE TABLE ff_half (x);\n\nCREATE TABLE ff_other (x);\n")


def _ledger(db: sqlite3.Connection) -> list[tuple[int, str]]:
    return db.execute(
        "SELECT version, name FROM ff_migration_annotation ORDER BY version"
    ).fetchall()


def _names(db: sqlite3.Connection) -> set[str]:
    return {
        row[0]
        for row in db.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    }


def _opened(path: Path) -> str | None:
    async def run() -> str | None:
        store = open_store(str(path))
        await store.close()
        return store.migrated

    return asyncio.run(run())


def test_the_shipped_baseline_is_the_declared_schema() -> None:
    text = (
        files("flowfabric.store.sqlite")
        .joinpath("migrations/0001_baseline.sql")
        .read_text(encoding="utf-8")
    )
    assert text == sqlite_schema()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [m.version for m in shipped()] == list(range(1, len(shipped()) + 1))
    assert shipped()[0].name == "baseline"


def test_a_new_file_gets_every_table_and_index(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    assert _opened(path) == "0001_baseline"
    db = plain(path)
    wanted = {
        *TABLES,
        *(index_name(i) for i in INDEXES.values() if not i.primary),
        "ff_clock",
        "ff_migration_annotation",
    }
    assert _names(db) == wanted
    for table in TABLES.values():
        assert (
            tuple(row[1] for row in db.execute(f"PRAGMA table_info({table.name})")) == table.names
        )
    db.close()


def test_running_again_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    _opened(path)
    db = plain(path)
    before, changes = _ledger(db), db.execute("SELECT * FROM ff_migration_annotation").fetchall()
    assert _opened(path) is None
    assert migrate(db, "x", 99) is None
    assert (_ledger(db), db.execute("SELECT * FROM ff_migration_annotation").fetchall()) == (
        before,
        changes,
    )
    db.close()


def test_a_migration_that_differs_from_the_one_applied_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    _opened(path)
    db = plain(path)
    db.execute("UPDATE ff_migration_annotation SET checksum = 'other'")
    with pytest.raises(TransportError, match="0001 differs") as caught:
        _opened(path)
    assert caught.value.backend_kind == "protocol"
    assert not caught.value.retryable
    assert str(path) in str(caught.value)
    assert not db.in_transaction
    db.execute("UPDATE ff_migration_annotation SET applied_at_ms = 5")
    db.close()


def test_a_schema_newer_than_the_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    _opened(path)
    db = plain(path)
    db.execute(
        "INSERT INTO ff_migration_annotation (version, name, applied_at_ms, checksum) "
        "VALUES (99, 'later', 1, 'x')"
    )
    with pytest.raises(Unavailable, match=r"schema_version.*is at 99.*knows 1"):
        _opened(path)
    assert [v for v, _ in _ledger(db)] == [1, 99]
    db.close()


@pytest.mark.parametrize("existing", [True, False])
def test_a_migration_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: bool
) -> None:
    path, real = tmp_path / "ff.db", shipped()
    if existing:
        _opened(path)
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*real, BAD])
    with pytest.raises(TransportError, match="migration 0002 failed") as caught:
        _opened(path)
    assert caught.value.backend_kind == "protocol"
    db = plain(path)
    assert not _names(db) & {"ff_half", "ff_other"}
    assert ("ff_exec_core" in _names(db)) is existing
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*real, GOOD])
    assert _opened(path) == ("0002_good" if existing else "0001_baseline, 0002_good")
    assert {"ff_half", "ff_other"} <= _names(db)
    assert _ledger(db) == [(1, "baseline"), (2, "good")]
    db.close()


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"certainly not a database, " * 200)
    with pytest.raises(TransportError, match=r"notes\.txt"):
        _opened(path)
    assert path.read_bytes().startswith(b"certainly")


_OPENER = """
import asyncio, sys
from flowfabric.plan import Arg, Form, Insert
from flowfabric.store.sqlite.registry import open_store
row = {"lane_id": Arg("lane"), "registered_at_ms": 1, "registered_by": "x"}
form = Form("f", Insert("ff_lane_registry", row))
async def once(path):
    store = open_store(path)
    await store.commit(form(lane=sys.argv[1]))
    await store.close()
print("ready", flush=True)
for line in sys.stdin:
    try:
        asyncio.run(once(line.strip()))
        print("ok", flush=True)
    except Exception as error:
        print(repr(error).replace("\\n", " "), flush=True)
"""


def test_two_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OPENER]
    started = [
        subprocess.Popen(
            [*command, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name in ("one", "two")
    ]
    try:
        answers = [p.stdout.readline().strip() for p in started if p.stdout]
        assert answers == ["ready", "ready"]
        for n in range(10):
            path = tmp_path / f"race{n}.db"
            for process in started:
                assert process.stdin
                process.stdin.write(f"{path}\n")
                process.stdin.flush()
            answers = [p.stdout.readline().strip() for p in started if p.stdout]
            assert answers == ["ok", "ok"], f"round {n}"
            db = plain(path)
            assert _ledger(db) == [(1, "baseline")]
            assert db.execute("SELECT lane_id FROM ff_lane_registry ORDER BY 1").fetchall() == [
                ("one",),
                ("two",),
            ]
            db.close()
    finally:
        for process in started:
            process.kill()
            process.communicate()
