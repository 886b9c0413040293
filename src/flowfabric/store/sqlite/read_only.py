"""A SQLite database that is only looked at: not created, not migrated, not written to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from flowfabric.errors import ConfigError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.store.clock import system_clock
from flowfabric.store.port import Loaded, Read, Row
from flowfabric.store.sqlite.change_watcher import ChangeWatch
from flowfabric.store.sqlite.errors import TROUBLE, reading
from flowfabric.store.sqlite.opening import connect_to_look, unreadable
from flowfabric.store.sqlite.reader import dump_tables, events_after, newest_event, run_reads
from flowfabric.store.sqlite.uri import Target
from flowfabric.store.wakeups import Wakeups

T = TypeVar("T")
_SETTINGS: dict[str, Any] = {"synchronous": "FULL", "wal": False}


def existing(target: Target) -> Target:
    """Opening a file that is not there would make one."""
    if not target.in_memory and not Path(target.key).is_file():
        raise ConfigError(f"{target.shown}: no such database file")
    return target


class ReadOnlySqlite:
    """Answers reads from one connection; whatever would change something is refused."""

    label = "sqlite"
    tag = BackendTag.SQLITE
    durability = "not written to"

    def __init__(self, target: Target) -> None:
        self.hub = Wakeups()
        self._target = existing(target)
        self._turn = threading.Lock()
        self._watch: ChangeWatch | None = None
        self._db = self._read(lambda: connect_to_look(target))

    def _read(self, work: Callable[[], T]) -> T:
        """One at a time: there is one connection, and a read may be a transaction of several statements."""
        try:
            with self._turn:
                return work()
        except TROUBLE as error:
            raise unreadable(error, self._target) from error

    async def prepare(self) -> str | None:
        return None

    async def close(self) -> None:
        if self._watch is not None:
            await asyncio.to_thread(self._watch.stop)
        await asyncio.to_thread(
            self._read, self._db.close
        )  # in turn: who was called off may still have a read under way

    async def now_ms(self) -> int:
        return system_clock()

    async def load(self, reads: Sequence[Read]) -> Loaded:
        return Loaded(
            system_clock(),
            await asyncio.to_thread(
                self._read, lambda: reading(self._db, lambda db: run_reads(db, reads))
            ),
        )

    async def longest_writer(self) -> None:
        return None

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await asyncio.to_thread(
            self._read, lambda: reading(self._db, lambda db: dump_tables(db, tables))
        )

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        """Whoever follows an outbox is woken by what others commit."""
        self._begin_watch()
        return await asyncio.to_thread(
            self._read,
            lambda: reading(self._db, lambda db: events_after(db, channel, after, limit)),
        )

    async def last_event(self, channel: str) -> int:
        self._begin_watch()
        return await asyncio.to_thread(self._read, lambda: newest_event(self._db, channel))

    def _begin_watch(self) -> None:
        if self._watch is None and not self._target.in_memory:
            self._watch = self._read(
                lambda: ChangeWatch(self._target, self.hub, self.hub.ring_all_but_timers, _SETTINGS)
            )

    def _refuse(self, *_: Any) -> NoReturn:
        raise Unavailable("this database was opened to be looked at only")

    inside = commit = commit_together = commit_many = sweep = sweeps = commit_and_sweep = (
        next_due
    ) = _refuse
