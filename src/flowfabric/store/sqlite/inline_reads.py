"""Small reads on the calling thread: a switch to another thread takes longer than they do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence

from flowfabric.store.port import Count, Find, GetAll, Read, Row, ScanAll, Tally
from flowfabric.store.sqlite.errors import SQLITE_ERRORS, as_engine_error, read_tolerantly
from flowfabric.store.sqlite.reader import run_reads
from flowfabric.store.sqlite.uri import ConnectionSettings, Target, connect

MAX_ROWS = 128


class _TooManyRows(Exception):
    """The read belongs on a reader thread."""


class _Limited:
    """Fetches rows until there are too many."""

    def __init__(self) -> None:
        self._left = MAX_ROWS

    def __call__(self, cursor: sqlite3.Cursor) -> list[Row]:
        rows = cursor.fetchmany(self._left + 1)
        if len(rows) > self._left:
            cursor.close()
            raise _TooManyRows
        self._left -= len(rows)
        return rows


class InlineReads:
    """Needs a write-ahead log, with which a reader never waits for the writer."""

    def __init__(self, target: Target, settings: ConnectionSettings) -> None:
        self.db = connect(target, settings, read_only=True)
        self.lock = threading.Lock()
        """Held while a thread reads here."""
        self._open = True

    def run(self, reads: Sequence[Read]) -> list[list[Row]] | None:
        """None when there are too many rows, while another thread reads, and once closed."""
        if sum(map(_lookups, reads)) > MAX_ROWS or not self.lock.acquire(blocking=False):
            return None
        try:
            if not self._open:
                return None
            return read_tolerantly(self.db, lambda db: run_reads(db, reads, _Limited()))
        except _TooManyRows:
            return None
        except SQLITE_ERRORS as error:
            raise as_engine_error(error) from error
        finally:
            self.lock.release()

    def stop(self) -> None:
        with self.lock:
            self._open = False
            self.db.close()


def _lookups(read: Read) -> int:
    """How many rows are looked up at least, or may be examined for the few that are returned."""
    match read:
        case Count() | Find(examine=None):
            return MAX_ROWS + 1
        case Find(examine=int(examined)) | Tally(limit=examined):
            return examined
        case GetAll(keys=keys):
            return len(keys)
        case ScanAll(groups=groups):
            return len(groups)
    return 1
