"""SQLite's result codes as errors of ours, and which of them are worth another try."""

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
OPEN_PATIENCE_S = 5.0
GONE = "the database file was deleted or replaced while it was open; restart the process on the file that is wanted"
TROUBLE = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises: the second where its own message holds a damaged name."""
T = TypeVar("T")
_MARKED = "flowfabric.marked"
codecs.register_error(_MARKED, lambda error: ("\x1a", getattr(error, "end", 0)))
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
    """The disk answered badly: what was written is not known, so the writer must not go on."""
    return code_of(error) & 0xFF == _IOERR


def concerns_the_database(error: BaseException) -> bool:
    """Not the fault of one plan: busy, full, unreadable, corrupt. Trying the plans one by one would not help."""
    return isinstance(error, sqlite3.Error) and code_of(error) & 0xFF in (
        _BUSY,
        _LOCKED,
        _IOERR,
        _CORRUPT,
        _FULL,
        _CANTOPEN,
        _NOTADB,
    )


def reading(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """A text that is not UTF-8 must not hold up the rows around it: what cannot be read is marked, and it is no JSON then."""
    try:
        return work(db)
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if not is_bad_text(error):
            raise
    with tolerant(db):
        return work(db)


@contextmanager
def tolerant(db: sqlite3.Connection) -> Iterator[None]:
    """Costs a call for each text that is read, so only for what cannot be read otherwise."""
    db.text_factory = lambda raw: raw.decode(errors=_MARKED)
    try:
        yield
    finally:
        db.text_factory = str


def is_bad_text(error: BaseException) -> bool:
    return isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error)


def patiently(work: Callable[[], T]) -> T:
    """Opening a database that another process is just creating: changing the journal mode does not wait by itself."""
    until = time.monotonic() + OPEN_PATIENCE_S
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
