"""Errors of the driver and of the server as FlowFabric errors."""

from __future__ import annotations

import asyncio
import re

from glide import ClosingError, GlideError, RequestError
from glide import ConnectionError as Lost
from glide import TimeoutError as CallTimeout

from flowfabric.errors import ConfigError, TransportError

CALL_TIMEOUT_MS = 10_000
UNKNOWN = "whether the change was made is not known"
KINDS = {
    "OOM": "full",
    "LOADING": "busy_loading",
    "BusyLoading": "busy_loading",
    "BUSY": "busy_loading",
    "MASTERDOWN": "cluster",
    "CLUSTERDOWN": "cluster",
    "TRYAGAIN": "cluster",
    "TryAgain": "cluster",
    "READONLY": "cluster",
    "ReadOnly": "cluster",
    "MOVED": "cluster",
    "Moved": "cluster",
    "ASK": "cluster",
    "Script attempted to access a non local key": "cluster",
    "NOAUTH": "auth",
    "WRONGPASS": "auth",
    "AuthenticationFailed": "auth",
    "NOPERM": "auth",
    "PermissionDenied": "auth",
    "ACL failure": "auth",
}
"""What the server's words mean. It has refused the call, and nothing was written."""
_WORDS = re.compile(rf"\b({'|'.join(KINDS)})(?:Error)?\b")
FULL = "the server's memory is full, and nothing was written; raise maxmemory"
RIGHTS = "too few rights; docs/valkey.md lists those that a user needs"
_DENIED = re.compile(r"User \S+ has no permissions to [^(){}@]*")
_DEMOTED = "UNBLOCKED"
_NO_PRIMARY = "No primary node found"
_NOT_SENT = "ConnectionNotFoundForRoute"
_SHOWN = 500


def as_engine_error(error: BaseException) -> Exception:
    """A call that has no answer may have been applied: the engine asks the store what became of
    it.
    """
    if isinstance(error, CallTimeout | asyncio.TimeoutError):
        return TransportError(
            "valkey",
            f"no answer within {CALL_TIMEOUT_MS} ms; {UNKNOWN}",
            backend_kind="timeout",
            doubtful=True,
        )
    text = " ".join(str(error)[:_SHOWN].split())
    if _NOT_SENT in text:
        return TransportError("valkey", f"no server has the cell now ({text})")
    if isinstance(error, Lost) or _DEMOTED in text:
        return TransportError("valkey", f"connection lost ({text}); {UNKNOWN}", doubtful=True)
    kind = kind_of(error)
    if isinstance(error, RequestError):
        return TransportError("valkey", _detail(text, kind), backend_kind=kind or "protocol")
    if isinstance(error, ClosingError):  # the connection was not opened
        return TransportError(
            "valkey", _detail(text, kind), backend_kind="auth" if kind == "auth" else "transport"
        )
    return TransportError("valkey", text, doubtful=isinstance(error, GlideError | OSError))


def unreachable(error: BaseException, shown: str, found: str = "") -> Exception:
    """For a connection that was not opened. It contains no password. `found` says more."""
    if isinstance(error, ConfigError):
        return error
    text = " ".join(str(error)[:_SHOWN].split())
    if kind_of(error) == "auth":
        what = _detail(text, "auth")
        return TransportError("valkey", f"{shown}: {what}", backend_kind="auth")
    if _NO_PRIMARY in text:
        return ConfigError(f"{shown}: the server is a replica; name its primary")
    return TransportError("valkey", f"cannot reach {shown}: {found or text}")


def kind_of(error: BaseException) -> str | None:
    found = _WORDS.search(str(error)[:_SHOWN])
    return None if found is None else KINDS[found[1]]


def is_elsewhere(error: BaseException) -> bool:
    """Refused by a server that does not have the cell, or does not have it yet."""
    if isinstance(error, CallTimeout) or not isinstance(error, RequestError):
        return False
    if isinstance(error, Lost):
        return _NOT_SENT in str(error)
    return kind_of(error) in ("cluster", "busy_loading")


def too_few_rights(what: str) -> TransportError:
    return TransportError("valkey", f"{RIGHTS}: {what}", backend_kind="auth")


def _detail(text: str, kind: str | None) -> str:
    if kind == "full":
        return FULL
    if kind != "auth":
        return text
    denied = _DENIED.search(text)
    if denied is None:
        return "the server refused this user or password"
    return f"{RIGHTS}: {denied.group().removesuffix(' script: on ').strip()}"
