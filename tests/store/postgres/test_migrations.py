"""The schema is brought up to date once, whole or not at all, by the first that comes."""

from __future__ import annotations

import asyncio
import subprocess
from importlib.resources import files
from typing import Any

import psycopg
import pytest

from flowfabric.cli.database import OLD_VARIABLE, URL_VARIABLE
from flowfabric.cli.exits import Exit
from flowfabric.connect import PostgresBackend, connect, migrate_postgres, migration_script
from flowfabric.errors import ConfigError, TransportError, Unavailable
from flowfabric.store.postgres import migrate as migrate_module
from flowfabric.store.postgres.migrate import LOCK, Migration, shipped
from flowfabric.store.schema import INDEXES, TABLES
from flowfabric.store.sql.ddl import index_name, postgres_schema
from tests.cli.commands import refused
from tests.cli.here import flowfabric_here
from tests.postgres import database, server_url

from .helpers import one, plain, until_somebody_waits

SHIPPED = shipped()
TITLES = [m.title for m in SHIPPED]
NEXT = SHIPPED[-1].version + 1
PRE = Migration(NEXT, "pre", "wider", "CREATE TABLE ff_wider (x bigint);\n")
POST = Migration(NEXT + 1, "post", "narrower", "CREATE TABLE ff_narrower (x bigint);\n")
BAD = Migration(
    NEXT, "pre", "bad", "CREATE TABLE ff_half (x bigint);\nCREATE TABEL ff_other (x bigint);\n"
)
LEDGER = (
    "SELECT version, name, backward_compatible, checksum FROM "
    "ff_migration_annotation ORDER BY version"
)
SHAPE = """SELECT table_name, column_name, ordinal_position, data_type, udt_name, is_nullable,
    column_default, is_identity,
    identity_generation, collation_name FROM information_schema.columns
        WHERE table_schema = 'public' ORDER BY 1, 3"""
MORE = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "SELECT relname, reloptions FROM pg_class WHERE relnamespace = "
    "'public'::regnamespace ORDER BY 1",
    "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
)


