"""The store inside a user's own transaction: what is written here stands or falls with it, and wakes others when it stands."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from flowfabric.errors import invalid
from flowfabric.plan import Answer, Plan
from flowfabric.store.port import Loaded, Read
from flowfabric.store.postgres.coalescer import MAX_BATCH
from flowfabric.store.postgres.errors import as_engine_error
from flowfabric.store.postgres.executor import (
    Effects,
    Session,
    carried,
    run_plans,
    run_together,
    text_of,
)
from flowfabric.store.postgres.notify import GUEST, NOTIFY, message
from flowfabric.store.postgres.reader import run_reads


class BoundStore:
    """As much of a store as creating work needs."""

    def __init__(self, store: Any, connection: Any) -> None:
        self._store, self._session = store, session_on(connection)
        self.label, self.tag, self.durability, self.hub = (
            store.label,
            store.tag,
            store.durability,
            store.hub,
        )
        self._turn = asyncio.Lock()

    def now_ms(self) -> Awaitable[int]:
        now: Awaitable[int] = self._store.now_ms()
        return now

    async def commit(self, plan: Plan) -> Answer:
        return (await self.commit_many([plan]))[0]

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        effects, answers = Effects(), list[Answer]()
        for run in carried(plans, MAX_BATCH):
            answers += await self._guarded(self._run(run, effects))
        await self._tell(effects)
        return answers

    async def _run(self, plans: list[Plan], effects: Effects) -> list[Answer]:
        if not text_of(plans[0].form).musts:
            return await run_plans(self._session, plans, self._given(), effects)
        return [await run_together(self._session, plans, self._given(), effects)]

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        effects = Effects()
        answer: Answer = await self._guarded(
            run_together(self._session, plans, self._given(), effects)
        )
        await self._tell(effects)
        return answer

    async def load(self, reads: Sequence[Read]) -> Loaded:
        now = await self.now_ms()
        return Loaded(now, await self._guarded(run_reads(self._session, reads)))

    def _given(self) -> int | None:
        return None if self._store.clock is None else self._store.clock()

    async def _tell(self, effects: Effects) -> None:
        """Postgres delivers it when the user's transaction commits, and drops it otherwise."""
        if effects.topics or effects.dues:
            await self._guarded(
                self._session.fetch(NOTIFY, self._store.channel, message(GUEST, effects))
            )

    async def _guarded(self, work: Awaitable[Any]) -> Any:
        """One at a time: a connection has one conversation."""
        async with self._turn:
            try:
                return await work
            except Exception as error:
                raise as_engine_error(error) from error


def session_on(connection: Any) -> Session:
    """A user's connection as ours: asyncpg, or psycopg 3 of either kind."""
    module = type(connection).__module__.partition(".")[0]
    if module == "asyncpg" and hasattr(connection, "fetch") and hasattr(connection, "transaction"):
        return _AsyncpgSession(connection)
    if module == "psycopg" and hasattr(connection, "transaction"):
        awaited = inspect.iscoroutinefunction(connection.execute)
        return _PsycopgSession(connection) if awaited else _BlockingPsycopgSession(connection)
    raise invalid("connection", "an asyncpg connection or a psycopg 3 connection", type(connection))


Run = Callable[[str], Awaitable[Any]]
_OWN = ("BEGIN", "COMMIT", "ROLLBACK")
_INNER = (
    "SAVEPOINT ff_work",
    "RELEASE SAVEPOINT ff_work",
    "ROLLBACK TO SAVEPOINT ff_work; RELEASE SAVEPOINT ff_work",
)


@asynccontextmanager
async def _transaction(run: Run, *, inside: bool) -> AsyncIterator[None]:
    """In plain words: a library's own would not nest in a transaction begun by hand, and psycopg's would commit the user's."""
    begin, end, undo = _INNER if inside else _OWN
    await run(begin)
    try:
        yield
    except BaseException:
        await run(undo)
        raise
    await run(end)


class _AsyncpgSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        rows: Sequence[Any] = await self._connection.fetch(sql, *args)
        return rows

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return _transaction(self._connection.execute, inside=self._connection.is_in_transaction())


class _PsycopgSession:
    """Binary answers, since in text the parts of a record have no types."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        from psycopg import AsyncRawCursor
        from psycopg.rows import tuple_row

        async with AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql, _listed(args), binary=True)
            return await cursor.fetchall()

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return _transaction(self._connection.execute, inside=_begins_by_itself(self._connection))


class _BlockingPsycopgSession:
    """A plain connection is driven from a thread, so that the event loop goes on."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        return await asyncio.to_thread(self._fetch, sql, _listed(args))

    def _fetch(self, sql: str, args: Sequence[Any]) -> Sequence[Any]:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with RawCursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(sql, args, binary=True).fetchall()

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        def run(sql: str) -> Awaitable[Any]:
            return asyncio.to_thread(self._connection.execute, sql)

        return _transaction(run, inside=_begins_by_itself(self._connection))


def _begins_by_itself(connection: Any) -> bool:
    """psycopg's connections are in a transaction, or will be with the first statement, unless they commit each one."""
    return not connection.autocommit or connection.info.transaction_status.name != "IDLE"


def _listed(args: Sequence[Any]) -> list[Any]:
    """psycopg takes a tuple for a composite value; ours are arrays."""
    return [list(arg) if isinstance(arg, tuple) else arg for arg in args]
