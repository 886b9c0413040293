"""One Postgres server per test process, started when the first test asks for it, and a clean
database for each test.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from typing import Any

import psycopg

from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.migrate import as_script
from flowfabric.store.schema import TABLES
from flowfabric.testing.postgres import SERVER_URL, PostgresServer

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


@cache
def server_url() -> str:
    """Of a database server that this process may do with as it likes."""
    given = os.environ.get(SERVER_URL)
    if given:
        return given
    server = PostgresServer(settings=FAST).start()
    atexit.register(server.close)
    return server.url


def database(name: str) -> str:
    """The url of a new, empty database."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    name = f"ff_{worker}_{name}"
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        db.execute(f"CREATE DATABASE \"{name}\" ENCODING 'UTF8' TEMPLATE template0")
    return server_url().rpartition("/")[0] + f"/{name}"


@cache
def _migrated(name: str) -> tuple[str, Any]:
    url = database(name)
    db = psycopg.connect(url, autocommit=True)
    db.execute(as_script())
    db.execute(f"CREATE FUNCTION pg_temp.wipe() RETURNS void LANGUAGE plpgsql AS $${_WIPE}$$")
    atexit.register(db.close)
    return url, db


_WIPE = "\n".join(
    (
        "BEGIN",
        *(f"DELETE FROM {table};" for table in (*TABLES, "ff_leader")),
        *(
            f"PERFORM setval(pg_get_serial_sequence('{t.name}', '{t.key[0]}'), 1, false);"
            for t in TABLES.values()
            if t.columns[0].kind == "auto"
        ),
        "END",
    )
)
"""A function keeps its plans, and `setval` keeps those of other connections."""


def clean_database(name: str = "shared") -> Options:
    """Migrated and empty; numbering begins again at one. One by another name is for those who leave
    connections open.
    """
    url, db = _migrated(name)
    db.execute("SELECT pg_temp.wipe()")
    return Options(url)
