"""Many suspended executions from a few: the database copies their rows under new ids."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing

import asyncpg

from flowfabric.store.schema import TABLES

COPIED = ("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending")
COPY_BYTES = 16


def _copied(table: str, new_id: str) -> tuple[str, str]:
    """The columns of a table, and what a copy has in them. A flow or a quota stays the same one."""
    shared = ("flow_id", "quota_policy_id")
    values = [
        new_id.format(each.name) if each.kind == "uuid" and each.name not in shared else each.name
        for each in TABLES[table].columns
    ]
    return ", ".join(TABLES[table].names), ", ".join(values)


async def clone_postgres(url: str, copies: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            for table in COPIED:
                names, values = _copied(table, "md5({}::text || copy)::uuid")
                await connection.execute(
                    f"INSERT INTO {table} ({names}) SELECT {values} FROM {table}, "
                    f"generate_series(1, $1) AS copy WHERE {_suspended(table)}",
                    copies,
                    timeout=3_600,
                )
        await connection.execute("VACUUM ANALYZE", timeout=3_600)
    finally:
        await connection.close()


def clone_sqlite(path: str, copies: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as db:
        db.create_function("copy_id", 2, _copy_id, deterministic=True)
        db.execute("BEGIN IMMEDIATE")
        for table in COPIED:
            names, values = _copied(table, "copy_id({}, copy)")
            db.execute(
                f"WITH RECURSIVE numbers(copy) AS (SELECT 1 UNION ALL SELECT copy + 1 FROM numbers "
                f"WHERE copy < ?) INSERT INTO {table} ({names}) SELECT {values} FROM {table}, "
                f"numbers WHERE {_suspended(table)}",
                (copies,),
            )
        db.execute("COMMIT")


def _suspended(table: str) -> str:
    """Those that were made to be copied are the only ones that are suspended."""
    if table == "ff_exec_core":
        return "public_state = 'suspended'"
    if table == "ff_attempt":
        return "attempt_state = 'suspended'"
    return "true"


def _copy_id(ident: bytes | None, copy: int) -> bytes | None:
    return None if ident is None else hashlib.md5(ident + copy.to_bytes(4, "big")).digest()
