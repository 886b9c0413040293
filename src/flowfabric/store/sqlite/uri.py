"""What a path, a URI or `:memory:` means, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.store.sql.sqlite_plan import new_uuid_bytes

MINIMUM_SQLITE = (3, 35, 0)
BUSY_TIMEOUT_MS = 5_000
SHARED_MEMORY = "file::memory:?cache=shared"
MAX_TARGET_BYTES = 4_096


class Target(Struct, frozen=True):
    """`uri` is what SQLite is given; `key` names the database within this process."""

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
    """`:memory:`, `file::memory:...`, or a file: URI one of whose query parameters is exactly mode=memory."""
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
    """A new file is for its owner only: it holds the secret that signs tokens. SQLite gives the log beside it the same mode."""
    if target.in_memory or any(part.startswith("mode=") for part in _query(target.uri)):
        return
    with suppress(OSError):  # it is there, or opening it says why it cannot be
        os.close(os.open(target.key, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def place_of(target: Target) -> Callable[[], tuple[int, int] | None]:
    """Which file is found under the path, asked again and again: device and inode, or None when there is none."""

    def found() -> tuple[int, int] | None:
        try:
            there = os.stat(target.key)
        except OSError:
            return None
        return there.st_dev, there.st_ino

    return (lambda: None) if target.in_memory else found


def connect(
    target: Target, *, synchronous: str, wal: bool, read_only: bool = False
) -> sqlite3.Connection:
    """A connection with our settings; the caller owns its transactions."""
    uri = target.uri
    if (
        read_only
        and not target.in_memory
        and not any(part.startswith("mode=") for part in _query(uri))
    ):
        uri += ("&" if "?" in uri else "?") + "mode=rw"  # and not rwc: a reader creates no file
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
        if wal and not read_only:
            pragmas += ["journal_mode = WAL", "wal_autocheckpoint = 4000", "cache_size = -8192"]
    pragmas.append(f"synchronous = {synchronous}")
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
