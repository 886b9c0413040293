"""The store inside a user's own transaction: what is written here stands or falls with it, and wakes others when it stands."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from flowfabric.errors import invalid
from flowfabric.plan import Answer, Plan
from flowfabric.store.port import Loaded, Read
from flowfabric.store.postgres.apply import Effects, Session, run_plans, run_together, runs_of
from flowfabric.store.postgres.bell import NOTIFY, message
from flowfabric.store.postgres.coalescer import MAX_BATCH
from flowfabric.store.postgres.failures import as_engine_error
from flowfabric.store.postgres.reader import run_reads

_SENDER = "transaction"


class BoundStore:
    """As much of a store as creating work needs."""

    def __init__(self, store: Any, connection: Any) -> None:
        self._store, self._session = store, session_on(connection)
        self.label, self.tag, self.durability, self.hub = store.label, store.tag, store.durability, store.hub

    def now_ms(self) -> Awaitable[int]:
        now: Awaitable[int] = self._store.now_ms()
        return now

    async def commit(self, plan: Plan) -> Answer:
        return (await self.commit_many([plan]))[0]

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        effects, answers = Effects(), list[Answer]()
        for run in runs_of(plans, MAX_BATCH):
            answers += await self._guarded(run_plans(self._session, run, self._given(), effects))
        await self._tell(effects)
        return answers

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        effects = Effects()
        answer: Answer = await self._guarded(run_together(self._session, plans, self._given(), effects))
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
            await self._guarded(self._session.fetch(NOTIFY, self._store.channel, message(_SENDER, effects)))

    @staticmethod
    async def _guarded(work: Awaitable[Any]) -> Any:
        try:
            return await work
        except Exception as error:
            raise as_engine_error(error) from error


def session_on(connection: Any) -> Session:
    """A user's connection as ours: asyncpg, or psycopg 3 of either kind."""
    module = type(connection).__module__.partition(".")[0]
    if module == "asyncpg" and hasattr(connection, "fetch") and hasattr(connection, "transaction"):
        session: Session = connection
        return session
    if module == "psycopg" and hasattr(connection, "transaction"):
        awaited = inspect.iscoroutinefunction(connection.execute)
        return _PsycopgSession(connection) if awaited else _BlockingPsycopgSession(connection)
    raise invalid("connection", "an asyncpg connection or a psycopg 3 connection", connection)


class _PsycopgSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        from psycopg import AsyncRawCursor

        async with AsyncRawCursor(self._connection) as cursor:
            await cursor.execute(sql, _listed(args))
            return await cursor.fetchall()

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        savepoint: AbstractAsyncContextManager[Any] = self._connection.transaction()
        return savepoint


class _BlockingPsycopgSession:
    """A plain connection is driven from a thread, so that the event loop goes on."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        return await asyncio.to_thread(self._fetch, sql, _listed(args))

    def _fetch(self, sql: str, args: Sequence[Any]) -> Sequence[Any]:
        from psycopg import RawCursor

        with RawCursor(self._connection) as cursor:
            return cursor.execute(sql, args).fetchall()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        savepoint = self._connection.transaction()
        await asyncio.to_thread(savepoint.__enter__)
        try:
            yield
        except BaseException as error:
            await asyncio.to_thread(savepoint.__exit__, type(error), error, error.__traceback__)
            raise
        await asyncio.to_thread(savepoint.__exit__, None, None, None)


def _listed(args: Sequence[Any]) -> list[Any]:
    """psycopg takes a tuple for a composite value; ours are arrays."""
    return [list(arg) if isinstance(arg, tuple) else arg for arg in args]
