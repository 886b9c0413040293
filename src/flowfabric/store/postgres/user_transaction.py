"""The store inside a caller's own transaction: its writes are committed or rolled back with it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar, cast

from flowfabric.errors import invalid
from flowfabric.plan import Answer, Plan
from flowfabric.store.clock import Clock
from flowfabric.store.port import Loaded, Read
from flowfabric.store.postgres.coalescer import MAX_BATCH
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.errors import as_engine_error
from flowfabric.store.postgres.executor import (
    Session,
    run_plans,
    run_together,
    statement_batches,
    statement_of,
)
from flowfabric.store.postgres.notify import CALLERS_TRANSACTION, NOTIFY, message
from flowfabric.store.postgres.reader import run_reads
from flowfabric.store.sql.rows import SqlRows

if TYPE_CHECKING:
    import asyncpg
    import psycopg

    from flowfabric.store.postgres.store import PostgresStore

T = TypeVar("T")


class BoundStore:
    """The part of a store that creating work needs."""

    def __init__(self, store: PostgresStore, connection: object) -> None:
        self._store, self._session = store, session_on(connection)
        self.label, self.tag, self.durability = store.label, store.tag, store.durability
        self.hub = store.hub
        self._lock = asyncio.Lock()

    def now_ms(self) -> Awaitable[int]:
        return self._store.now_ms()

    async def commit(self, plan: Plan) -> Answer:
        return (await self.commit_many([plan]))[0]

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        effects, answers = Effects(), list[Answer]()
        for run in statement_batches(plans, MAX_BATCH):
            answers += await self._guarded(self._run(run, effects))
        await self._notify(effects)
        return answers

    async def _run(self, plans: list[Plan], effects: Effects) -> list[Answer]:
        if not statement_of(plans[0].form).refusable:
            return await run_plans(self._session, plans, self._clock_ms(), effects)
        return [await run_together(self._session, plans, self._clock_ms(), effects)]

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        effects = Effects()
        answer = await self._guarded(run_together(self._session, plans, self._clock_ms(), effects))
        await self._notify(effects)
        return answer

    async def load(self, reads: Sequence[Read]) -> Loaded:
        now = await self.now_ms()
        return Loaded(now, await self._guarded(run_reads(self._session, reads)))

    def _clock_ms(self) -> int | None:
        clock: Clock | None = self._store.clock
        return None if clock is None else clock()

    async def _notify(self, effects: Effects) -> None:
        """Postgres delivers it when the transaction commits, and drops it on a rollback."""
        if effects:
            text = message(CALLERS_TRANSACTION, effects)
            await self._guarded(self._session.fetch(NOTIFY, self._store.channel, text))

    async def _guarded(self, work: Awaitable[T]) -> T:
        """One at a time: a connection runs one statement."""
        async with self._lock:
            try:
                return await work
            except Exception as error:
                raise as_engine_error(error) from error


def session_on(connection: object) -> Session:
    """A caller's connection: asyncpg, or psycopg 3, asynchronous or not."""
    module = type(connection).__module__.partition(".")[0]
    if module == "asyncpg" and hasattr(connection, "fetch") and hasattr(connection, "transaction"):
        return _AsyncpgSession(cast("asyncpg.Connection", connection))
    if module == "psycopg" and hasattr(connection, "transaction"):
        if inspect.iscoroutinefunction(getattr(connection, "execute", None)):
            return _PsycopgSession(cast("psycopg.AsyncConnection[object]", connection))
        return _BlockingPsycopgSession(cast("psycopg.Connection[object]", connection))
    raise invalid("connection", "an asyncpg connection or a psycopg 3 connection", type(connection))


_OWN = ("BEGIN", "COMMIT", "ROLLBACK")
_INNER = (
    "SAVEPOINT ff_work",
    "RELEASE SAVEPOINT ff_work",
    "ROLLBACK TO SAVEPOINT ff_work; RELEASE SAVEPOINT ff_work",
)


@asynccontextmanager
async def _transaction(
    run: Callable[[str], Awaitable[object]], *, inside: bool
) -> AsyncIterator[None]:
    """Plain SQL: the transaction of asyncpg does not nest in one that was begun with BEGIN, and
    that of psycopg would commit the caller's.
    """
    begin, end, undo = _INNER if inside else _OWN
    await run(begin)
    try:
        yield
    except BaseException:
        await run(undo)
        raise
    await run(end)


class _AsyncpgSession:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, /, *args: object) -> SqlRows:
        rows: SqlRows = await self._connection.fetch(sql, *args)
        return rows

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return _transaction(self._connection.execute, inside=self._connection.is_in_transaction())


class _PsycopgSession:
    """Fetches in binary format: in text format the parts of a record have no types."""

    def __init__(self, connection: psycopg.AsyncConnection[object]) -> None:
        self._connection = connection

    async def fetch(self, sql: str, /, *args: object) -> SqlRows:
        from psycopg import AsyncRawCursor
        from psycopg.rows import tuple_row

        async with AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql, _as_lists(args), binary=True)
            return await cursor.fetchall()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return _transaction(self._connection.execute, inside=_in_transaction(self._connection))


class _BlockingPsycopgSession:
    """A blocking connection is used from a thread."""

    def __init__(self, connection: psycopg.Connection[object]) -> None:
        self._connection = connection

    async def fetch(self, sql: str, /, *args: object) -> SqlRows:
        return await asyncio.to_thread(self._fetch, sql, _as_lists(args))

    def _fetch(self, sql: str, args: Sequence[object]) -> SqlRows:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with RawCursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(sql, args, binary=True).fetchall()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        def run(sql: str) -> Awaitable[object]:
            return asyncio.to_thread(self._connection.execute, sql)

        return _transaction(run, inside=_in_transaction(self._connection))


def _in_transaction(
    connection: psycopg.AsyncConnection[object] | psycopg.Connection[object],
) -> bool:
    """psycopg begins a transaction with the first statement, except in autocommit mode."""
    return not connection.autocommit or connection.info.transaction_status.name != "IDLE"


def _as_lists(args: Sequence[object]) -> list[object]:
    """psycopg sends a tuple as a composite value; here tuples are arrays."""
    return [list(arg) if isinstance(arg, tuple) else arg for arg in args]
