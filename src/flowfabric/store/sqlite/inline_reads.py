"""Reads of a few rows, done where they are asked for: handing them to a thread and back takes longer than they do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

from flowfabric.store.port import GetAll, Read, Row, ScanAll
from flowfabric.store.sqlite.errors import TROUBLE, as_engine_error, reading
from flowfabric.store.sqlite.reader import run_reads
from flowfabric.store.sqlite.uri import Target, connect

MOST_ROWS = 128


class _TooMany(Exception):
    pass


class _Few:
    """Takes rows until there are too many."""

    def __init__(self) -> None:
        self._left = MOST_ROWS

    def __call__(self, cursor: sqlite3.Cursor) -> list[Row]:
        rows = cursor.fetchmany(self._left + 1)
        if len(rows) > self._left:
            cursor.close()
            raise _TooMany
        self._left -= len(rows)
        return rows


class InlineReads:
    """Only beside a write-ahead log, where a reader never waits for the writer."""

    def __init__(self, target: Target, settings: dict[str, Any]) -> None:
        self._db = connect(target, read_only=True, **settings)
        self._entry = threading.Lock()
        self._open = True

    def run(self, reads: Sequence[Read]) -> list[list[Row]] | None:
        """None when that is too much, while another thread reads here, and once closed."""
        if sum(map(_asked, reads)) > MOST_ROWS or not self._entry.acquire(blocking=False):
            return None
        try:
            return (
                reading(self._db, lambda db: run_reads(db, reads, _Few())) if self._open else None
            )
        except _TooMany:
            return None
        except TROUBLE as error:
            raise as_engine_error(error) from error
        finally:
            self._entry.release()

    def stop(self) -> None:
        with self._entry:
            self._open = False
            self._db.close()


def _asked(read: Read) -> int:
    """How many places it looks at."""
    match read:
        case GetAll(keys=places) | ScanAll(groups=places):
            return len(places)
    return 1
