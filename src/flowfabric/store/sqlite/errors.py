"""SQLite's result codes as FlowFabric errors, and which of them are retried."""

from __future__ import annotations

import codecs
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from flowfabric.errors import (
    Contention,
    ContentionKind,
    Corruption,
    EngineError,
    ResourceExhausted,
    TransportError,
    ValidationError,
    ValidationKind,
)

MAX_TRIES = 3
FIRST_PAUSE_MS = 5
OPEN_TIMEOUT_S = 5.0
FILE_REPLACED = (
    "the database file was deleted or replaced while it was open; "
    "restart the process on the file that is wanted"
)
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises; UnicodeDecodeError where its own message contains a damaged name."""
T = TypeVar("T")
_MARK_UNDECODABLE = "flowfabric.marked"
codecs.register_error(_MARK_UNDECODABLE, lambda error: ("\x1a", getattr(error, "end", 0)))
_BUSY, _LOCKED, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _CONSTRAINT, _NOTADB = (
    5,
    6,
    10,
    11,
    13,
    14,
    19,
    26,
)


def code_of(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0)


def is_busy(code: int) -> bool:
    """The BUSY and LOCKED families; their extended codes share the low byte."""
    return code & 0xFF in (_BUSY, _LOCKED)


def is_doubtful(error: BaseException) -> bool:
    """The disk failed: what was written is unknown, so the writer must stop."""
    return code_of(error) & 0xFF == _IOERR


def concerns_the_database(error: BaseException) -> bool:
    """Busy, full, unreadable or corrupt: running the plans one by one would not help."""
    return isinstance(error, sqlite3.Error) and code_of(error) & 0xFF in (
        _BUSY,
        _LOCKED,
        _IOERR,
        _CORRUPT,
        _FULL,
        _CANTOPEN,
        _NOTADB,
    )


def read_tolerantly(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Runs a read, again with undecodable texts marked if one of them is not UTF-8.

    The mark is not valid JSON, so a decoder recognises a damaged value.
    """
    try:
        return work(db)
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if not is_bad_text(error):
            raise
    with tolerant(db):
        return work(db)


@contextmanager
def tolerant(db: sqlite3.Connection) -> Iterator[None]:
    """Decodes every text in Python, which is slower, and marks what is not UTF-8."""
    db.text_factory = lambda raw: raw.decode(errors=_MARK_UNDECODABLE)
    try:
        yield
    finally:
        db.text_factory = str


def is_bad_text(error: BaseException) -> bool:
    return isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error)


def retry_while_busy(work: Callable[[], T]) -> T:
    """Opens a database that another process is creating.

    SQLite does not apply the busy timeout to a change of the journal mode.
    """
    until = time.monotonic() + OPEN_TIMEOUT_S
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if not is_busy(code_of(error)) or time.monotonic() > until:
                raise
            time.sleep(FIRST_PAUSE_MS / 1000)


def as_engine_error(error: sqlite3.Error | UnicodeDecodeError) -> EngineError:
    code = code_of(error) & 0xFF
    if is_bad_text(error):
        return Corruption(f"sqlite: a text of the database is not UTF-8 ({error})")
    if is_busy(code):
        return Contention(ContentionKind.RETRY_EXHAUSTED)
    if code in (_CORRUPT, _NOTADB):
        return ValidationError(ValidationKind.CORRUPTION, f"sqlite: database: {error}")
    if code == _CONSTRAINT:
        return ValidationError(ValidationKind.CORRUPTION, f"sqlite: constraint: {error}")
    if code == _FULL:
        return ResourceExhausted("sqlite disk", 0)
    kind = "protocol" if code == _CANTOPEN else "transport"
    return TransportError("sqlite", str(error), backend_kind=kind)


def stopped(why: str) -> TransportError:
    return TransportError("sqlite", f"writing stopped: {why}", backend_kind="other")
