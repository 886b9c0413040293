"""A SQLite database that is only looked at: not created, not migrated, not written to."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from flowfabric.errors import ConfigError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.store.clock import system_clock
from flowfabric.store.hub import Hub
from flowfabric.store.port import Loaded, Read, Row
from flowfabric.store.sqlite.reader import LAST_EVENT, dump_tables, read_events, run_reads
from flowfabric.store.sqlite.target import Target, connect

WATCH_INTERVAL_S = 0.1
T = TypeVar("T")


def existing(target: Target) -> Target:
    """Opening a file that is not there would make one."""
    if not target.in_memory and not Path(target.key).is_file():
        raise ConfigError(f"{target.shown}: no such database file")
    return target


class SqliteLook:
    """Answers reads from one connection; whatever would change something is refused."""

    label = "sqlite"
    tag = BackendTag.SQLITE
    durability = "not written to"

    def __init__(self, target: Target) -> None:
        self.hub = Hub()
        self._shown = existing(target).shown
        self._turn = threading.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._db = self._read(lambda: connect(target, synchronous="FULL", wal=False, read_only=True))

    def _read(self, work: Callable[[], T]) -> T:
        try:
            with self._turn:
                return work()
        except sqlite3.Error as error:
            raise ConfigError(f"{self._shown}: not a FlowFabric database ({error})") from error

    async def prepare(self) -> str | None:
        return None

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._db.close()

    async def now_ms(self) -> int:
        return system_clock()

    async def load(self, reads: Sequence[Read]) -> Loaded:
        return Loaded(system_clock(), await asyncio.to_thread(self._read, lambda: run_reads(self._db, reads)))

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await asyncio.to_thread(self._read, lambda: dump_tables(self._db, tables))

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        """Whoever follows an outbox is woken by what others commit."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        return await asyncio.to_thread(self._read, lambda: read_events(self._db, channel, after, limit))

    def last_event(self, channel: str) -> Awaitable[int]:
        def last() -> int:
            number: int = self._db.execute(LAST_EVENT, (channel,)).fetchone()[0]
            return number

        return asyncio.ensure_future(asyncio.to_thread(self._read, last))

    async def _watch(self) -> None:
        seen = None
        while True:
            version = self._read(lambda: self._db.execute("PRAGMA data_version").fetchone()[0])
            if version != seen:
                seen = version
                self.hub.ring_all()
            await asyncio.sleep(WATCH_INTERVAL_S)

    def _refuse(self, *_: Any) -> NoReturn:
        raise Unavailable("this database was opened to be looked at only")

    inside = commit = commit_together = commit_many = sweep = sweeps = next_due = _refuse
