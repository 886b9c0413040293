"""Engine errors as `application/problem+json`, and back."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from flowfabric import errors

MEDIA_TYPE = "application/problem+json"


class Problem(Struct, frozen=True, omit_defaults=True):
    """A problem of RFC 9457 with fields of the engine.

    `code` is stable and `error` is for people; `kind` and `retryable` are for programs. `raised`
    and `given` let a client raise the same exception.
    """

    status: int
    title: str
    error: str
    code: str
    type: str = "about:blank"
    detail: str | None = None
    kind: str | None = None
    retryable: bool | None = None
    raised: str | None = None
    given: dict[str, Any] = {}
    limit_bytes: int | None = None
    route: str | None = None


_CONFLICTS = {
    "dependency_already_exists",
    "cycle_detected",
    "self_referencing_edge",
    "execution_already_in_flow",
    "waitpoint_already_exists",
    "rotation_conflict",
    "active_attempt_exists",
}
_FLOW_CONFLICTS = {
    "flow_already_terminal": "flow_already_terminal",
    "self_referencing_edge": "self_referencing_edge",
    "already_member_of_different_flow": "execution_already_in_flow",
    "execution_not_in_flow": "state_conflict",
}
"""The `kind` on the wire for details of flow validation errors."""
_STATES = {
    errors.StateKind.EXECUTION_NOT_TERMINAL,
    errors.StateKind.MAX_REPLAYS_EXHAUSTED,
    errors.StateKind.NOT_RUNNABLE,
    errors.StateKind.TERMINAL,
    errors.StateKind.BUDGET_EXCEEDED,
}
_SATISFIED = {
    errors.StateKind.ALREADY_SATISFIED,
    errors.StateKind.LEASE_EXPIRED,
    errors.StateKind.LEASE_REVOKED,
    errors.StateKind.STREAM_CLOSED,
}
_TOO_MANY = {
    errors.ContentionKind.RATE_LIMIT_EXCEEDED,
    errors.ContentionKind.CONCURRENCY_LIMIT_EXCEEDED,
}
_UNKNOWN_VALIDATION = {
    errors.ValidationKind.CORRUPTION,
    errors.ValidationKind.HANDLE_FROM_OTHER_BACKEND,
}


def _camel(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("_"))


def problem_of(error: errors.EngineError) -> Problem:
    """The problem of an error; the mapping is the same for every route and store."""
    status, kind, text, retryable = _status_of(error)
    return Problem(
        status=status,
        title=HTTPStatus(status).phrase,
        error=text,
        code=error.code,
        detail=str(error),
        kind=kind,
        retryable=retryable,
        raised=next(
            (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _MAKERS), None
        ),
        given=_arguments(error),
    )


def _status_of(error: errors.EngineError) -> tuple[int, str | None, str, bool | None]:
    match error:
        case errors.NotFound():
            return 404, None, f"not found: {error.entity}", None
        case errors.ValidationError(already_terminal=True):
            return 409, "terminal", "terminal: Terminal", False
        case errors.ValidationError(
            detail="flow_not_found" | "execution_not_found" | "edge_not_found"
        ):
            return 404, None, f"not found: {error.detail.removesuffix('_not_found')}", None
        case errors.ValidationError() if (
            word := _FLOW_CONFLICTS.get(error.detail.partition(":")[0])
        ) is not None:
            return 409, word, f"{word}: {_camel(error.detail.partition(':')[0])}", False
        case errors.ValidationError():
            word = "validation_error" if error.kind in _UNKNOWN_VALIDATION else error.kind.value
            return 400, None, f"{word}: {error.detail}" if error.detail else word, None
        case errors.Conflict():
            word = error.kind.value if error.kind.value in _CONFLICTS else "conflict"
            return 409, word, f"{word}: {_camel(error.kind.value)}", False
        case errors.Contention():
            return _contention(error.kind)
        case errors.StateError():
            word = "already_satisfied" if error.kind in _SATISFIED else "state_conflict"
            word = error.kind.value if error.kind in _STATES else word
            return 409, word, f"{word}: {_camel(error.kind.value)}", False
        case errors.ResourceExhausted():
            return 429, "resource_exhausted", _exhausted(error.pool, error.maximum), True
        case errors.Unavailable():
            return 503, "unavailable", f"backend op unavailable: {error.op}", False
        case errors.TransportError():
            return 500, error.backend_kind, str(error), error.retryable
    return 500, None, str(error), False


def _contention(kind: errors.ContentionKind) -> tuple[int, str, str, bool]:
    if kind is errors.ContentionKind.RETRY_EXHAUSTED:
        return 500, kind.value, f"{kind.value}: {_camel(kind.value)}", False
    status, word = (429, kind.value) if kind in _TOO_MANY else (409, "contention")
    return status, word, f"{word}: {_camel(kind.value)}", True


def _exhausted(pool: str, maximum: int) -> str:
    return f"too many concurrent {pool} calls (server max: {maximum}); retry with backoff"


def _arguments(error: errors.EngineError) -> dict[str, object]:
    match error:
        case errors.NotFound():
            return {"entity": error.entity}
        case errors.ValidationError():
            return {
                "kind": error.kind.value,
                "detail": error.detail,
                "already_terminal": error.already_terminal,
            }
        case errors.Contention():
            return {"kind": error.kind.value, **error.facts}
        case errors.Conflict():
            existing = {} if error.existing is None else {"existing": str(error.existing)}
            return {"kind": error.kind.value, "detail": error.detail, **existing}
        case errors.StateError():
            return {"kind": error.kind.value, "detail": error.detail}
        case errors.ResourceExhausted():
            return {
                "pool": error.pool,
                "maximum": error.maximum,
                "retry_after_ms": error.retry_after_ms,
            }
        case errors.TransportError():
            return {
                "backend": error.backend,
                "detail": str(error),
                "kind": error.backend_kind,
                "doubtful": error.doubtful,
            }
        case errors.Unavailable() | errors.TimedOut():
            return {"op": error.op, "detail": str(error)}
        case errors.StreamDisconnected():
            return {"cursor": error.cursor.hex()}
    return {}


_MAKERS: dict[str, Callable[[dict[str, Any]], errors.EngineError]] = {
    "NotFound": lambda g: errors.NotFound(g["entity"]),
    "ValidationError": lambda g: errors.ValidationError(
        errors.ValidationKind(g["kind"]),
        g.get("detail", ""),
        already_terminal=bool(g.get("already_terminal")),
    ),
    "Contention": lambda g: errors.Contention(
        errors.ContentionKind(g["kind"]), **{k: str(v) for k, v in g.items() if k != "kind"}
    ),
    "Conflict": lambda g: errors.Conflict(
        errors.ConflictKind(g["kind"]), g.get("detail", ""), existing=g.get("existing")
    ),
    "StateError": lambda g: errors.StateError(errors.StateKind(g["kind"]), g.get("detail", "")),
    "ResourceExhausted": lambda g: errors.ResourceExhausted(
        g["pool"], g["maximum"], g.get("retry_after_ms")
    ),
    "TransportError": lambda g: errors.TransportError(
        g["backend"], g["detail"], backend_kind=g["kind"], doubtful=bool(g.get("doubtful"))
    ),
    "Unavailable": lambda g: errors.Unavailable(g["op"]),
    "TimedOut": lambda g: errors.TimedOut(g["op"], g["detail"]),
    "StreamDisconnected": lambda g: errors.StreamDisconnected(bytes.fromhex(g["cursor"])),
    "StreamBackpressure": lambda g: errors.StreamBackpressure(),
}


def as_error(value: object) -> errors.EngineError:
    """The error of a problem; an unknown one becomes a transport error that quotes it."""
    try:
        problem = value if isinstance(value, Problem) else msgspec.convert(value, Problem)
        return _MAKERS[problem.raised or ""](problem.given)
    except (KeyError, ValueError, TypeError, msgspec.ValidationError):
        fields = value if isinstance(value, dict) else {}
        text = fields.get("error", getattr(value, "error", None))
        status = fields.get("status", getattr(value, "status", None))
        kind = {429: "busy_loading", 502: "transport", 503: "transport", 504: "timeout"}.get(
            status or 0, "protocol"
        )
        return errors.TransportError(
            "http", f"the server answered {status}: {text}", backend_kind=kind
        )
