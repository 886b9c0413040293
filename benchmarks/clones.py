"""Many suspended executions from a few: their rows are copied under new ids."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from uuid import UUID

import asyncpg

from benchmarks.valkey import insert_rows
from flowfabric.store.port import Store
from flowfabric.store.schema import TABLES

COPIED = ("ff_exec_core", "ff_attempt", "ff_suspension_current", "ff_waitpoint_pending")
_STATES = {"ff_exec_core": "public_state", "ff_attempt": "attempt_state"}
_SHARED = ("flow_id", "quota_policy_id")


def _copied(table: str, new_id: str) -> tuple[str, str]:
    """The columns of a table, and what a copy has in them. A flow or a quota stays the same one."""
    values = [
        new_id.format(each.name) if each.kind == "uuid" and each.name not in _SHARED else each.name
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


async def clone_valkey(store: Store, copies: int) -> None:
    """A copy has its original's rows, with other ids."""
    templates = await store.dump(COPIED)
    for table, rows in templates.items():
        columns = TABLES[table].columns
        ids = [each.kind == "uuid" and each.name not in _SHARED for each in columns]
        made = (
            [_copy_uuid(value, copy) if own else value for own, value in zip(ids, row, strict=True)]
            for copy in range(copies)
            for row in rows
            if table not in _STATES or row[TABLES[table].names.index(_STATES[table])] == "suspended"
        )
        await insert_rows(store, table, TABLES[table].names, made)


def _copy_uuid(ident: UUID | None, copy: int) -> UUID | None:
    return None if ident is None else UUID(bytes=_copy_id(ident.bytes, copy))


def _suspended(table: str) -> str:
    """Those that were made to be copied are the only ones that are suspended."""
    return f"{_STATES[table]} = 'suspended'" if table in _STATES else "true"


def _copy_id(ident: bytes | None, copy: int) -> bytes | None:
    return None if ident is None else hashlib.md5(ident + copy.to_bytes(4, "big")).digest()
