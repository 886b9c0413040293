"""Noticing that somebody else committed to a database file."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from flowfabric.store.sqlite.uri import Target, connect
from flowfabric.store.wakeups import Wakeups

log = logging.getLogger("flowfabric.sqlite")

WATCH_INTERVAL_S = 0.05


class ChangeWatch:
    """Says so when the file has changed, while anybody waits at the hub."""

    def __init__(
        self, target: Target, hub: Wakeups, changed: Callable[[], None], settings: dict[str, Any]
    ) -> None:
        self._hub, self._changed = hub, changed
        self._end = threading.Event()
        self._db = connect(target, read_only=True, **settings)
        self._thread = threading.Thread(
            target=self._run, name="flowfabric-sqlite-watch", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        seen = None
        while not self._end.wait(WATCH_INTERVAL_S):
            if not self._hub.waiters:
                seen = None
                continue
            try:
                version = self._db.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                log.warning("cannot see what other processes write; polling goes on", exc_info=True)
                continue
            if version != seen:
                seen = version
                self._changed()
        self._db.close()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
