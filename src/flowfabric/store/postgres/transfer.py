"""One side of a copy in Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import asyncpg

from flowfabric.errors import TransportError
from flowfabric.store.port import Read, Row
from flowfabric.store.postgres import connections
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.errors import as_engine_error
from flowfabric.store.postgres.migrate import check_schema, migrate
from flowfabric.store.postgres.reader import decode_rows, run_reads
from flowfabric.store.postgres.unfinished import unfinished_source
from flowfabric.store.schema import Table
from flowfabric.store.sql.ddl import PG_TYPES
from flowfabric.store.transfer import (
    FETCH_ROWS,
    MARK,
    MARK_DDL,
    NUMBERED,
    Pages,
    count_sql,
    last_key_sql,
    page_sql,
)

_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_LOCK = 0x66_66_63_6F_70_79
_SETTINGS = {"idle_in_transaction_session_timeout": "0", "statement_timeout": "0"}


class PostgresSide:
    """Two copies of one database exclude each other by a lock of the session."""

    def __init__(self, options: Options, connection: asyncpg.Connection) -> None:
        self.shown = f"{options.shown}?schema={options.schema}"
        self._db = connection

    @classmethod
    async def open(cls, options: Options, *, is_new: bool) -> PostgresSide:
        direct = options.direct
        db = await connections.connect(direct, _SETTINGS, watched=True)
        try:
            if is_new:
                await migrate(db, keeps_session=not direct.pooler)
            await check_schema(db)
            if not await db.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
                raise TransportError(
                    "postgres", f"{options.shown}: another copy of this database is running"
                )
        except BaseException as error:
            await db.close()
            raise as_engine_error(error) from error
        return cls(direct, db)

    async def now_ms(self) -> int:
        return int(await self._db.fetchval(f"SELECT {_NOW}"))

    async def load(self, reads: Sequence[Read]) -> list[list[Row]]:
        return await run_reads(self._db, reads)

    async def loops_holder(self) -> str | None:
        held = f"SELECT holder FROM ff_leader WHERE until_ms > {_NOW} LIMIT 1"
        found = await self._db.fetchval(held)
        return None if found is None else str(found)

    async def count(self, table: Table) -> int:
        return int(await self._db.fetchval(count_sql(table)))

    async def pages(self, table: Table, after: Row | None) -> AsyncIterator[list[Row]]:
        kinds = [PG_TYPES[table.kinds[column]] for column in table.key]
        marks = [f"${at}::{kind}" for at, kind in enumerate(kinds, 1)] if after else []
        pages = Pages(table)
        async with self._db.transaction(isolation="repeatable_read", readonly=True):
            cursor = await self._db.cursor(page_sql(table, marks), *(after or ()))
            while rows := await cursor.fetch(FETCH_ROWS):
                page = pages.add(decode_rows(table.name, rows))
                if page is not None:
                    yield page
            if rest := pages.rest():
                yield rest

    async def last_key(self, table: Table) -> Row | None:
        rows = await self._db.fetch(last_key_sql(table))
        return next(iter(decode_rows(table.name, rows, table.key)), None)

    async def numbers(self) -> dict[str, int]:
        found = {}
        for table in NUMBERED:
            name = await self._sequence(table)
            last, is_called = (await self._db.fetch(f"SELECT last_value, is_called FROM {name}"))[0]
            found[table.name] = int(last) if is_called else 0
        return found

    async def unfinished_source(self) -> str | None:
        return await unfinished_source(self._db)

    async def begin(self, source: str) -> None:
        async with self._db.transaction():
            await self._db.execute(MARK_DDL)
            await self._db.execute(f"INSERT INTO {MARK} (source) VALUES ($1)", source)

    async def behind(self, table: Table) -> Row | None:
        return await self.last_key(table)

    async def write(self, table: Table, rows: Sequence[Row]) -> int:
        try:
            async with self._db.transaction():
                await self._db.copy_records_to_table(
                    table.name, records=rows, columns=list(table.names)
                )
        except Exception as error:
            raise as_engine_error(error) from error
        return len(rows)

    async def finish(self, numbers: Mapping[str, int]) -> None:
        async with self._db.transaction():
            for table in NUMBERED:
                number = numbers[table.name]
                await self._db.execute(
                    "SELECT setval($1::text::regclass, $2, $3)",
                    await self._sequence(table),
                    max(number, 1),
                    number > 0,
                )

    async def end(self) -> None:
        await self._db.execute(f"DROP TABLE {MARK}")

    async def close(self) -> None:
        await self._db.close()

    async def _sequence(self, table: Table) -> str:
        found = await self._db.fetchval(
            "SELECT pg_get_serial_sequence($1, $2)", table.name, table.key[0]
        )
        return str(found)
