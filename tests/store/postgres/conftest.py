"""A clean database, and a server of their own for tests that stop it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.migrate import as_script
from flowfabric.testing.postgres import PostgresServer
from tests.postgres import clean_database

SURVIVES_A_KILL = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


@pytest.fixture
def options() -> Options:
    """Of the shared database, migrated and empty."""
    return clean_database()


@pytest.fixture(scope="session")
def own_server() -> Iterator[PostgresServer]:
    """May be stopped, crashed and reconfigured, as long as it runs again afterwards."""
    with PostgresServer(settings=SURVIVES_A_KILL) as server:
        yield server


@pytest.fixture
def on_own_server(own_server: PostgresServer) -> Options:
    """A migrated database there."""
    with psycopg.connect(own_server.url, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS ff_own WITH (FORCE)")
        db.execute("CREATE DATABASE ff_own ENCODING 'UTF8' TEMPLATE template0")
    with psycopg.connect(own_server.url_of("ff_own"), autocommit=True) as db:
        db.execute(as_script())
    return Options(own_server.url_of("ff_own"))
