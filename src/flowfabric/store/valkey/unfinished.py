"""The mark of a cell that a copy has not ended."""

from __future__ import annotations

from flowfabric.store.transfer import MARK, unfinished
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import Options


async def unfinished_source(connection: Connection, options: Options) -> str | None:
    found = await connection.command("GET", mark_of(options))
    return None if found is None else str(found.decode())


async def check_whole(connection: Connection, options: Options) -> None:
    source = await unfinished_source(connection, options)
    if source is not None:
        keys = f"the keys of the cell, {options.prefix}:*,"
        raise unfinished(options.shown, source, keys)


def mark_of(options: Options) -> str:
    return f"{options.prefix}:{MARK}"
