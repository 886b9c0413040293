"""One URL per cell: a schema of Postgres, a file of SQLite."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from flowfabric.connect import PostgresBackend, connect_store, postgres_options
from flowfabric.connect.postgres import without_schema
from flowfabric.errors import ConfigError
from tests.cells.helpers import create
from tests.postgres import database


def test_a_url_of_postgres_names_a_schema() -> None:
    assert postgres_options("postgresql://h/db?schema=acme").schema == "acme"
    found = postgres_options("postgresql://h/db?sslmode=require&schema=acme&user=u")
    assert (found.url, found.schema) == ("postgresql://h/db?sslmode=require&user=u", "acme")
    assert without_schema("postgresql://h/db?user=u") == ("postgresql://h/db?user=u", None)
    assert postgres_options("postgresql://h/db?schema=acme", schema="public").schema == "acme"
    with pytest.raises(ConfigError, match="URL names another"):
        postgres_options("postgresql://h/db?schema=acme", schema="other")
    with pytest.raises(ConfigError, match="schema: lower case"):
        postgres_options("postgresql://h/db?schema=A%20b")


async def test_two_schemas_of_a_database_are_two_cells() -> None:
    base = database("explicit_cells")
    connection = await asyncpg.connect(base)
    for name in ("acme", "other"):
        await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")
    await connection.close()
    join = "&" if "?" in base else "?"
    engines = [
        await PostgresBackend.connect(f"{base}{join}schema={name}", migrate=True)
        for name in ("acme", "other")
    ]
    (mine,) = await create(engines[0], "default")
    assert [await each.read_execution_state(mine) for each in engines] == ["waiting", None]
    for each in engines:
        await each.close()


async def test_two_files_are_two_cells(tmp_path: Path) -> None:
    engines = [
        await connect_store(f"sqlite:///{tmp_path}/{name}.db", dev=True, loops=False)
        for name in ("acme", "other")
    ]
    (mine,) = await create(engines[0], "default")
    assert [await each.read_execution_state(mine) for each in engines] == ["waiting", None]
    for each in engines:
        await each.close()
