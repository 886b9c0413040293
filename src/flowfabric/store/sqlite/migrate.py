"""Applies numbered `.sql` files once each, in one transaction, and records their checksums.

A file of steps is applied beside traffic instead, see `online_migration`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from itertools import groupby

from msgspec import Struct

from flowfabric.errors import TransportError, Unavailable
from flowfabric.store.migration_steps import Report, no_report, steps_of
from flowfabric.store.sqlite.errors import code_of, is_busy
from flowfabric.store.sqlite.online_migration import Steps, apply_online
from flowfabric.store.sqlite.opening import check_not_foreign, has_table

_LEDGER = """CREATE TABLE IF NOT EXISTS ff_migration_annotation (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL,
    backward_compatible INTEGER NOT NULL DEFAULT 1, checksum TEXT NOT NULL)"""


class Migration(Struct, frozen=True):
    version: int
    name: str
    sql: str

    @property
    def is_online(self) -> bool:
        return bool(steps_of(self.sql))

    @property
    def title(self) -> str:
        return f"{self.version:04}_{self.name}"

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped() -> list[Migration]:
    folder = files("flowfabric.store.sqlite").joinpath("migrations")
    found = [f for f in folder.iterdir() if f.name.endswith(".sql")]
    return [
        Migration(
            int(f.name.partition("_")[0]),
            f.name[:-4].partition("_")[2],
            f.read_text(encoding="utf-8"),
        )
        for f in sorted(found, key=lambda f: f.name)
    ]


def migrate(
    db: sqlite3.Connection, shown: str, now_ms: int, report: Report = no_report
) -> str | None:
    """Brings the schema up to date; the names of what was applied, or None."""
    wanted = shipped()
    check_not_foreign(db, shown)
    if _applied(db) == {m.version: m.checksum for m in wanted}:
        return None
    fresh: list[Migration] = []
    for is_online, several in groupby(wanted, key=lambda m: m.is_online):
        if is_online:
            fresh += [m for m in several if _beside_traffic(db, m, shown, now_ms, report)]
        else:
            fresh += _in_one_transaction(db, list(several), shown, now_ms)
    return ", ".join(m.title for m in fresh) or None


def check_current(db: sqlite3.Connection, shown: str) -> None:
    """Raises for a database with another schema than this release has."""
    check_not_foreign(db, shown)
    missing = _missing(db, shipped(), shown)
    if missing:
        raise Unavailable(
            f"schema_version: {shown} needs {missing[0].title}; run `flowfabric migrate`"
        )


def _in_one_transaction(
    db: sqlite3.Connection, migrations: Sequence[Migration], shown: str, now_ms: int
) -> list[Migration]:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_LEDGER)
        missing = _missing(db, migrations, shown)
        for migration in missing:
            _apply(db, migration, shown)
            _record(db, migration, now_ms)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return missing


def _beside_traffic(
    db: sqlite3.Connection, migration: Migration, shown: str, now_ms: int, report: Report
) -> bool:
    """False when it was applied before."""
    if not _missing(db, [migration], shown):
        return False
    steps = Steps(
        migration.version,
        migration.title,
        shown,
        migration.checksum,
        migration.sql,
        lambda: _record(db, migration, now_ms),
        lambda: not _missing(db, [migration], shown),
    )
    with _explained(migration, shown):
        apply_online(db, steps, report)
    return True


def _missing(
    db: sqlite3.Connection, migrations: Sequence[Migration], shown: str
) -> list[Migration]:
    known, wanted = _applied(db), shipped()
    newest = max(known, default=0)
    if newest > wanted[-1].version:
        raise Unavailable(
            f"schema_version: {shown} is at {newest}, this release knows "
            f"{wanted[-1].version}; upgrade flowfabric"
        )
    for migration in wanted:
        if known.get(migration.version, migration.checksum) != migration.checksum:
            raise TransportError(
                "sqlite",
                f"{shown}: migration {migration.version:04} differs from the one applied",
                backend_kind="protocol",
            )
    return [migration for migration in migrations if migration.version not in known]


def _applied(db: sqlite3.Connection) -> dict[int, str]:
    if not has_table(db, "ff_migration_annotation"):
        return {}
    return dict(db.execute("SELECT version, checksum FROM ff_migration_annotation").fetchall())


def _apply(db: sqlite3.Connection, migration: Migration, shown: str) -> None:
    with _explained(migration, shown):
        for statement in migration.sql.split(";\n"):
            if statement.strip():
                db.execute(statement)


@contextmanager
def _explained(migration: Migration, shown: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if is_busy(code_of(error)):
            raise
        raise TransportError(
            "sqlite",
            f"{shown}: migration {migration.version:04} failed: {error}",
            backend_kind="protocol",
        ) from error


def _record(db: sqlite3.Connection, migration: Migration, now_ms: int) -> None:
    db.execute(
        "INSERT INTO ff_migration_annotation (version, name, applied_at_ms, checksum) "
        "VALUES (?, ?, ?, ?)",
        (migration.version, migration.name, now_ms, migration.checksum),
    )
