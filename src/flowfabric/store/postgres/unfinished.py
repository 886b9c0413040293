"""The mark of a database that a copy has not ended."""

from __future__ import annotations

import asyncpg

from flowfabric.store.postgres.connections import Options
from flowfabric.store.transfer import MARK, unfinished


async def unfinished_source(connection: asyncpg.Connection) -> str | None:
    if await connection.fetchval("SELECT to_regclass($1)", MARK) is None:
        return None
    found = await connection.fetchval(f"SELECT source FROM {MARK}")
    return None if found is None else str(found)


async def check_whole(connection: asyncpg.Connection, options: Options) -> None:
    source = await unfinished_source(connection)
    if source is not None:
        raise unfinished(options.shown, source, f"the schema {options.schema}")
