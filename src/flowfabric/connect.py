"""From a URL to an engine. The only place that knows which stores there are."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.errors import ConfigError, RequiresDevMode
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.loops.loop import LoopSettings
from flowfabric.loops.loop_thread import LoopThread
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.signing_key import Seeded
from flowfabric.store.clock import Clock, system_clock
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Row
from flowfabric.store.sqlite.errors import TROUBLE, reading
from flowfabric.store.sqlite.opening import connect_to_look, unreadable
from flowfabric.store.sqlite.read_only import ReadOnlySqlite, existing
from flowfabric.store.sqlite.reader import dump_tables
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import DEFAULT_POOL_SIZE, SqliteStore
from flowfabric.store.sqlite.uri import is_memory, parse_target

if TYPE_CHECKING:
    from flowfabric.store.postgres.connections import Options
    from flowfabric.store.postgres.store import PostgresStore

DEV_MODE = "FF_DEV_MODE"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
HTTP_SCHEMES = ("http://", "https://")
LOOP_READERS = 4
POSTGRES_LOOPS = LoopSettings(
    lease_expiry_ms=3_000,
    delayed_promoter_ms=3_000,
    attempt_timeout_ms=3_000,
    edge_cancel_dispatcher_ms=15_000,
    suspension_timeout_ms=10_000,
    pending_waitpoint_ms=15_000,
)
"""Other processes tell what is due soon, so looking by oneself can be rarer there than on SQLite."""


class SqliteBackend(Engine):
    """The engine on an embedded SQLite file or a shared in-memory database."""

    store: SqliteStore

    def __init__(
        self, store: SqliteStore, settings: Settings | None = None, *, seed: int | None = None
    ) -> None:
        super().__init__(store, settings, seed=seed)
        store.backends += 1
        weakref.finalize(self, _left, store).atexit = False

    @classmethod
    async def new(
        cls, path: str, *, dev: bool = False, settings: Settings | None = None, **tuning: Any
    ) -> SqliteBackend:
        """Opens a path, a file: URI or `:memory:`. Needs FF_DEV_MODE=1 in the environment, or dev=True."""
        if not dev and os.environ.get(DEV_MODE) != "1":
            raise RequiresDevMode
        return cls(open_store(path, **_checked(tuning)), settings)

    @classmethod
    async def new_with_tuning(
        cls, path: str, pool_size: int = DEFAULT_POOL_SIZE, wal: bool = True, **more: Any
    ) -> SqliteBackend:
        return await cls.new(path, pool_size=pool_size, wal=wal, **more)

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        """Starts the background loops, at most once per database and process; whether this call did."""
        if self.store.loops is not None:
            return False
        store, engine_settings = (
            self.store,
            self.settings,
        )  # and not self: an engine that is not closed can be collected
        self.store.loops = LoopThread(lambda: _supervised(Engine(store, engine_settings), settings))
        self.store.loops.watched_by(self.onlooker)
        self.store.loops.start()
        return True

    def watched_by(self, onlooker: Telemetry) -> None:
        super().watched_by(onlooker)
        if self.store.loops is not None:
            self.store.loops.watched_by(onlooker)

    @property
    def loops_are_running(self) -> bool:
        return self.store.loops is not None and self.store.loops.is_running

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        """Stops the loops of this database, whoever started them."""
        loops, self.store.loops = self.store.loops, None
        if loops is not None:
            await loops.stop(grace_s)

    async def _let_go(self) -> None:
        if self.store.users <= 1:
            await self.shutdown_prepare()


def _checked(tuning: dict[str, Any]) -> dict[str, Any]:
    known = {"pool_size", "wal", "synchronous", "clock"}
    unknown = set(tuning) - known
    if unknown:
        raise ConfigError(
            f"unknown SQLite setting {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}"
        )
    pool = tuning.get("pool_size", DEFAULT_POOL_SIZE)
    if not isinstance(pool, int) or not 1 <= pool <= 64:
        raise ConfigError(f"pool_size: a whole number from 1 to 64, got {pool!r}")
    if tuning.get("synchronous", "FULL") not in ("FULL", "NORMAL"):
        raise ConfigError(
            "synchronous: FULL (survives a power cut) or NORMAL (survives a crash of the process)"
        )
    return tuning


def _left(store: SqliteStore) -> None:
    """The last engine on this store was collected without having been closed: its loops end."""
    store.backends -= 1
    if store.backends <= 0 and store.loops is not None:
        loops, store.loops = store.loops, None
        loops.end()


@asynccontextmanager
async def _supervised(engine: Engine, settings: LoopSettings | None) -> AsyncIterator[Supervisor]:
    try:
        yield Supervisor(engine, settings)
    finally:
        await engine.finish()


class MemoryBackend(Engine):
    """The engine on the in-memory reference store. Its rows belong to one event loop, and so do its loops."""

    _loops: Supervisor | None = None

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        if self._loops is not None:
            return False
        self._loops = Supervisor(self, settings)
        self._loops.start()
        return True

    @property
    def loops_are_running(self) -> bool:
        return self._loops is not None and self._loops.is_running

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        loops, self._loops = self._loops, None
        if loops is not None:
            await loops.stop(grace_s)


class PostgresBackend(Engine):
    """The engine on Postgres. One per event loop."""

    store: PostgresStore
    _loops: LoopThread | None = None

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        migrate: bool = False,
        settings: Settings | None = None,
        clock: Clock | None = None,
        **tuning: Any,
    ) -> PostgresBackend:
        """Opens postgresql://user@host/database. The schema must be there (`flowfabric migrate URL`), or say migrate=True.

        Tuning: schema (the Postgres schema, "public"), writers (2) and readers (8) at most this many connections, and
        pooler=True behind a transaction-mode pooler.
        """
        options = postgres_options(url, **tuning)
        from flowfabric.store.postgres.store import PostgresStore

        store = PostgresStore(options, clock=clock)
        if migrate:
            await store.prepare()
        return cls(await store.open(), settings)

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        """Starts the background loops; of all processes on this database the elected one runs them."""
        if self._loops is not None:
            return False
        from flowfabric.store.postgres.leader import Election

        store, engine_settings, loops = self.store, self.settings, settings or POSTGRES_LOOPS
        self._loops = LoopThread(
            lambda: nullcontext(
                LeaderOnly(
                    Election(store.options),
                    lambda: _supervised_beside(store, engine_settings, loops),
                )
            )
        )
        self._loops.watched_by(self.onlooker)
        self._loops.start()
        weakref.finalize(self, self._loops.end).atexit = False
        return True

    def watched_by(self, onlooker: Telemetry) -> None:
        super().watched_by(onlooker)
        if self._loops is not None:
            self._loops.watched_by(onlooker)

    @property
    def loops_are_running(self) -> bool:
        return self._loops is not None and self._loops.is_running

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        loops, self._loops = self._loops, None
        if loops is not None:
            await loops.stop(grace_s)


@asynccontextmanager
async def _supervised_beside(
    store: PostgresStore, settings: Settings, loops: LoopSettings
) -> AsyncIterator[Supervisor]:
    """On connections of their own, since a connection belongs to an event loop. They are opened as they are needed."""
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
    known = set(Options.__struct_fields__) - {"url"}
    unknown = set(tuning) - known
    if unknown:
        raise ConfigError(
            f"unknown Postgres setting {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}"
        )
    return Options(url, **tuning).checked()


def is_postgres(url: str) -> bool:
    return url.startswith(POSTGRES_SCHEMES)


def is_http(url: str) -> bool:
    return url.startswith(HTTP_SCHEMES)


def is_in_memory(url: str) -> bool:
    """Whether what it opens ends with this process."""
    return url == "memory://" or (
        not is_postgres(url) and not is_http(url) and is_memory(sqlite_path(url))
    )


async def migrate_postgres(url: str, kind: Any = None, **tuning: Any) -> list[str]:
    """Applies what is missing; the titles of what was applied."""
    options = postgres_options(url, **tuning)
    from flowfabric.store.postgres.store import PostgresStore

    return await PostgresStore(options).migrate(kind)


def migration_script(kind: Any = None, schema: str = "public") -> str:
    options = postgres_options("postgresql://localhost/", schema=schema)
    from flowfabric.store.postgres.migrate import as_script

    return as_script(kind, options.schema)


def memory_engine(clock: Clock = system_clock, settings: Settings | None = None) -> MemoryBackend:
    return MemoryBackend(MemoryStore(clock), settings)


def read_tables(url: str, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Whole tables of a live or closed database, on one snapshot, without writing to it."""
    if is_postgres(url):
        return asyncio.run(_read_postgres(postgres_options(url), tables))
    target = existing(parse_target(sqlite_path(url)))
    try:
        db = connect_to_look(target)
        try:
            return reading(db, lambda found: dump_tables(found, tables))
        finally:
            db.close()
    except TROUBLE as error:
        raise unreadable(error, target) from error


