"""The engine on an embedded SQLite file or a shared in-memory database."""

from __future__ import annotations

import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from flowfabric.connect.urls import check_settings
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.errors import ConfigError, RequiresDevMode
from flowfabric.loops.loop_thread import LoopThread
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.clock import system_clock
from flowfabric.store.migration_steps import Report, no_report
from flowfabric.store.sqlite.errors import SQLITE_ERRORS
from flowfabric.store.sqlite.migrate import migrate
from flowfabric.store.sqlite.opening import cannot_open
from flowfabric.store.sqlite.read_only import require_file
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import DEFAULT_POOL_SIZE, SqliteStore, StoreSettings
from flowfabric.store.sqlite.uri import ConnectionSettings, connect, parse_target

DEV_MODE = "FF_DEV_MODE"


class SqliteLoops:
    """One set of loops per database and process, on a thread; engines on the same file share it."""

    leads = True

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    @property
    def is_running(self) -> bool:
        return self._store.loops is not None and self._store.loops.is_running

    def start(self, engine: Engine, settings: LoopSettings | None) -> bool:
        store, engine_settings = self._store, engine.settings
        if store.loops is not None:
            return False
        # No reference to the engine: an engine that is not closed can be collected.
        store.loops = LoopThread(lambda: _supervised(Engine(store, engine_settings), settings))
        store.loops.watched_by(engine.telemetry)
        store.loops.start()
        return True

    def watched_by(self, listener: Telemetry) -> None:
        if self._store.loops is not None:
            self._store.loops.watched_by(listener)

    async def stop(self, grace_s: float) -> None:
        """Stops the loops of this database, whichever engine started them."""
        loops, self._store.loops = self._store.loops, None
        if loops is not None:
            await loops.stop(grace_s)

    async def release(self) -> None:
        if self._store.users <= 1:
            await self.stop(5.0)


class SqliteBackend:
    """Opens engines on SQLite."""

    @classmethod
    async def new(
        cls, path: str, *, dev: bool = False, settings: Settings | None = None, **tuning: Any
    ) -> Engine:
        """Opens a path, a file: URI or `:memory:`. Needs FF_DEV_MODE=1 in the environment, or
        dev=True.
        """
        if not dev and os.environ.get(DEV_MODE) != "1":
            raise RequiresDevMode
        return sqlite_engine(open_store(path, **_checked(tuning)), settings)

    @classmethod
    async def new_with_tuning(
        cls, path: str, pool_size: int = DEFAULT_POOL_SIZE, wal: bool = True, **more: Any
    ) -> Engine:
        return await cls.new(path, pool_size=pool_size, wal=wal, **more)


def migrate_sqlite(path: str, report: Report = no_report) -> str | None:
    """Applies what is missing to an existing file; the titles, or None.

    Opening the file does the same, without a report.
    """
    target = require_file(parse_target(path))
    try:
        with closing(connect(target, ConnectionSettings())) as db:
            return migrate(db, target.shown, system_clock(), report)
    except SQLITE_ERRORS as error:
        raise cannot_open(error, f"cannot migrate {target.shown}", "protocol") from error


def sqlite_engine(
    store: SqliteStore, settings: Settings | None = None, *, seed: int | None = None
) -> Engine:
    engine = Engine(store, settings, loops=SqliteLoops(store), seed=seed)
    store.backends += 1
    weakref.finalize(engine, _collected, store).atexit = False
    return engine


def _checked(tuning: dict[str, Any]) -> dict[str, Any]:
    check_settings("SQLite", tuning, StoreSettings.__annotations__)
    pool = tuning.get("pool_size", DEFAULT_POOL_SIZE)
    if not isinstance(pool, int) or not 1 <= pool <= 64:
        raise ConfigError(f"pool_size: a whole number from 1 to 64, got {pool!r}")
    if tuning.get("synchronous", "FULL") not in ("FULL", "NORMAL"):
        raise ConfigError(
            "synchronous: FULL (survives a power cut) or NORMAL (survives a crash of the process)"
        )
    return tuning


def _collected(store: SqliteStore) -> None:
    """The last engine on this store was collected without a close: its loops end."""
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
