"""Parses a path, a URI or `:memory:`, and opens connections to it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.store.sql.sqlite_codec import new_uuid_bytes

MINIMUM_SQLITE = (3, 35, 0)
BUSY_TIMEOUT_MS = 5_000
SHARED_MEMORY = "file::memory:?cache=shared"
MAX_TARGET_BYTES = 4_096


class ConnectionSettings(Struct, frozen=True):
    synchronous: str = "FULL"
    wal: bool = True


class Target(Struct, frozen=True):
    """`uri` is passed to SQLite; `key` identifies the database within this process."""

    uri: str
    key: str
    in_memory: bool
    shown: str


def parse_target(text: str) -> Target:
    if not isinstance(text, str) or not text or len(text) > MAX_TARGET_BYTES or "\0" in text:
        raise ConfigError(
            f"sqlite target: expected a file path, a file: URI or :memory:, got {text!r:.80}"
        )
    if text == ":memory:":
        return Target(SHARED_MEMORY, SHARED_MEMORY, True, text)
    if is_memory(text):
        plain = text.partition("#")[0]
        uri = (
            plain
            if "cache=shared" in _query(text)
            else plain + ("&" if "?" in plain else "?") + "cache=shared"
        )
        return Target(uri, uri, True, text)
    if text.startswith("file:"):
        return Target(text, _canonical(unquote(urlsplit(text).path)), False, text)
    return Target(f"file:{quote(os.path.abspath(text))}", _canonical(text), False, text)


def is_memory(text: str) -> bool:
    """`:memory:`, `file::memory:...`, or a file: URI with the query parameter mode=memory."""
    if text == ":memory:" or text.startswith("file::memory:"):
        return True
    return text.startswith("file:") and "mode=memory" in _query(text)


def _query(text: str) -> list[str]:
    return text.partition("?")[2].partition("#")[0].split("&")


def _canonical(path: str) -> str:
    found = Path(path)
    return str(found.resolve()) if found.exists() else str(Path(os.path.abspath(path)))


def check_version() -> None:
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        wanted = ".".join(map(str, MINIMUM_SQLITE))
        raise ConfigError(
            f"SQLite {sqlite3.sqlite_version} is too old: {wanted} or newer is needed (RETURNING)"
        )


def create_private(target: Target) -> None:
    """Creates a new file with mode 600, since it contains the secret that signs tokens.

    SQLite creates the files beside it with the same mode.
    """
    if target.in_memory or _has_mode(target.uri):
        return
    with suppress(OSError):  # the file exists, or opening it reports why it cannot be created
        os.close(os.open(target.key, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _has_mode(uri: str) -> bool:
    return any(part.startswith("mode=") for part in _query(uri))


def file_identity(target: Target) -> Callable[[], tuple[int, int] | None]:
    """Returns device and inode of the file under the path at each call; None without a file."""

    def identity() -> tuple[int, int] | None:
        try:
            found = os.stat(target.key)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    return (lambda: None) if target.in_memory else identity


def connect(
    target: Target, settings: ConnectionSettings, *, read_only: bool = False
) -> sqlite3.Connection:
    """A connection with FlowFabric's settings; the caller begins and ends its transactions."""
    uri = target.uri
    if read_only and not target.in_memory and not _has_mode(uri):
        uri += ("&" if "?" in uri else "?") + "mode=rw"  # not rwc: a reader creates no file
    db = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        cached_statements=1024,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_MS / 1000,
    )
    pragmas = [f"busy_timeout = {BUSY_TIMEOUT_MS}", "temp_store = MEMORY", "foreign_keys = ON"]
    if not target.in_memory:
        pragmas.append("mmap_size = 268435456")
        if settings.wal and not read_only:
            pragmas += ["journal_mode = WAL", "wal_autocheckpoint = 4000", "cache_size = -8192"]
    pragmas.append(f"synchronous = {settings.synchronous}")
    if read_only:
        pragmas.append("query_only = ON")
    else:
        db.create_function("new_uuid", 0, new_uuid_bytes)
        db.create_function("uuid_blob", 1, bytes.fromhex, deterministic=True)
    try:
        for pragma in pragmas:
            db.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        db.close()
        raise
    return db
