"""One side of a copy in a SQLite file, which no other process has open meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from flowfabric.errors import ConfigError, EngineError
from flowfabric.store.clock import system_clock
from flowfabric.store.port import Read, Row
from flowfabric.store.schema import TABLES, Table
from flowfabric.store.sql.sqlite_codec import ENCODERS
from flowfabric.store.sqlite.errors import SQLITE_ERRORS, code_of, is_busy
from flowfabric.store.sqlite.migrate import check_current, migrate
from flowfabric.store.sqlite.opening import cannot_open, has_table
from flowfabric.store.sqlite.read_only import require_file
from flowfabric.store.sqlite.reader import decode_rows, run_reads
from flowfabric.store.sqlite.uri import Target, create_private
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

LOCK_TIMEOUT_S = 2.0


class SqliteSide:
    """Holds the file's exclusive lock until it is closed: the operating system ends it with the
    process.
    """

    def __init__(self, target: Target, *, is_new: bool) -> None:
        if target.in_memory:
            raise ConfigError(f"{target.shown}: expected a file; memory ends with its process")
        self.shown = f"sqlite:///{Path(target.key).absolute()}"
        if is_new:
            create_private(target)
        else:
            require_file(target)
        try:
            self._db = _exclusive(target)
            try:
                if is_new:
                    migrate(self._db, target.shown, system_clock())
                else:
                    check_current(self._db, target.shown)
            except BaseException:
                self._db.close()
                raise
        except SQLITE_ERRORS as error:
            raise _refused(error, target) from error

    async def now_ms(self) -> int:
        return system_clock()

    async def load(self, reads: Sequence[Read]) -> list[list[Row]]:
        return run_reads(self._db, reads)

    async def loops_holder(self) -> str | None:
        """Loops have the file open, which the exclusive lock excludes."""
        return None

    async def count(self, table: Table) -> int:
        return int(self._db.execute(count_sql(table)).fetchone()[0])

    async def pages(self, table: Table, after: Row | None) -> AsyncIterator[list[Row]]:
        key = [] if after is None else _encoded(table, table.key, after)
        cursor = self._db.execute(page_sql(table, ["?"] * len(key)), key)
        pages = Pages(table)
        while rows := cursor.fetchmany(FETCH_ROWS):
            page = pages.add(decode_rows(table.name, rows))
            if page is not None:
                yield page
        if rest := pages.rest():
            yield rest

    async def last_key(self, table: Table) -> Row | None:
        rows = self._db.execute(last_key_sql(table)).fetchall()
        return next(iter(decode_rows(table.name, rows, table.key)), None)

    async def numbers(self) -> dict[str, int]:
        drawn = dict(self._db.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        return {table.name: int(drawn.get(table.name, 0)) for table in NUMBERED}

    async def unfinished_source(self) -> str | None:
        if not has_table(self._db, MARK):
            return None
        found = self._db.execute(f"SELECT source FROM {MARK}").fetchone()
        return None if found is None else str(found[0])

    async def begin(self, source: str) -> None:
        with _Transaction(self._db):
            self._db.execute(MARK_DDL)
            self._db.execute(f"INSERT INTO {MARK} (source) VALUES (?)", (source,))

    async def behind(self, table: Table) -> Row | None:
        return await self.last_key(table)

    async def write(self, table: Table, rows: Sequence[Row]) -> int:
        marks = ", ".join("?" * len(table.names))
        sql = f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({marks})"
        with _Transaction(self._db):
            self._db.executemany(sql, [_encoded(table, table.names, row) for row in rows])
        return len(rows)

    async def finish(self, numbers: Mapping[str, int]) -> None:
        with _Transaction(self._db):
            for name, number in numbers.items():
                assert name in TABLES
                self._db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                self._db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))

    async def end(self) -> None:
        self._db.execute(f"DROP TABLE {MARK}")

    async def close(self) -> None:
        self._db.close()


class _Transaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _exclusive(target: Target) -> sqlite3.Connection:
    """Locks before the first access: afterwards SQLite would notice only active transactions."""
    db = sqlite3.connect(target.uri, uri=True, isolation_level=None, timeout=LOCK_TIMEOUT_S)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        db.execute("PRAGMA journal_mode = WAL").fetchall()
        db.execute("PRAGMA synchronous = FULL").fetchall()
        db.execute("BEGIN IMMEDIATE")
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _refused(error: sqlite3.Error | UnicodeDecodeError, target: Target) -> EngineError:
    if is_busy(code_of(error)):
        return cannot_open(
            error,
            f"{target.shown}: another process has the database open; "
            "stop servers, workers and other programs that use it",
        )
    return cannot_open(error, f"cannot open {target.shown}")


def _encoded(table: Table, columns: Sequence[str], row: Row) -> list[object]:
    encoders = (ENCODERS.get(table.kinds[column]) for column in columns)
    return [
        value if encode is None or value is None else encode(value)
        for encode, value in zip(encoders, row, strict=True)
    ]
