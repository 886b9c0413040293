"""Opening a store: server, user, schema and settings. No error contains a password."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flowfabric.connect import PostgresBackend, connect, postgres_options
from flowfabric.errors import ConfigError, FlowFabricError, TransportError, Unavailable
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.migrate import shipped
from flowfabric.testing.postgres import PostgresServer
from tests.postgres import database, server_url

from .helpers import engine_on, meddled, one, opened, plain

SECRET = "hunter2%2Fopen"
SPELLINGS = ("hunter2", "%2Fopen", "/open")
AHEAD = "INSERT INTO ff_migration_annotation VALUES (999, '0999_post_future', 1, {}, 'x')"
BACK = "DELETE FROM ff_migration_annotation WHERE version = 999"


def shows_no_secret(text: str) -> bool:
    return not any(part in text for part in SPELLINGS)


async def refused(url: Any, **tuning: Any) -> FlowFabricError:
    """Checks every text that a log would contain, causes included."""
    with pytest.raises(FlowFabricError) as caught:
        await PostgresBackend.connect(url, **tuning)
    assert shows_no_secret("".join(traceback.format_exception(caught.value)) + repr(caught.value))
    return caught.value


@pytest.fixture(scope="module")
def guarded(own_server: PostgresServer) -> Iterator[str]:
    """The url, without a user, of a database whose server requires passwords."""
    with psycopg.connect(own_server.url, autocommit=True) as db:
        rules = Path(one(db, "SHOW hba_file"))
        before = rules.read_text()
        db.execute("CREATE DATABASE guarded ENCODING 'UTF8' TEMPLATE template0")
        db.execute("CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'hunter2/open'")
        rules.write_text("host guarded all 127.0.0.1/32 scram-sha-256\n" + before)
        db.execute("SELECT pg_reload_conf()")
    own_server.restart()
    yield f"127.0.0.1:{own_server.port}/guarded"
    rules.write_text(before)
    own_server.restart()
    with psycopg.connect(own_server.url, autocommit=True) as db:
        db.execute("DROP DATABASE guarded WITH (FORCE)")
        db.execute("DROP ROLE keeper")


async def test_the_right_password_opens(guarded: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    engine = await PostgresBackend.connect(f"postgresql://keeper:{SECRET}@{guarded}", migrate=True)
    try:
        await engine.ping()
        for shown in (
            engine,
            engine.store,
            engine.store.options,
            engine.store.options.shown,
            engine.capabilities(),
        ):
            assert shows_no_secret(f"{shown!r} {shown}")
    finally:
        await engine.close()
    assert shows_no_secret(caplog.text)


async def test_a_wrong_password_is_refused_without_showing_it(
    guarded: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = await refused(f"postgresql://keeper:{SECRET}x@{guarded}")
    assert (
        isinstance(error, TransportError) and error.backend_kind == "auth" and not error.retryable
    )
    assert "user or password" in str(error)
    assert shows_no_secret(caplog.text)


async def test_an_unknown_user_is_refused(guarded: str) -> None:
    error = await refused(f"postgresql://nobody_known:{SECRET}@{guarded}")
    assert isinstance(error, TransportError) and error.backend_kind == "auth"


async def test_an_unreachable_server_is_named(own_server: PostgresServer) -> None:
    own_server.stop()
    try:
        error = await refused(f"postgresql://keeper:{SECRET}@127.0.0.1:{own_server.port}/any")
    finally:
        own_server.start()
    assert isinstance(error, TransportError) and error.retryable and not error.doubtful
    assert f"postgresql://127.0.0.1:{own_server.port}/any" in str(
        error
    ) and "is the server running" in str(error)


async def test_a_host_that_does_not_exist_is_named() -> None:
    error = await refused(f"postgresql://keeper:{SECRET}@nowhere.invalid/any")
    assert isinstance(error, TransportError) and "nowhere.invalid" in str(error)


async def test_an_unknown_database_is_named() -> None:
    error = await refused(server_url().rpartition("/")[0] + "/ff_never_made")
    assert isinstance(error, TransportError) and not error.retryable
    assert "/ff_never_made: no such database" in str(error)


async def test_the_error_for_a_missing_schema_names_the_command() -> None:
    url = database("bare")
    error = await refused(url)
    assert isinstance(error, Unavailable)
    assert "without a FlowFabric schema" in str(error) and "flowfabric migrate" in str(error)
    engine = await PostgresBackend.connect(url, migrate=True)
    await engine.ping()
    await engine.close()


async def test_a_schema_too_new_is_refused(options: Options) -> None:
    with meddled(options, AHEAD.format("false"), BACK):
        for how in ({}, {"migrate": True}):
            error = await refused(options.url, **how)
            assert isinstance(error, Unavailable)
            assert "is at 999" in str(error) and f"knows {shipped()[-1].version}" in str(error)


async def test_a_newer_backward_compatible_schema_is_accepted(options: Options) -> None:
    with meddled(options, AHEAD.format("true"), BACK):
        async with engine_on(options) as engine:
            await engine.ping()
            assert await engine.prepare() is None


async def test_a_missing_migration_is_named(options: Options) -> None:
    with plain(options) as db:
        kept = db.execute("DELETE FROM ff_migration_annotation RETURNING *").fetchall()
        try:
            error = await refused(options.url)
        finally:
            db.cursor().executemany(
                "INSERT INTO ff_migration_annotation VALUES (%s, %s, %s, %s, %s)", kept
            )
    assert isinstance(error, Unavailable) and shipped()[0].title in str(error)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_an_encoding_that_loses_letters_is_refused(encoding: str) -> None:
    name = f"ff_{encoding.lower()}"
    with meddled(
        Options(server_url()),
        f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0",
        f"DROP DATABASE {name} WITH (FORCE)",
    ):
        for how in ({}, {"migrate": True}):
            error = await refused(server_url().rpartition("/")[0] + f"/{name}", **how)
            assert (
                isinstance(error, ConfigError) and encoding in str(error) and "UTF8" in str(error)
            )


GOOD = f"postgresql://keeper:{SECRET}@127.0.0.1:1/any"
BAD = [
    ("url", "mysql://keeper@host/any", {}),
    ("url", "", {}),
    ("url", None, {}),
    ("url", 5432, {}),
    ("url", f"postgresql://keeper:{SECRET}@host:port/any", {}),
    ("url", f"postgresql://keeper:{SECRET}@host:99999/any", {}),
    ("url", f"postgresql://keeper:{SECRET}@[::1/any", {}),
    ("url", f"postgresql://keeper:{SECRET}@host/any?sslmode=sometimes", {}),
    ("url", "postgresql://keeper:hunter2/open@host/any", {}),
    ("url", "postgresql://keeper:12/hunter2@host/any", {}),
    ("url", "postgresql://keeper:12#hunter2@host/any", {}),
    ("schema", GOOD, {"schema": 'public"; DROP TABLE x'}),
    ("schema", GOOD, {"schema": "Upper"}),
    ("schema", GOOD, {"schema": ""}),
    ("schema", GOOD, {"schema": "x" * 52}),
    ("schema", GOOD, {"schema": None}),
    ("schema", GOOD, {"schema": "other", "pooler": True}),
    ("writers", GOOD, {"writers": 0}),
    ("writers", GOOD, {"writers": 17}),
    ("writers", GOOD, {"writers": "2"}),
    ("writers", GOOD, {"writers": True}),
    ("readers", GOOD, {"readers": 0}),
    ("readers", GOOD, {"readers": 101}),
    ("readers", GOOD, {"readers": 1.5}),
    ("pooler", GOOD, {"pooler": "yes"}),
    ("wirters", GOOD, {"wirters": 2}),
]


@pytest.mark.parametrize(("field", "url", "tuning"), BAD)
async def test_a_bad_setting_is_named_before_anything_is_sent(
    field: str, url: Any, tuning: dict[str, Any]
) -> None:
    error = await refused(url, **tuning)
    assert isinstance(error, ConfigError) and field in str(error)


@pytest.mark.parametrize("url", ["", None, 7, "mysql://keeper@host/any"])
async def test_connect_names_the_url_too(url: Any) -> None:
    with pytest.raises(ConfigError, match="url"):
        await connect(url, dev=True)


def test_options_hide_user_and_password() -> None:
    options = postgres_options(f"postgresql://keeper:{SECRET}@host:6000/any?password={SECRET}")
    assert options.shown == "postgresql://host:6000/any"
    assert shows_no_secret(f"{options!r} {options}") and "host:6000" in repr(options)


async def test_only_the_named_schema_is_used() -> None:
    url = database("schemas")
    with plain(url) as db:
        db.execute("CREATE SCHEMA mine")
        engine = await PostgresBackend.connect(url, migrate=True, schema="mine")
        await engine.ping()
        await engine.close()
        found = db.execute(
            "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'ff_%'"
        ).fetchall()
        assert found == [("mine",)]
    async with opened(Options(url, schema="mine")) as store:
        assert await store.dump(["ff_lane_registry"])


async def test_an_unknown_schema_is_an_engine_error() -> None:
    error = await refused(database("schemas"), migrate=True, schema="nowhere")
    assert isinstance(error, TransportError) and "schema" in str(error)