@pytest.fixture
def url() -> str:
    return database("migrations")


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later release."""
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, PRE, POST])


def shape(url: str) -> list[Any]:
    """The catalog of a schema and its ledger."""
    with plain(url) as db:
        return [db.execute(sql).fetchall() for sql in (SHAPE, *MORE, LEDGER)]


def tables(url: str) -> set[str]:
    with plain(url) as db:
        return {
            row[0]
            for row in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        }


def test_the_shipped_baseline_is_the_declared_schema() -> None:
    text = (
        files("flowfabric.store.postgres")
        .joinpath("migrations/0001_pre_baseline.sql")
        .read_text(encoding="utf-8")
    )
    assert text == postgres_schema()


def test_migrations_are_numbered_without_gaps_and_begin_with_the_baseline() -> None:
    assert [m.version for m in SHIPPED] == list(range(1, len(SHIPPED) + 1))
    assert SHIPPED[0].title == "0001_pre_baseline"


async def test_a_schema_of_the_rust_flowfabric_is_named(url: str) -> None:
    with plain(url) as db:
        db.execute(
            "CREATE TABLE ff_migration_annotation (version integer PRIMARY KEY, name "
            "text NOT NULL, applied_at_ms bigint, "
            "backward_compatible boolean NOT NULL)"
        )
    before = tables(url)
    with pytest.raises(ConfigError, match="Rust FlowFabric"):
        await migrate_postgres(url)
    with pytest.raises(ConfigError, match="Rust FlowFabric"):
        await connect(url, loops=False)
    assert tables(url) == before


async def test_an_empty_database_gets_every_table_and_index(url: str) -> None:
    assert await migrate_postgres(url) == TITLES
    assert tables(url) == {*TABLES, "ff_leader", "ff_migration_annotation"}
    with plain(url) as db:
        found = {
            row[0]
            for row in db.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")
        }
    assert {index_name(i) for i in INDEXES.values() if not i.primary} <= found


async def test_migrating_again_does_nothing(url: str) -> None:
    await migrate_postgres(url)
    before = shape(url)
    assert await migrate_postgres(url) == []
    engine = await PostgresBackend.connect(url, migrate=True)
    assert await engine.prepare() is None
    await engine.close()
    assert shape(url) == before


async def test_of_concurrent_migrations_one_applies(url: str) -> None:
    applied = await asyncio.gather(*(migrate_postgres(url) for _ in range(5)))
    assert sorted(applied) == [[]] * 4 + [TITLES]


async def test_a_second_migration_waits_for_the_first(url: str) -> None:
    with plain(url, autocommit=False) as first, plain(url) as looking:
        first.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        waiting = asyncio.ensure_future(migrate_postgres(url))
        await until_somebody_waits(looking)
        assert tables(url) == set()
        first.rollback()
        assert await waiting == TITLES


async def test_the_script_gives_the_same_schema_and_the_same_ledger(url: str, ahead: None) -> None:
    await migrate_postgres(url)
    by_migrate = shape(url)
    scripted = database("scripted")
    with plain(scripted) as db:
        db.execute(migration_script())
    assert shape(scripted) == by_migrate
    assert await migrate_postgres(scripted) == []


async def test_a_script_that_runs_twice_changes_nothing(url: str) -> None:
    with plain(url) as db:
        db.execute(migration_script())
        before = shape(url)
        with pytest.raises(psycopg.Error):
            db.execute(migration_script())
        db.execute("ROLLBACK")
    assert shape(url) == before


async def test_a_changed_migration_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await migrate_postgres(url)
    before = shape(url)
    changed = Migration(1, "pre", "baseline", SHIPPED[0].sql + "\n-- one more thought\n")
    monkeypatch.setattr(migrate_module, "shipped", lambda: [changed, PRE])
    with pytest.raises(TransportError, match="0001_pre_baseline differs") as caught:
        await migrate_postgres(url)
    assert not caught.value.retryable
    assert shape(url) == before


async def test_a_migration_that_fails_leaves_nothing_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, BAD])
    with pytest.raises(TransportError, match="42601"):
        await migrate_postgres(url)
    assert tables(url) == set()
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, PRE])
    assert await migrate_postgres(url) == [*TITLES, PRE.title]


async def test_pre_and_post_migrations_are_applied_separately(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await migrate_postgres(url, "pre") == [*TITLES, PRE.title]
    assert "ff_wider" in tables(url) and "ff_narrower" not in tables(url)
    monkeypatch.setattr(migrate_module, "shipped", lambda: SHIPPED)
    old = await PostgresBackend.connect(url)
    await old.close()
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, PRE, POST])
    new = await PostgresBackend.connect(url)
    await new.close()
    assert await migrate_postgres(url, "post") == [POST.title]
    monkeypatch.setattr(migrate_module, "shipped", lambda: SHIPPED)
    with pytest.raises(Unavailable, match="schema_version"):
        await PostgresBackend.connect(url)


async def test_new_code_requires_its_pre_migrations(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_postgres(url)
    monkeypatch.setattr(migrate_module, "shipped", lambda: [*SHIPPED, PRE, POST])
    with pytest.raises(Unavailable, match=f"is at {SHIPPED[-1].version} and needs {PRE.title}"):
        await PostgresBackend.connect(url)


@pytest.mark.parametrize("kind", ["pre", "post"])
def test_a_script_contains_only_its_kind(ahead: None, kind: str) -> None:
    script = migration_script(kind)
    assert (PRE.sql in script) == (kind == "pre")
    assert (POST.sql in script) == (kind == "post")


async def test_a_post_migration_by_script_stops_old_code(
    url: str, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain(url) as db:
        db.execute(migration_script("pre"))
        db.execute(migration_script("post"))
        assert (
            one(
                db,
                "SELECT backward_compatible FROM ff_migration_annotation WHERE version = %s",
                POST.version,
            )
            is False
        )
    monkeypatch.setattr(migrate_module, "shipped", lambda: SHIPPED)
    with pytest.raises(Unavailable, match="schema_version"):
        await PostgresBackend.connect(url)


# ---- the command


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return flowfabric_here("migrate", *args)


def test_the_command_migrates_and_then_has_nothing_to_do(url: str) -> None:
    first, second = command("--db", url), command("--db", url)
    applied = "".join(f"applied {title}\n" for title in TITLES)
    assert (first.returncode, first.stdout, first.stderr) == (0, applied, "")
    assert second.returncode == 0
    assert (second.stdout, second.stderr) == ("the database is up to date\n", "")


def test_the_command_takes_the_url_as_its_last_argument_for_one_more_release(url: str) -> None:
    done = command(url)
    assert (done.returncode, done.stdout) == (0, "".join(f"applied {title}\n" for title in TITLES))
    assert done.stderr == "deprecated: the URL as an argument; use --db or FF_URL\n"


def test_the_command_prints_a_script_that_works(url: str) -> None:
    done = command("--sql")
    assert (done.returncode, done.stdout, done.stderr) == (0, migration_script(), "")
    with plain(url) as db:
        db.execute(done.stdout)
    assert command("--db", url).stdout == "the database is up to date\n"


def test_the_command_takes_a_schema_and_a_kind(url: str) -> None:
    with plain(url) as db:
        db.execute("CREATE SCHEMA mine")
    named = ("--db", url, "--schema", "mine")
    assert command(*named, "--kind", "pre").returncode == 0
    assert command(*named, "--kind", "post").stdout == "the database is up to date\n"
    assert tables(url) == set()


def test_a_printed_script_uses_the_named_schema(url: str) -> None:
    with plain(url) as db:
        db.execute("CREATE SCHEMA mine")
        db.execute(command("--sql", "--schema", "mine").stdout)
    done = command("--db", url, "--schema", "mine")
    assert done.stdout == "the database is up to date\n"
    assert tables(url) == set()


SECRET = ("--db", "postgresql://keeper:hunter2@127.0.0.1:1/any")
KIND = "--kind: expected pre or post, got 'during'"
SCHEMA = "schema: lower case letters, digits and underscores, got 'No'"


@pytest.mark.parametrize(
    ("args", "says", "code"),
    [
        ((), "--db: expected sqlite:///path, a path, postgresql://", Exit.USAGE),
        (("--db", "mysql://host/any"), "url: mysql:// is not supported here; use ", Exit.USAGE),
        (SECRET, "cannot reach postgresql://127.0.0.1:1/any", Exit.UNREACHABLE),
        ((*SECRET, "--kind", "during"), KIND, Exit.USAGE),
        (("--sql", "--kind", "during"), KIND, Exit.USAGE),
        ((*SECRET, "--schema", "No"), SCHEMA, Exit.USAGE),
        (("--sql", "--schema", "No"), SCHEMA, Exit.USAGE),
    ],
)
def test_the_command_reports_errors(
    args: tuple[str, ...], says: str, code: Exit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (URL_VARIABLE, OLD_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    done = command(*args)
    refused(done, says, code)
    assert "hunter2" not in done.stderr


def test_the_command_names_an_unknown_database() -> None:
    done = command("--db", server_url().rpartition("/")[0] + "/ff_never_made")
    refused(done, "/ff_never_made: no such database; create it first", Exit.UNREACHABLE)
