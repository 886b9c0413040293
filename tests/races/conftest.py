"""A server with a short deadlock timeout, and a database of it for each test. What does not depend
on Postgres runs on a cell of Valkey, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.migrate import as_script
from flowfabric.testing.postgres import PostgresServer
from tests.postgres import FAST

from .helpers import Place, place_of

_databases = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(settings={**FAST, "deadlock_timeout": "50ms"}) as made:
        yield made


@pytest.fixture(params=["postgres", "valkey"])
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param)


@pytest.fixture
def options(server: PostgresServer) -> Options:
    name = f"hunt{next(_databases)}"
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    with psycopg.connect(server.url_of(name), autocommit=True) as db:
        db.execute(as_script())
    return Options(server.url_of(name))
