"""Notices commits of other processes to a database file."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

from flowfabric.store.sqlite.uri import ConnectionSettings, Target, connect
from flowfabric.store.wakeups import Wakeups

log = logging.getLogger("flowfabric.sqlite")

WATCH_INTERVAL_S = 0.05


class ChangeWatcher:
    """Calls `changed` when the file has changed, as long as the hub has waiters."""

    def __init__(
        self,
        target: Target,
        hub: Wakeups,
        changed: Callable[[], None],
        settings: ConnectionSettings,
    ) -> None:
        self._hub, self._changed = hub, changed
        self._end = threading.Event()
        self._db = connect(target, settings, read_only=True)
        self._thread = threading.Thread(
            target=self._run, name="flowfabric-sqlite-watch", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        known = None
        while not self._end.wait(WATCH_INTERVAL_S):
            if not self._hub.waiters:
                known = None
                continue
            try:
                version = self._db.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                log.warning(
                    "changes of other processes cannot be read; waiters poll", exc_info=True
                )
                continue
            if version != known:
                known = version
                self._changed()
        self._db.close()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
