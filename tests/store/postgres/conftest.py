"""A clean database, and a server of their own for tests that stop it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowfabric.store.postgres.connections import Options
from flowfabric.testing.postgres import PostgresServer
from tests.postgres import FAST, clean_database


@pytest.fixture
def options() -> Options:
    """Of the shared database, migrated and empty."""
    return clean_database()


@pytest.fixture(scope="session")
def own_server() -> Iterator[PostgresServer]:
    """May be stopped, crashed and reconfigured, as long as it runs again afterwards."""
    with PostgresServer(settings=FAST) as server:
        yield server
