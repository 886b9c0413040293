"""Helpers: stores on a real server, connections of other programs, and ways to interfere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import structs

from flowfabric.connect import PostgresBackend, postgres_engine
from flowfabric.engine.engine import Engine
from flowfabric.plan import Arg, Form, Insert, Plan
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, snapshot_of
from tests.patience import patient

PATIENCE_S = 15.0
ADD_LANE = Form(
    "t_add_lane",
    Insert(
        "ff_lane_registry",
        {"lane_id": Arg("lane"), "registered_at_ms": Arg("at"), "registered_by": Arg("by")},
    ),
)
INSERT_LANE = (
    "INSERT INTO ff_lane_registry (lane_id, registered_at_ms, registered_by) VALUES "
    "(%s, 1, 'other')"
)
WAITERS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND wait_event_type = 'Lock'"""
OURS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'flowfabric'"
)


def lane(name: str, by: str = "test", at: int = 1) -> Plan:
    return ADD_LANE(lane=name, at=at, by=by)


async def lanes(store: Any) -> list[str]:
    return sorted(row[0] for row in (await store.dump(["ff_lane_registry"]))["ff_lane_registry"])


def asking_for(options: Options, **settings: str) -> Options:
    """The same database with server settings in the url."""
    query = urlencode(settings)
    return structs.replace(options, url=f"{options.url}{'&' if '?' in options.url else '?'}{query}")


def as_user(options: Options, user: str) -> Options:
    parts = urlsplit(options.url)
    return structs.replace(
        options, url=urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}:{parts.port}"))
    )


@asynccontextmanager
async def opened(options: Options, **said: Any) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore(options).open(**said)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def engine_on(options: Options) -> AsyncIterator[PostgresBackend]:
    engine = postgres_engine(await PostgresStore(options).open())
    try:
        yield engine
    finally:
        await engine.close()


@contextmanager
def plain(options: Options | str, *, autocommit: bool = True) -> Iterator[psycopg.Connection[Any]]:
    """A connection of another program."""
    url = options if isinstance(options, str) else options.url
    with psycopg.connect(url.partition("?")[0], autocommit=autocommit) as db:
        yield db


@contextmanager
def meddled(options: Options, change: str, undo: str) -> Iterator[psycopg.Connection[Any]]:
    """A change of the schema that is reverted."""
    with plain(options) as db:
        db.execute(change)
        try:
            yield db
        finally:
            db.execute(undo)


async def until(holds: Callable[[], Any]) -> None:
    """Polls until the condition holds, up to a timeout."""
    async with patient(PATIENCE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_somebody_waits(db: psycopg.Connection[Any], how_many: int = 1) -> None:
    await until(lambda: one(db, WAITERS) >= how_many)


def one(db: psycopg.Connection[Any], sql: str, *params: Any) -> Any:
    found = db.execute(sql, params or None).fetchone()
    return None if found is None else found[0]


async def world(engine: Engine) -> Snapshot:
    """A snapshot of the store, after its invariants are checked."""
    found = snapshot_of(await engine.store.dump(TABLES_READ))
    assert check(found) == []
    return found
