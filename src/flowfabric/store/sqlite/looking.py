"""A SQLite database that is only looked at: not created, not migrated, not written to."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from flowfabric.errors import ConfigError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.store.clock import system_clock
from flowfabric.store.hub import Hub
from flowfabric.store.port import Loaded, Read, Row
from flowfabric.store.sqlite.reader import dump_tables, run_reads
from flowfabric.store.sqlite.target import Target, connect

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
        self._db = self._read(lambda: connect(target, synchronous="FULL", wal=False, read_only=True))

    def _read(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            raise ConfigError(f"{self._shown}: not a FlowFabric database ({error})") from error

    async def prepare(self) -> str | None:
        return None

    async def close(self) -> None:
        self._db.close()

    async def now_ms(self) -> int:
        return system_clock()

    async def load(self, reads: Sequence[Read]) -> Loaded:
        return Loaded(system_clock(), await asyncio.to_thread(self._read, lambda: run_reads(self._db, reads)))

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await asyncio.to_thread(self._read, lambda: dump_tables(self._db, tables))

    def _refuse(self, *_: Any) -> NoReturn:
        raise Unavailable("this database was opened to be looked at only")

    inside = commit = commit_together = commit_many = sweep = sweeps = read_events = last_event = next_due = _refuse
