"""Postgres errors as FlowFabric errors, and which of them are retried."""

from __future__ import annotations

import asyncpg

from flowfabric.errors import (
    ConfigError,
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    ResourceExhausted,
    TimedOut,
    TransportError,
    Unavailable,
    ValidationError,
    ValidationKind,
)

MAX_TRIES = 3
FIRST_PAUSE_S = 0.005
POSTGRES_ERRORS = (
    EngineError,
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""After these a background connection is opened again."""
_CONFLICTS = ("40001", "40P01", "55P03")
_ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03")
"""The server shuts down, recovers or starts, or it ended an idle session."""
_READ_ONLY = "25006"
_FULL = {
    "53300": "postgres connections",
    "53100": "postgres disk",
    "53200": "postgres memory",
    "53400": "a postgres setting",
}


def state_of(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_conflict(error: BaseException) -> bool:
    """Serialization failure, deadlock or lock timeout: the statement may succeed when repeated."""
    return state_of(error) in _CONFLICTS


def is_gone(error: BaseException) -> bool:
    """The connection is lost; whether the statement was applied is unknown.

    The driver raises errors about its own state when the server has closed the connection and the
    driver has not noticed yet.
    """
    state = state_of(error)
    if state:
        return state.startswith("08") or state in _ENDED
    if isinstance(error, OSError | EOFError | asyncpg.InternalClientError):
        return True
    return (isinstance(error, asyncpg.InterfaceError) and "clos" in str(error)) or _of_psycopg(
        error, "OperationalError"
    )


def is_read_only(error: BaseException) -> bool:
    """The statement was refused: this server is a replica, or no longer the primary."""
    return state_of(error) == _READ_ONLY


def must_reconnect(error: BaseException) -> bool:
    """Nothing further can be done on this connection."""
    return is_gone(error) or is_read_only(error)


def concerns_one(error: BaseException) -> bool:
    """A value that does not fit, or an error of a trigger: only its plan fails in a batch."""
    return isinstance(
        error, asyncpg.DataError | OverflowError | TypeError | ValueError
    ) or state_of(error)[:2] in (
        "22",
        "23",
        "P0",
    )


def as_engine_error(error: BaseException) -> BaseException:
    """Other errors than those of Postgres are returned unchanged."""
    state = state_of(error)
    if isinstance(error, EngineError):
        return error
    if is_conflict(error):
        return Contention(ContentionKind.RETRY_EXHAUSTED)
    if is_gone(error):
        return TransportError(
            "postgres",
            f"connection lost ({_first_line(error)}); whether the change was made is not known",
            doubtful=True,
        )
    if state in _FULL:
        return ResourceExhausted(_FULL[state], 0)
    if state == "57014":
        return TimedOut("postgres statement", _first_line(error))
    if state in ("42P01", "42703"):
        return Unavailable(
            f"schema_version: {_first_line(error)}; run `flowfabric migrate --db URL`"
        )
    if state == _READ_ONLY:
        text = "the server only allows reading (a replica?); connect to the primary"
        return TransportError("postgres", text, backend_kind="other")
    if state == "42501":
        return TransportError(
            "postgres", f"too few rights: {_first_line(error)}", backend_kind="auth"
        )
    if state == "23505":
        return Conflict(
            ConflictKind.UNIQUE, str(getattr(error, "constraint_name", None) or _first_line(error))
        )
    if state[:2] in ("22", "23"):
        return ValidationError(ValidationKind.CORRUPTION, f"postgres {state}: {_first_line(error)}")
    if (
        state
        or isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError)
        or _of_psycopg(error)
    ):
        return TransportError("postgres", f"{state}: {_first_line(error)}", backend_kind="other")
    return error


def unreachable(error: BaseException, shown: str) -> BaseException:
    """The error for a connection that cannot be opened; it contains no password."""
    state = state_of(error)
    if state in ("28P01", "28000"):
        return TransportError(
            "postgres", f"{shown}: the server refused this user or password", backend_kind="auth"
        )
    if state == "3D000":
        return TransportError(
            "postgres", f"{shown}: no such database; create it first", backend_kind="protocol"
        )
    if state in _FULL:
        return ResourceExhausted(_FULL[state], 0)
    if is_gone(error) or isinstance(error, TimeoutError):
        return TransportError(
            "postgres", f"cannot reach {shown}: {_first_line(error)}; is the server running there?"
        )
    if isinstance(error, ValueError):
        return ConfigError(f"url: {_first_line(error)}")
    return as_engine_error(error)


def _of_psycopg(error: BaseException, kind: str = "Error") -> bool:
    """Compared by name, since psycopg is not a dependency."""
    return any(
        base.__name__ == kind and base.__module__.startswith("psycopg")
        for base in type(error).__mro__
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
