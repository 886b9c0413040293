"""Lanes as rows, plain connections and injected errors for the tests of the SQLite store."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from flowfabric.plan import Arg, Form, Insert, Plan
from flowfabric.store.sqlite.store import SqliteStore

ADD_LANE = Form(
    "t_add_lane",
    Insert(
        "ff_lane_registry",
        {"lane_id": Arg("lane"), "registered_at_ms": Arg("at"), "registered_by": Arg("by")},
    ),
)


def lane(name: str, by: str = "test", at: int = 1) -> Plan:
    return ADD_LANE(lane=name, at=at, by=by)


async def lanes(store: SqliteStore) -> list[str]:
    return sorted(row[0] for row in (await store.dump(["ff_lane_registry"]))["ff_lane_registry"])


async def pragma(store: SqliteStore, name: str) -> Any:
    return (await store.execute_for_test(f"PRAGMA {name}"))[0][0]


def plain(path: Path | str) -> sqlite3.Connection:
    """A connection of another program, usable from any thread."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)


class FaultyCursor:
    """A cursor that raises instead of running a statement, a number of times."""

    def __init__(
        self, real: sqlite3.Cursor, statement: str, error: sqlite3.Error, times: int
    ) -> None:
        self._real, self._statement, self.left = real, statement, times
        self.error: BaseException = error
        self.raised = 0

    def execute(self, sql: str, *params: Any) -> Any:
        if self.left and sql.startswith(self._statement):
            self.left -= 1
            self.raised += 1
            raise self.error
        return self._real.execute(sql, *params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def failing(store: SqliteStore, statement: str, code: int, times: int = 1) -> FaultyCursor:
    """The cursor that raises from now on, until it has raised so often."""
    cursors: list[FaultyCursor] = []

    def wrap(real: sqlite3.Cursor) -> Any:
        cursors.append(FaultyCursor(real, statement, coded(code), times))
        return cursors[0]

    store.writer.group_commit.replace_cursor(wrap)
    return cursors[0]


def coded(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind(f"injected {code}")
    error.sqlite_errorcode = code
    return error
