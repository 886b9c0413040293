"""Applies the long migration to a file: migrating_child PATH [SIZE].

Forks of this process do it, and each but the last is killed, with SIGKILL, at another statement.
With a size of batches, the process applies it itself.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from functools import partial

from msgspec import structs

from flowfabric.store.sqlite import migrate as migrate_module
from flowfabric.store.sqlite.migrate import Migration, migrate, shipped
from flowfabric.store.sqlite.uri import ConnectionSettings, connect, parse_target
from tests.store.long_migration import BATCH_SIZE, SQLITE_SQL, deaths, die, forked, wished

SHIPPED = shipped()
LONG = Migration(SHIPPED[-1].version + 1, "long", SQLITE_SQL)


def doomed(db: sqlite3.Connection, words: str, skip: int) -> None:
    """The trace is called before a statement runs."""
    left = skip

    def trace(sql: str) -> None:
        nonlocal left
        left -= wished(words, sql)
        if left < 0:
            die()

    db.set_trace_callback(trace)


def apply(path: str, death: tuple[str, int, str] | None, migration: Migration = LONG) -> None:
    migrate_module.shipped = lambda: [*SHIPPED, migration]
    with closing(connect(parse_target(path), ConnectionSettings("NORMAL"))) as db:
        if death is not None:
            doomed(db, *death[:2])
        migrate(db, path, 1)


def in_batches_of(size: int) -> Migration:
    return structs.replace(LONG, sql=LONG.sql.replace(f") {BATCH_SIZE}\n", f") {size}\n"))


def main(path: str, *once: str) -> None:
    if once:
        apply(path, None, in_batches_of(int(once[0])))
        return
    for death in deaths():
        if death[2] == "before":
            print(forked(partial(apply, path, death)), *death, flush=True)
    print(forked(partial(apply, path, None)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
