"""One time for all processes of a database.

While the wall clock is behind the latest time returned, that time is stored in the database.
"""

from __future__ import annotations

import sqlite3

from flowfabric.store.clock import Ratchet

_READ = "SELECT latest_ms FROM ff_clock"
_STORE = (
    "INSERT INTO ff_clock (id, latest_ms) VALUES (1, ?) "
    "ON CONFLICT (id) DO UPDATE SET latest_ms = excluded.latest_ms"
)
_DROP = "DELETE FROM ff_clock"


class SharedClock:
    """Used inside a write transaction, so one process at a time changes the stored time."""

    def __init__(self, cursor: sqlite3.Cursor, clock: Ratchet) -> None:
        self._cursor, self._clock = cursor, clock
        catch_up(cursor, clock)

    def now_ms(self) -> int:
        is_stored = catch_up(self._cursor, self._clock)
        now = self._clock()
        if self._clock.is_ahead:
            self._cursor.execute(_STORE, (now,))
        elif is_stored:
            self._cursor.execute(_DROP)
        return now


def catch_up(cursor: sqlite3.Cursor, clock: Ratchet) -> bool:
    """Raises the clock to the stored time; whether there is one."""
    found = cursor.execute(_READ).fetchone()
    if found is not None:
        clock.raise_to(found[0])
    return found is not None
