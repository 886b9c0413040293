"""Applies a migration of steps beside traffic.

One process at a time: it holds an advisory lock of its session, and others poll for that lock. A
process that waited in a transaction would block the building of an index.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import asyncpg
from msgspec import Struct

from flowfabric.errors import TransportError
from flowfabric.store.migration_steps import (
    LONGEST_REST_S,
    REST,
    SMALLEST_BATCH,
    Position,
    Progress,
    Report,
    Step,
    steps_of,
)
from flowfabric.store.postgres.errors import is_conflict

LOCK = 0x0F10_FAB2
ASK_EVERY_S = 0.2
LOCK_TIMEOUT_MS = 300
"""Statements of the traffic queue behind a lock that is waited for."""
MAX_TRIES = 200
FIRST_PAUSE_S, LAST_PAUSE_S = 0.05, 2.0
NO_LIMITS = "SET statement_timeout = 0; SET lock_timeout = 0"
"""A role may have limits that an index of a large table exceeds."""
PROGRESS = """CREATE TABLE IF NOT EXISTS ff_migration_progress (
    version bigint PRIMARY KEY, step bigint NOT NULL, after_key text NOT NULL,
    changed bigint NOT NULL, checksum text NOT NULL)"""
_READ = "SELECT step, after_key, changed, checksum FROM ff_migration_progress WHERE version = $1"
_WRITE = (
    "INSERT INTO ff_migration_progress (version, step, after_key, changed, checksum) "
    "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (version) DO UPDATE SET step = excluded.step, "
    "after_key = excluded.after_key, changed = excluded.changed"
)
_FORGET = "DELETE FROM ff_migration_progress WHERE version = $1"
_ROWS = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass($1)"
_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
T = TypeVar("T")


class Steps(Struct, frozen=True):
    """A migration of steps, and how its end is recorded."""

    version: int
    title: str
    checksum: str
    sql: str
    record: Callable[[], Awaitable[None]]


@asynccontextmanager
async def sole_migrator(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """After an error the lock ends with the session, as when the process is killed."""
    sql = f"SELECT pg_try_advisory_lock({LOCK})"
    while not await connection.fetchval(sql):  # noqa: ASYNC110
        await asyncio.sleep(ASK_EVERY_S)
    yield
    await connection.execute(f"SELECT pg_advisory_unlock({LOCK})")


class OnlineMigration:
    def __init__(self, connection: asyncpg.Connection, migration: Steps, report: Report) -> None:
        self._connection, self._migration, self._report = connection, migration, report
        self._steps = steps_of(migration.sql)
        self._position = Position()

    async def apply(self) -> None:
        """Continues where the last process stopped."""
        await self._connection.execute(NO_LIMITS)
        await self._connection.execute(PROGRESS)
        self._position = await self._saved()
        for step in self._steps[self._position.done :]:
            if step.kind == "batches":
                await self.run_batches(step)
            elif step.kind == "index":
                await _patiently(partial(self.build_index, step))
                await self._commit(self._position.next_step())
            else:
                await _patiently(partial(self._run, step))
        async with self._connection.transaction():
            await self._migration.record()
            await self._connection.execute(_FORGET, self._migration.version)

    async def _saved(self) -> Position:
        row = await self._connection.fetchrow(_READ, self._migration.version)
        if row is None:
            return Position()
        if row["checksum"] != self._migration.checksum:
            text = f"migration {self._migration.title} differs from the one that was begun"
            raise TransportError("postgres", text, backend_kind="protocol")
        return Position(row["step"], row["after_key"], row["changed"])

    async def _run(self, step: Step, _: int) -> None:
        async with self._transaction():
            await self._connection.execute(step.sql)
            await self._save(self._position.next_step())
        self._moved(self._position.next_step())

    async def run_batches(self, step: Step) -> None:
        total = await self._connection.fetchval(_ROWS, step.target)
        while True:
            began = time.monotonic()
            more = await _patiently(partial(self._run_batch, step, total))
            if not more:
                break
            await asyncio.sleep(min((time.monotonic() - began) * REST, LONGEST_REST_S))
        await self._commit(self._position.next_step())

    async def _run_batch(self, step: Step, total: int | None, attempt: int) -> bool:
        """Smaller after a lock timeout. False when no rows are left."""
        at = self._position
        async with self._transaction():
            size = max(step.size >> attempt, min(step.size, SMALLEST_BATCH))
            upto = await self._connection.fetchval(
                step.last_of_batch(_literal(step.keys), at.after, size)
            )
            if upto is None:
                return False
            status = await self._connection.execute(step.batch(at.after, upto))
            moved = at.moved(upto, int(status.rpartition(" ")[2]))
            await self._save(moved)
        self._moved(moved, total)
        return True

    async def build_index(self, step: Step, _: int) -> None:
        """A process that was killed while it built the index has left it invalid, or finished."""
        is_valid = await self._connection.fetchval(_VALID, step.target)
        if is_valid is False:
            await self._connection.execute(f"DROP INDEX CONCURRENTLY {step.target}")
        if not is_valid:
            await self._connection.execute(step.sql)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self._connection.transaction():
            await self._connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
            yield

    async def _commit(self, position: Position) -> None:
        await self._save(position)
        self._moved(position)

    async def _save(self, position: Position) -> None:
        await self._connection.execute(
            _WRITE,
            self._migration.version,
            position.done,
            position.after,
            position.rows,
            self._migration.checksum,
        )

    def _moved(self, position: Position, total: int | None = None) -> None:
        begun = min(position.done + (total is not None), len(self._steps))
        self._position = position
        title, steps = self._migration.title, len(self._steps)
        self._report(Progress(title, begun, steps, position.rows, total))


async def _patiently(work: Callable[[int], Awaitable[T]]) -> T:
    """Repeats what could not lock its rows or its table in time."""
    pause = FIRST_PAUSE_S
    for attempt in range(MAX_TRIES):
        try:
            return await work(attempt)
        except asyncpg.PostgresError as error:
            if not is_conflict(error) or attempt == MAX_TRIES - 1:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE_S)
    raise AssertionError("the last try returns or raises")


def _literal(keys: tuple[str, ...]) -> str:
    """The key of a row as SQL. A literal without a type takes that of the column."""
    parts = " || ', ' || ".join(f"quote_literal({key}::text)" for key in keys)
    return f"'(' || {parts} || ')'"
