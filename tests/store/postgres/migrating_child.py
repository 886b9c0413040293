"""Applies the long migration in forks of this process: migrating_child URL [SIZE].

Each fork but the last is killed, with SIGKILL, at another statement. A line tells of each. With
a size of batches, the process applies it itself.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

import asyncpg
from msgspec import structs

from flowfabric.connect import migrate_postgres
from flowfabric.store.postgres import migrate as migrate_module
from flowfabric.store.postgres.migrate import Migration, shipped
from tests.store.long_migration import BATCH_SIZE, SQL, deaths, die, forked, wished

SHIPPED = shipped()
LONG = Migration(SHIPPED[-1].version + 1, "pre", "long", SQL)
METHODS = ("execute", "fetchval", "fetchrow", "fetch")


def doomed(words: str, skip: int, how: str) -> None:
    """Statements of all connections of this process are watched for the one that is its last."""
    left = skip

    def watched(real: Any) -> Any:
        async def run(self: asyncpg.Connection, sql: str, *args: Any, **more: Any) -> Any:
            nonlocal left
            left -= wished(words, sql)
            if left < 0 and how == "before":
                die()
            running = asyncio.ensure_future(real(self, sql, *args, **more))
            if left < 0:
                await asyncio.sleep(0.005)
                die()
            return await running

        return run

    for name in METHODS:
        setattr(asyncpg.Connection, name, watched(getattr(asyncpg.Connection, name)))


def apply(url: str, death: tuple[str, int, str] | None, migration: Migration = LONG) -> None:
    migrate_module.shipped = lambda: [*SHIPPED, migration]
    if death is not None:
        doomed(*death)
    asyncio.run(migrate_postgres(url))


def in_batches_of(size: int) -> Migration:
    return structs.replace(LONG, sql=LONG.sql.replace(f") {BATCH_SIZE}\n", f") {size}\n"))


def main(url: str, *once: str) -> None:
    if once:
        apply(url, None, in_batches_of(int(once[0])))
        return
    for death in deaths():
        print(forked(partial(apply, url, death)), *death, flush=True)
    print(forked(partial(apply, url, None)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
