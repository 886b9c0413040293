"""Rows for tests that look at files rather than at meaning."""

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
    """A connection of somebody else, usable from any thread."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)


class FaultyCursor:
    """A cursor that raises instead of running the statements named, as often as told."""

    def __init__(
        self, real: sqlite3.Cursor, statement: str, error: sqlite3.Error, times: int
    ) -> None:
        self._real, self._statement, self._error, self.left = real, statement, error, times
        self.raised = 0

    def execute(self, sql: str, *params: Any) -> Any:
        if self.left and sql.startswith(self._statement):
            self.left -= 1
            self.raised += 1
            raise self._error
        return self._real.execute(sql, *params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def failing(store: SqliteStore, statement: str, code: int, times: int = 1) -> FaultyCursor:
    writer = store._writer
    cursor = FaultyCursor(writer.write._cursor, statement, coded(code), times)
    writer.write._cursor = cursor  # type: ignore[assignment]
    return cursor


def coded(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind(f"injected {code}")
    error.sqlite_errorcode = code
    return error
