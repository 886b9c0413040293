"""What Postgres says, as errors of ours, and what is worth another try."""

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
TROUBLE = (
    EngineError,
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Whatever a connection in the background may meet, before it tries again."""
_CONFLICTS = ("40001", "40P01", "55P03")
_FULL = {
    "53300": "postgres connections",
    "53100": "postgres disk",
    "53200": "postgres memory",
    "53400": "a postgres setting",
}


def state_of(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_conflict(error: BaseException) -> bool:
    """Serialization failure, deadlock or lock timeout: the same statement may well succeed in a moment."""
    return state_of(error) in _CONFLICTS


def is_gone(error: BaseException) -> bool:
    """The connection is lost; whether the statement was applied is not known.

    The driver complains about its own state when the server said goodbye and the connection is not yet known to be closed.
    """
    state = state_of(error)
    if state:
        return state.startswith("08") or state in ("57P01", "57P02", "57P03")
    if isinstance(
        error, OSError | EOFError | asyncpg.InternalClientError
    ):  # the last: told of its end, but not yet at it
        return True
    return (isinstance(error, asyncpg.InterfaceError) and "clos" in str(error)) or _of_psycopg(
        error, "OperationalError"
    )


def concerns_one(error: BaseException) -> bool:
    """A value that does not fit, or a row that a trigger of the database's owner protects: in a batch, only its plan fails."""
    return isinstance(
        error, asyncpg.DataError | OverflowError | TypeError | ValueError
    ) or state_of(error)[:2] in (
        "22",
        "23",
        "P0",
    )


def as_engine_error(error: BaseException) -> BaseException:
    """The error of ours; what is not Postgres's stays as it is."""
    state = state_of(error)
    if isinstance(error, EngineError):
        return error
    if is_conflict(error):
        return Contention(ContentionKind.RETRY_EXHAUSTED)
    if is_gone(error):
        return TransportError(
            "postgres",
            f"connection lost ({_said(error)}); whether the change was made is not known",
            doubtful=True,
        )
    if state in _FULL:
        return ResourceExhausted(_FULL[state], 0)
    if state == "57014":
        return TimedOut("postgres statement", _said(error))
    if state in ("42P01", "42703"):
        return Unavailable(f"schema_version: {_said(error)}; run `flowfabric migrate URL`")
    if state == "25006":
        text = "the server only allows reading (a replica?); connect to the primary"
        return TransportError("postgres", text, backend_kind="other")
    if state == "42501":
        return TransportError("postgres", f"too few rights: {_said(error)}", backend_kind="auth")
    if state == "23505":
        return Conflict(
            ConflictKind.UNIQUE, str(getattr(error, "constraint_name", None) or _said(error))
        )
    if state[:2] in ("22", "23"):
        return ValidationError(ValidationKind.CORRUPTION, f"postgres {state}: {_said(error)}")
    if (
        state
        or isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError)
        or _of_psycopg(error)
    ):
        return TransportError("postgres", f"{state}: {_said(error)}", backend_kind="other")
    return error


def unreachable(error: BaseException, shown: str) -> BaseException:
    """Why a connection could not be made; nothing was sent. Passwords are never shown."""
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
            "postgres", f"cannot reach {shown}: {_said(error)}; is the server running there?"
        )
    if isinstance(error, ValueError):
        return ConfigError(f"url: {_said(error)}")
    return as_engine_error(error)


def _of_psycopg(error: BaseException, kind: str = "Error") -> bool:
    """By name: psycopg is there only if the user brought it."""
    return any(
        base.__name__ == kind and base.__module__.startswith("psycopg")
        for base in type(error).__mro__
    )


def _said(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
