"""Applies numbered `.sql` files once each, in one transaction, and records their checksums."""

from __future__ import annotations

import hashlib
import sqlite3
from importlib.resources import files

from msgspec import Struct

from flowfabric.errors import TransportError, Unavailable
from flowfabric.store.sqlite.opening import check_not_foreign, has_table

_LEDGER = """CREATE TABLE IF NOT EXISTS ff_migration_annotation (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL,
    backward_compatible INTEGER NOT NULL DEFAULT 1, checksum TEXT NOT NULL)"""


class Migration(Struct, frozen=True):
    version: int
    name: str
    sql: str

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


def migrate(db: sqlite3.Connection, shown: str, now_ms: int) -> str | None:
    """Brings the schema up to date; the names of what was applied, or None."""
    wanted = shipped()
    check_not_foreign(db, shown)
    if _applied(db) == {m.version: m.checksum for m in wanted}:
        return None
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_LEDGER)
        known = _applied(db)
        newest = max(known, default=0)
        if newest > wanted[-1].version:
            raise Unavailable(
                f"schema_version: {shown} is at {newest}, this release knows "
                f"{wanted[-1].version}; upgrade flowfabric"
            )
        fresh = [m for m in wanted if m.version not in known]
        for migration in wanted:
            if migration.version in known and known[migration.version] != migration.checksum:
                raise TransportError(
                    "sqlite",
                    f"{shown}: migration {migration.version:04} differs from the one applied",
                    backend_kind="protocol",
                )
        for migration in fresh:
            _apply(db, migration, shown, now_ms)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return ", ".join(f"{m.version:04}_{m.name}" for m in fresh) or None


def _applied(db: sqlite3.Connection) -> dict[int, str]:
    if not has_table(db, "ff_migration_annotation"):
        return {}
    return dict(db.execute("SELECT version, checksum FROM ff_migration_annotation").fetchall())


def _apply(db: sqlite3.Connection, migration: Migration, shown: str, now_ms: int) -> None:
    try:
        for statement in migration.sql.split(";\n"):
            if statement.strip():
                db.execute(statement)
    except sqlite3.Error as error:
        raise TransportError(
            "sqlite",
            f"{shown}: migration {migration.version:04} failed: {error}",
            backend_kind="protocol",
        ) from error
    db.execute(
        "INSERT INTO ff_migration_annotation (version, name, applied_at_ms, checksum) "
        "VALUES (?, ?, ?, ?)",
        (migration.version, migration.name, now_ms, migration.checksum),
    )
