"""A SQLite database opened for reading: it is not created, migrated or written to."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from flowfabric.errors import NoDatabase, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.store.clock import system_clock
from flowfabric.store.port import Loaded, Read, Row
from flowfabric.store.sqlite.change_watcher import ChangeWatcher
from flowfabric.store.sqlite.errors import SQLITE_ERRORS, read_tolerantly
from flowfabric.store.sqlite.opening import (
    READ_SETTINGS,
    cannot_read,
    check_whole,
    connect_read_only,
)
from flowfabric.store.sqlite.reader import dump_tables, events_after, newest_event, run_reads
from flowfabric.store.sqlite.uri import Target
from flowfabric.store.wakeups import Wakeups

T = TypeVar("T")


def require_file(target: Target) -> Target:
    """SQLite would create a missing file."""
    if not target.in_memory and not Path(target.key).is_file():
        raise NoDatabase(f"{target.shown}: no such database file")
    return target


def _connected(target: Target) -> sqlite3.Connection:
    db = connect_read_only(target)
    try:
        check_whole(db, target.shown)
    except BaseException:
        db.close()
        raise
    return db


class ReadOnlySqlite:
    """Answers reads from one connection and refuses every change."""

    label = "sqlite"
    tag = BackendTag.SQLITE
    durability = "not written to"

    def __init__(self, target: Target) -> None:
        self.hub = Wakeups()
        self._target = require_file(target)
        self._lock = threading.Lock()
        self._watcher: ChangeWatcher | None = None
        self._db = self._guarded(lambda: _connected(target))

    def _guarded(self, work: Callable[[], T]) -> T:
        """One call at a time: a read may be a transaction of several statements."""
        try:
            with self._lock:
                return work()
        except SQLITE_ERRORS as error:
            raise cannot_read(error, self._target) from error

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._guarded, lambda: read_tolerantly(self._db, work))

    async def prepare(self) -> str | None:
        return None

    async def close(self) -> None:
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.stop)
        # Guarded: the read of a cancelled caller may still be running.
        await asyncio.to_thread(self._guarded, self._db.close)

    async def now_ms(self) -> int:
        return system_clock()

    async def load(self, reads: Sequence[Read]) -> Loaded:
        return Loaded(system_clock(), await self._read(lambda db: run_reads(db, reads)))

    async def maintain(self) -> int:
        return 0

    async def longest_writer(self) -> None:
        return None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await self._read(lambda db: dump_tables(db, tables))

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        """Starts to watch the file, so that waiters on an outbox wake up."""
        self._watch()
        return await self._read(lambda db: events_after(db, channel, after, limit))

    async def last_event(self, channel: str) -> int:
        self._watch()
        return await self._read(lambda db: newest_event(db, channel))

    def _watch(self) -> None:
        if self._watcher is None and not self._target.in_memory:
            changed = self.hub.ring_all_but_timers
            self._watcher = self._guarded(
                lambda: ChangeWatcher(self._target, self.hub, changed, READ_SETTINGS)
            )

    def _refuse(self, *_: object) -> NoReturn:
        raise Unavailable("this database was opened read-only")

    inside = commit = commit_together = commit_many = sweep = sweeps = commit_and_sweep = (
        next_due
    ) = _refuse
