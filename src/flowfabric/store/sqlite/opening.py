"""Opening a database for reading, and error messages for one that cannot be opened or read."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from flowfabric.errors import (
    ConfigError,
    Corruption,
    EngineError,
    FlowFabricError,
    NoDatabase,
    TransportError,
)
from flowfabric.store.sqlite.errors import as_engine_error, code_of, is_bad_text, is_busy
from flowfabric.store.sqlite.uri import ConnectionSettings, Target, connect
from flowfabric.store.transfer import MARK, unfinished

_READONLY, _CORRUPT, _CANTOPEN, _NOTADB = 8, 11, 14, 26
READ_SETTINGS = ConnectionSettings(wal=False)


def check_not_foreign(db: sqlite3.Connection, shown: str) -> None:
    """The Rust FlowFabric has tables of the same names with other columns."""
    if has_table(db, "_sqlx_migrations"):
        raise ConfigError(
            f"{shown}: a database of the Rust FlowFabric (it has a table _sqlx_migrations); its "
            "tables have other columns; name another file, or import it: "
            "flowfabric import ORIGINAL URL"
        )


def has_table(db: sqlite3.Connection, name: str) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return db.execute(sql, (name,)).fetchone() is not None


def check_whole(db: sqlite3.Connection, shown: str) -> None:
    """A database that is being copied has only some of the rows."""
    if not has_table(db, MARK):
        return
    for (source,) in db.execute(f"SELECT source FROM {MARK}").fetchall():
        raise unfinished(shown, source, "the file")


def cannot_open(error: Exception, what: str, backend_kind: str = "transport") -> EngineError:
    """The error for a database that cannot be opened for writing."""
    code = code_of(error) & 0xFF
    if code == _CORRUPT or is_bad_text(error):
        return Corruption(f"{what}: the database is damaged ({error})")
    return TransportError(
        "sqlite", f"{what}: {error}", backend_kind="protocol" if code == _NOTADB else backend_kind
    )


def connect_read_only(target: Target) -> sqlite3.Connection:
    """Reading a database in WAL mode creates files beside it.

    Where they cannot be created, a database without a log is opened as immutable.
    """
    try:
        return _connected(target)
    except sqlite3.OperationalError as error:
        if (
            code_of(error) & 0xFF not in (_READONLY, _CANTOPEN)
            or target.in_memory
            or _has_log(target)
        ):
            raise
    immutable = Target(
        f"{target.uri}{'&' if '?' in target.uri else '?'}mode=ro&immutable=1",
        target.key,
        False,
        target.shown,
    )
    return _connected(immutable)


def _connected(target: Target) -> sqlite3.Connection:
    db = connect(target, READ_SETTINGS, read_only=True)
    try:
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _has_log(target: Target) -> bool:
    log = Path(f"{target.key}-wal")
    with suppress(OSError):
        return log.stat().st_size > 0
    return False


def cannot_read(error: Exception, target: Target) -> FlowFabricError:
    """The error for a database that cannot be read."""
    code = code_of(error) & 0xFF
    if is_busy(code) and isinstance(error, sqlite3.Error):
        return as_engine_error(error)
    if code == _CANTOPEN and not target.in_memory and not os.access(target.key, os.R_OK):
        return NoDatabase(f"{target.shown}: this user may not read the file")
    if code in (_READONLY, _CANTOPEN):
        return NoDatabase(
            f"{target.shown}: cannot be read where it is ({error}): SQLite needs to write files "
            "beside it, and its folder does not allow that; copy it, with its -wal file if there "
            "is one, to a folder that can be written to"
        )
    if code == _CORRUPT or is_bad_text(error):
        return Corruption(f"{target.shown}: the database is damaged ({error})")
    if code == _NOTADB:
        return NoDatabase(f"{target.shown}: not a FlowFabric database ({error})")
    with suppress(sqlite3.Error, UnicodeDecodeError):
        db = connect_read_only(target)
        try:
            check_not_foreign(db, target.shown)
        except ConfigError as foreign:
            return foreign
        finally:
            db.close()
    return NoDatabase(f"{target.shown}: not a FlowFabric database ({error})")
