"""The SQLite store: it opens the database and owns the writer, the readers and the watcher."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, Protocol, TypedDict, TypeVar

from flowfabric.errors import TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import Answer, Plan, Refused
from flowfabric.store.clock import Clock, Ratchet, system_clock
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.schema import INDEXES
from flowfabric.store.sql.ddl import first_of
from flowfabric.store.sqlite.change_watcher import ChangeWatcher
from flowfabric.store.sqlite.errors import (
    SQLITE_ERRORS,
    as_engine_error,
    read_tolerantly,
    retry_while_busy,
)
from flowfabric.store.sqlite.forks import not_in_children
from flowfabric.store.sqlite.inline_reads import InlineReads
from flowfabric.store.sqlite.jobs import (
    Commit,
    CommitAndSweep,
    CommitMany,
    CommitTogether,
    Execute,
    SweepMany,
    SweepOnce,
)
from flowfabric.store.sqlite.migrate import migrate
from flowfabric.store.sqlite.opening import cannot_open, check_whole
from flowfabric.store.sqlite.reader import dump_tables, events_after, newest_event, run_reads
from flowfabric.store.sqlite.uri import (
    ConnectionSettings,
    Target,
    check_version,
    connect,
    create_private,
    file_identity,
)
from flowfabric.store.sqlite.writer import Writer
from flowfabric.store.wakeups import Wakeups

log = logging.getLogger("flowfabric.sqlite")

DEFAULT_POOL_SIZE = 4
BANNER = (
    "FlowFabric is running on SQLite (development opt-in): one machine, one writer at a time, "
    "not meant for production. Durability: %s."
)
T = TypeVar("T")


_announced: set[str] = set()


def _announce(target: Target, durability: str) -> None:
    """Once per database and process, however often it is opened."""
    if target.key not in _announced:
        _announced.add(target.key)
        log.info(BANNER, durability)


class StoreSettings(TypedDict, total=False):
    pool_size: int
    wal: bool
    synchronous: str
    clock: Clock


class _Stoppable(Protocol):
    def stop(self) -> None: ...


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
        self._connection_settings = settings = ConnectionSettings(synchronous, wal)
        self.settings = StoreSettings(synchronous=synchronous, wal=wal, pool_size=pool_size)
        self.users = self.backends = 0
        self.closed = False
        self.loops: Any = None
        db = self._open()
        self.writer = Writer(db, self.clock, self.hub, file_identity(target))
        self.inline_reads: InlineReads | None = None
        self._readers: _Readers | None = None
        owned: list[_Stoppable] = [self.writer]
        if not target.in_memory:
            self._readers = _Readers(target, max(pool_size - 1, 1), settings)
            owned.append(self._readers)
            if wal:
                self.inline_reads = InlineReads(target, settings)
                owned.append(self.inline_reads)
            changed = self.writer.check_other_processes
            owned.insert(0, ChangeWatcher(target, self.hub, changed, settings))
        self._finalizer = weakref.finalize(self, _stop, owned, self._keeper)
        not_in_children(self, self._finalizer)
        _announce(target, self.durability)

    def _open(self) -> sqlite3.Connection:
        """The writer's connection, migrated.

        An in-memory database gets a second connection, which keeps it alive.
        """
        with ExitStack() as opened:
            self._keeper = None
            create_private(self.target)
            try:
                if self.target.in_memory:
                    self._keeper = opened.enter_context(closing(retry_while_busy(self._connect)))
                db = opened.enter_context(closing(retry_while_busy(self._connect)))
            except SQLITE_ERRORS as error:
                raise cannot_open(error, f"cannot open {self.target.shown}") from error
            try:
                self.migrated = retry_while_busy(
                    lambda: migrate(db, self.target.shown, self.clock())
                )
                check_whole(db, self.target.shown)
            except SQLITE_ERRORS as error:
                text = f"cannot migrate {self.target.shown}"
                raise cannot_open(error, text, "protocol") from error
            opened.pop_all()
            return db

    def _connect(self) -> sqlite3.Connection:
        return connect(self.target, self._connection_settings)

    def retain(self) -> SqliteStore:
        self.users += 1
        return self

    async def prepare(self) -> str | None:
        return None

    async def close(self) -> None:
        """The last user closes the database; queued work is written first."""
        self.users -= 1
        if self.users <= 0 and not self.closed:
            self.closed = True
            await asyncio.to_thread(self._finalizer)
            self.hub.ring_all()

    def inside(self, connection: object) -> Store:
        raise Unavailable("connection: only Postgres takes work into your own transaction")

    async def now_ms(self) -> int:
        return self.clock()

    # ---- commits

    def commit(self, plan: Plan) -> Awaitable[Answer]:
        return self.writer.submit(Commit(plan))

    def commit_together(self, plans: Sequence[Plan]) -> Awaitable[Answer]:
        return self.writer.submit(CommitTogether(plans))

    def commit_many(self, plans: Sequence[Plan]) -> Awaitable[list[Answer]]:
        return self.writer.submit(CommitMany(plans))

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        return self.writer.submit(SweepOnce(plan, limit))

    def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> Awaitable[list[list[Row]] | Refused]:
        return self.writer.submit(SweepMany(first, wanted))

    def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> Awaitable[tuple[list[Answer], list[Row]]]:
        return self.writer.submit(CommitAndSweep(plans, plan, limit))

    # ---- reads

    async def load(self, reads: Sequence[Read]) -> Loaded:
        # Read before the rows: they contain every renewal that this time could have seen.
        now = self.clock()
        rows = None if self.inline_reads is None else self.inline_reads.run(reads)
        if rows is None:
            rows = await self.read(lambda db: run_reads(db, reads))
        return Loaded(now, rows)

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        return await self.read(lambda db: events_after(db, channel, after, limit))

    def last_event(self, channel: str) -> Awaitable[int]:
        """Queued with the commits: work submitted after this call gets a higher number."""
        return self.writer.submit(Execute(lambda db: newest_event(db, channel)))

    async def next_due(self, index: str) -> int | None:
        row = await self.read(lambda db: db.execute(first_of(INDEXES[index])).fetchone())
        return row[0] if row else None

    async def maintain(self) -> int:
        return 0

    async def longest_writer(self) -> None:
        return None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await self.read(lambda db: dump_tables(db, tables))

    async def execute_for_test(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        """Plain SQL through the writer, for tests that read or change rows directly."""
        work = Execute(lambda db: db.execute(sql, params).fetchall())
        rows: list[Row] = await self.writer.submit(work)
        return rows

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """On a reader thread; the shared cache of a database in memory locks whole tables,
        so its reads go through the writer.
        """
        if self._readers is None:
            result: T = await self.writer.submit(Execute(work))
            return result
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._readers.pool, self._readers.run, work
            )
        except SQLITE_ERRORS as error:
            raise as_engine_error(error) from error
        except RuntimeError as error:
            raise TransportError(
                "sqlite", "the database was closed", backend_kind="protocol"
            ) from error


class _Readers:
    """Threads with a connection each."""

    def __init__(self, target: Target, count: int, settings: ConnectionSettings) -> None:
        self._target, self._settings = target, settings
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self.pool = ThreadPoolExecutor(count, thread_name_prefix="flowfabric-sqlite-reader")

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = connect(self._target, self._settings, read_only=True)
            self._connections.append(db)
        return read_tolerantly(db, work)

    def stop(self) -> None:
        self.pool.shutdown(wait=True)
        for db in self._connections:
            db.close()


def _stop(owned: Sequence[_Stoppable], keeper: sqlite3.Connection | None) -> None:
    for part in owned:
        part.stop()
    if keeper is not None:
        keeper.close()
