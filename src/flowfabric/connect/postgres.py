"""The engine on Postgres, its schema, and its background loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import structs

from flowfabric.connect.elected_loops import ElectedLoops
from flowfabric.connect.urls import check_settings
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.clock import Clock
from flowfabric.store.migration_steps import Report, no_report

if TYPE_CHECKING:
    from flowfabric.store.postgres.connections import Options
    from flowfabric.store.postgres.migrate import Kind
    from flowfabric.store.postgres.store import PostgresStore

LOOP_READERS = 4
POSTGRES_LOOPS = LoopSettings(
    lease_expiry_ms=3_000,
    delayed_promoter_ms=3_000,
    attempt_timeout_ms=3_000,
    edge_cancel_dispatcher_ms=15_000,
    suspension_timeout_ms=10_000,
    pending_waitpoint_ms=15_000,
)
"""Longer than on SQLite: other processes announce what is due soon."""
POLLING_LOOPS = structs.replace(
    POSTGRES_LOOPS,
    lease_expiry_ms=1_000,
    delayed_promoter_ms=1_000,
    attempt_timeout_ms=1_000,
    execution_deadline_ms=1_000,
    suspension_timeout_ms=1_000,
)
"""Behind a pooler nothing is announced."""


PUBLIC = "public"
_SCHEMA = "schema="


class PostgresBackend:
    """Opens engines on Postgres, one per event loop."""

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        migrate: bool = False,
        settings: Settings | None = None,
        clock: Clock | None = None,
        **tuning: Any,
    ) -> Engine:
        """Opens postgresql://user@host/database; several hosts are separated by commas. With
        ?schema=NAME it is the cell in that schema, by default "public". It must exist
        (`flowfabric migrate --db URL`), or say migrate=True.

        Tuning: schema (the Postgres schema, "public"), writers (2) and readers (8) at most this
        many connections, pooler=True behind a transaction-mode pooler, and listen_url, the URL of
        the server behind it.
        """
        options = postgres_options(url, **tuning)
        from flowfabric.store.postgres.store import PostgresStore

        store = PostgresStore(options, clock=clock)
        if migrate:
            await store.prepare()
        return postgres_engine(await store.open(), settings)


def postgres_engine(
    store: PostgresStore, settings: Settings | None = None, *, seed: int | None = None
) -> Engine:
    return Engine(store, settings, loops=ElectedLoops(partial(_elected, store)), seed=seed)


def _elected(store: PostgresStore, settings: Settings, loops: LoopSettings | None) -> LeaderOnly:
    from flowfabric.store.postgres.leader import Election

    wanted = loops or (POSTGRES_LOOPS if store.options.listens else POLLING_LOOPS)
    return LeaderOnly(Election(store.options.direct), lambda: _supervised(store, settings, wanted))


@asynccontextmanager
async def _supervised(
    store: PostgresStore, settings: Settings, loops: LoopSettings
) -> AsyncIterator[Supervisor]:
    """On connections of its own, since a connection belongs to an event loop."""
    options = structs.replace(store.options, readers=min(store.options.readers, LOOP_READERS))
    own = type(store)(options, clock=store.clock, beside=store)
    engine = Engine(await own.open(), settings)
    try:
        yield Supervisor(engine, loops)
    finally:
        await engine.close()


def postgres_options(url: str, **tuning: Any) -> Options:
    try:
        from flowfabric.store.postgres.connections import Options
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise ConfigError(
            "Postgres needs one more library: pip install 'flowfabric[postgres]'"
        ) from None
    check_settings("Postgres", tuning, set(Options.__struct_fields__) - {"url"})
    plain, schema = without_schema(url)
    if schema is not None:
        if tuning.get("schema", PUBLIC) not in (PUBLIC, schema):
            raise ConfigError("schema: the URL names another one")
        tuning["schema"] = schema
    return Options(plain, **tuning).checked()


def without_schema(url: str) -> tuple[str, str | None]:
    """The URL without `schema=NAME` among its options, and the name: a cell of its own."""
    before, mark, query = url.partition("?") if isinstance(url, str) else (url, "", "")
    options = query.split("&") if mark else []
    rest = [each for each in options if not each.startswith(_SCHEMA)]
    named = [unquote(each.removeprefix(_SCHEMA)) for each in options if each.startswith(_SCHEMA)]
    plain = f"{before}?{'&'.join(rest)}" if rest else before
    return plain, named[-1] if named else None


async def migrate_postgres(
    url: str, kind: Kind | None = None, *, report: Report = no_report, **tuning: Any
) -> list[str]:
    """Applies what is missing; the titles of what was applied. `report` follows long ones."""
    options = postgres_options(url, **tuning)
    from flowfabric.store.postgres.store import PostgresStore

    return await PostgresStore(options).migrate(kind, report)


def migration_script(kind: Kind | None = None, schema: str = "public") -> str:
    options = postgres_options("postgresql://localhost/", schema=schema)
    from flowfabric.store.postgres.migrate import as_script

    return as_script(kind, options.schema)
