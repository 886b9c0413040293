"""Applies a migration of steps beside traffic.

Each batch is a write transaction that begins with the saved position, so processes that
migrate at once take turns. An index is built in one transaction: SQLite has no other way.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from flowfabric.errors import TransportError
from flowfabric.store.migration_steps import (
    LONGEST_REST_S,
    REST,
    Position,
    Progress,
    Report,
    Step,
    steps_of,
)
from flowfabric.store.sqlite.errors import retry_while_busy

PROGRESS = """CREATE TABLE IF NOT EXISTS ff_migration_progress (
    version INTEGER PRIMARY KEY, step INTEGER NOT NULL, after_key TEXT NOT NULL,
    changed INTEGER NOT NULL, checksum TEXT NOT NULL)"""
_READ = "SELECT step, after_key, changed, checksum FROM ff_migration_progress WHERE version = ?"
_WRITE = (
    "INSERT OR REPLACE INTO ff_migration_progress (version, step, after_key, changed, checksum) "
    "VALUES (?, ?, ?, ?, ?)"
)
_FORGET = "DELETE FROM ff_migration_progress WHERE version = ?"


class Steps(Struct, frozen=True):
    """A migration of steps; how its end is recorded, and whether another process did so."""

    version: int
    title: str
    shown: str
    checksum: str
    sql: str
    record: Callable[[], None]
    is_recorded: Callable[[], bool]


def apply_online(db: sqlite3.Connection, migration: Steps, report: Report) -> None:
    """Continues where the last process stopped."""
    db.execute(PROGRESS)
    steps = steps_of(migration.sql)
    while True:
        began = time.monotonic()
        with _writing(db):
            if migration.is_recorded():
                return
            at = _saved(db, migration)
            if at.done == len(steps):
                migration.record()
                db.execute(_FORGET, (migration.version,))
                return
            position = _advanced(db, steps[at.done], at)
            values = (position.done, position.after, position.rows, migration.checksum)
            db.execute(_WRITE, (migration.version, *values))
        begun = min(position.done + bool(position.after), len(steps))
        report(Progress(migration.title, begun, len(steps), position.rows))
        time.sleep(min((time.monotonic() - began) * REST, LONGEST_REST_S))


@contextmanager
def _writing(db: sqlite3.Connection) -> Iterator[None]:
    retry_while_busy(lambda: db.execute("BEGIN IMMEDIATE"))
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _saved(db: sqlite3.Connection, migration: Steps) -> Position:
    row = db.execute(_READ, (migration.version,)).fetchone()
    if row is None:
        return Position()
    if row[3] != migration.checksum:
        raise TransportError(
            "sqlite",
            f"{migration.shown}: migration {migration.title} differs from the one that was begun",
            backend_kind="protocol",
        )
    return Position(*row[:3])


def _advanced(db: sqlite3.Connection, step: Step, at: Position) -> Position:
    """The position after the step, or after its next batch."""
    if step.kind != "batches":
        _run_all(db, step.whole)
        return at.next_step()
    found = db.execute(step.last_of_batch(_literal(step.keys), at.after, step.size)).fetchone()
    if found is None:
        return at.next_step()
    return at.moved(found[0], db.execute(step.batch(at.after, found[0])).rowcount)


def _run_all(db: sqlite3.Connection, sql: str) -> None:
    for statement in sql.split(";\n"):
        if statement.strip():
            db.execute(statement)


def _literal(keys: tuple[str, ...]) -> str:
    parts = " || ', ' || ".join(f"quote({key})" for key in keys)
    return f"'(' || {parts} || ')'"
