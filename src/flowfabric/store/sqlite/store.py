"""The SQLite store: boot rules, the writer, the readers and the watch on other processes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, TypeVar

from flowfabric.errors import TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import Answer, Plan, Refused
from flowfabric.store.clock import Clock, Ratchet, system_clock
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.schema import INDEXES
from flowfabric.store.sql.ddl import first_of
from flowfabric.store.sqlite.change_watcher import ChangeWatch
from flowfabric.store.sqlite.errors import TROUBLE, as_engine_error, patiently, reading
from flowfabric.store.sqlite.inline_reads import InlineReads
from flowfabric.store.sqlite.migrate import migrate
from flowfabric.store.sqlite.opening import unopened
from flowfabric.store.sqlite.reader import dump_tables, events_after, newest_event, run_reads
from flowfabric.store.sqlite.uri import Target, check_version, connect, create_private, place_of
from flowfabric.store.sqlite.writer import Writer
from flowfabric.store.wakeups import Wakeups

log = logging.getLogger("flowfabric.sqlite")

DEFAULT_POOL_SIZE = 4
BANNER = (
    "FlowFabric is running on SQLite (development opt-in): one machine, one writer at a time, not meant for production. "
    "Durability: %s."
)
T = TypeVar("T")


class SqliteStore:
    """One per database and process; see `registry`."""

    label = "sqlite"
    tag = BackendTag.SQLITE

    def __init__(
        self,
        target: Target,
        *,
        pool_size: int = DEFAULT_POOL_SIZE,
        wal: bool = True,
        synchronous: str = "FULL",
        clock: Clock = system_clock,
    ) -> None:
        check_version()
        self.target = target
        self.hub = Wakeups()
        self.clock = Ratchet(clock)
        self.durability = (
            "none (memory)" if target.in_memory else "full" if synchronous == "FULL" else "process"
        )
        self._settings: dict[str, Any] = {"synchronous": synchronous, "wal": wal}
        self.asked: dict[str, Any] = {**self._settings, "pool_size": pool_size}
        self.users = self.backends = 0
        self.closed = False
        self.loops: Any = None
        db = self._open()
        self._writer = Writer(db, self.clock, self.hub, place_of(target))
        self._readers = (
            None if target.in_memory else _Readers(target, max(pool_size - 1, 1), self._settings)
        )
        self._near = None if target.in_memory or not wal else InlineReads(target, self._settings)
        self._watch = (
            None
            if target.in_memory
            else ChangeWatch(target, self.hub, self._writer.look, self._settings)
        )
        self._finalizer = weakref.finalize(
            self, _stop, self._writer, self._readers, self._near, self._watch, self._sentinel
        )
        log.warning(BANNER, self.durability)

    def _open(self) -> sqlite3.Connection:
        """The writer's connection, migrated; for an in-memory database one more that keeps it alive."""
        with ExitStack() as opened:
            self._sentinel = None
            create_private(self.target)
            try:
                if self.target.in_memory:
                    self._sentinel = opened.enter_context(closing(patiently(self._connect)))
                db = opened.enter_context(closing(patiently(self._connect)))
            except TROUBLE as error:
                raise unopened(error, f"cannot open {self.target.shown}") from error
            try:
                self.migrated = patiently(lambda: migrate(db, self.target.shown, self.clock()))
            except TROUBLE as error:
                raise unopened(error, f"cannot migrate {self.target.shown}", "protocol") from error
            opened.pop_all()
            return db

    def _connect(self) -> sqlite3.Connection:
        return connect(self.target, **self._settings)

    def retain(self) -> SqliteStore:
        self.users += 1
        return self

    async def prepare(self) -> str | None:
        return None

    async def close(self) -> None:
        """The last user closes the database; what was queued is written first."""
        self.users -= 1
        if self.users <= 0 and not self.closed:
            self.closed = True
            await asyncio.to_thread(self._finalizer)
            self.hub.ring_all()

    def inside(self, connection: Any) -> Store:
        raise Unavailable("connection: only Postgres takes work into your own transaction")

    async def now_ms(self) -> int:
        return self.clock()

    def commit(self, plan: Plan) -> Awaitable[Answer]:
        return self._writer.submit("plan", plan)

    def commit_together(self, plans: Sequence[Plan]) -> Awaitable[Answer]:
        return self._writer.submit("together", plans)

    def commit_many(self, plans: Sequence[Plan]) -> Awaitable[list[Answer]]:
        return self._writer.submit("many", plans)

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        return self._writer.submit("sweep", plan, limit)

    def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> Awaitable[list[list[Row]] | Refused]:
        return self._writer.submit("sweeps", (first, wanted))

    def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> Awaitable[tuple[list[Answer], list[Row]]]:
        return self._writer.submit("turn", (plans, plan), limit)

    async def load(self, reads: Sequence[Read]) -> Loaded:
        now = self.clock()  # before the rows: a renewal that this time could have seen is in them
        found = None if self._near is None else self._near.run(reads)
        return Loaded(
            now, await self.read(lambda db: run_reads(db, reads)) if found is None else found
        )

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        return await self.read(lambda db: events_after(db, channel, after, limit))

    def last_event(self, channel: str) -> Awaitable[int]:
        """In line with the commits: whatever is submitted after this call comes behind the answer."""
        return self._writer.submit("read", lambda db: newest_event(db, channel))

    async def next_due(self, index: str) -> int | None:
        row = await self.read(lambda db: db.execute(first_of(INDEXES[index])).fetchone())
        return row[0] if row else None

    async def longest_writer(self) -> None:
        return None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await self.read(lambda db: dump_tables(db, tables))

    async def execute_for_test(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Plain SQL through the writer, for tests that look or meddle behind the engine's back."""
        result: list[Row] = await self._writer.submit(
            "read", lambda db: db.execute(sql, params).fetchall()
        )
        return result

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """On a reader of its own for files; a shared in-memory cache locks whole tables, so there the writer reads."""
        if self._readers is None:
            result: T = await self._writer.submit("read", work)
            return result
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._readers.pool, self._readers.run, work
            )
        except TROUBLE as error:
            raise as_engine_error(error) from error
        except RuntimeError as error:
            raise TransportError(
                "sqlite", "the database was closed", backend_kind="protocol"
            ) from error


class _Readers:
    """A few threads with a connection each."""

    def __init__(self, target: Target, count: int, settings: dict[str, Any]) -> None:
        self._target, self._settings = target, settings
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self.pool = ThreadPoolExecutor(count, thread_name_prefix="flowfabric-sqlite-reader")

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = connect(self._target, read_only=True, **self._settings)
            self._all.append(db)
        return reading(db, work)

    def stop(self) -> None:
        self.pool.shutdown(wait=True)
        for db in self._all:
            db.close()


def _stop(
    writer: Writer,
    readers: _Readers | None,
    near: InlineReads | None,
    watch: ChangeWatch | None,
    sentinel: sqlite3.Connection | None,
) -> None:
    if watch is not None:
        watch.stop()
    writer.stop()
    for reader in (readers, near):
        if reader is not None:
            reader.stop()
    if sentinel is not None:
        sentinel.close()