async def _read_postgres(options: Options, tables: Iterable[str]) -> dict[str, list[Row]]:
    from flowfabric.store.postgres.store import PostgresStore

    store = await PostgresStore(options).open()
    try:
        return await store.dump(tables)
    finally:
        await store.close()


def sqlite_path(url: str) -> str:
    """The path, URI or `:memory:` inside a sqlite:// URL; anything without a scheme is a path already."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        return url
    if scheme != "sqlite":
        raise ConfigError(
            f"url: {scheme}:// is not supported here; use memory://, sqlite:///path, postgresql://host/database or http://host:port"
        )
    return rest if rest.startswith((":memory:", "file:")) else rest.removeprefix("/") or ":memory:"


async def connect(
    url: str,
    *,
    dev: bool = False,
    loops: bool | LoopSettings = True,
    settings: Settings | None = None,
    **tuning: Any,
) -> Engine:
    """`memory://`, `sqlite:///file.db`, a plain path, or `postgresql://host/database`, with the background loops running.

    `http://host:port` is the engine of a server, which has its own loops; it takes a `token`.

    The loops move what waits for a time: retries, delays, expired leases, deadlines, retention. One process is enough;
    `loops=False` leaves them to another.
    """
    if not isinstance(url, str) or not url:
        raise ConfigError(
            "url: expected memory://, sqlite:///path, a file path, postgresql://host/database or http://host:port"
        )
    if is_http(url):
        return _remote(url, **tuning)
    engine: SqliteBackend | MemoryBackend | PostgresBackend
    if url == "memory://":
        engine = memory_engine(tuning.get("clock", system_clock), settings)
    elif is_postgres(url):
        engine = await PostgresBackend.connect(url, settings=settings, **tuning)
    else:
        engine = await SqliteBackend.new(sqlite_path(url), dev=dev, settings=settings, **tuning)
    if loops:
        engine.with_scanners(loops if isinstance(loops, LoopSettings) else None)
    return engine


async def ensure_signing_key(engine: Engine, kid: str, secret_hex: str) -> bool:
    """A store without a key for waitpoint tokens gets this one. False when it signs with another, which is kept."""
    current = (await engine.list_waitpoint_hmac_kids()).current_kid
    if current is not None and current != kid:
        return False
    told = await engine.seed_waitpoint_hmac_secret(kid, secret_hex)
    return isinstance(told, Seeded) or told.same_secret


def _remote(url: str, *, token: str | None = None, **unknown: Any) -> Engine:
    """It has the engine's operations, each a call, and raises `Unavailable` for what a server does not offer."""
    if unknown:
        raise ConfigError(f"unknown setting {sorted(unknown)[0]!r} for a server; known is token")
    from flowfabric.remote.engine import RemoteEngine

    return cast(Engine, RemoteEngine(url, token))


async def look_at(url: str) -> Engine:
    """An engine for reads only, on a database that is there: nothing is created, migrated or started. Close it; do not enter it.

    On Postgres it is `connect(url, loops=False)`, which leaves the schema alone until the engine is entered.
    """
    if not isinstance(url, str) or not url:
        raise ConfigError("url: expected sqlite:///path, a file path or postgresql://host/database")
    if is_postgres(url) or is_http(url):
        return await connect(url, loops=False)
    if url == "memory://":
        raise ConfigError(
            "url: memory:// is seen by its own process only; use sqlite:///path or postgresql://host/database"
        )
    return Engine(ReadOnlySqlite(parse_target(sqlite_path(url))))
