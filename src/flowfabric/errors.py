"""The errors of this package.

FlowFabricError
├── ConfigError              the configuration of the process is invalid
│   ├── RequiresDevMode      SQLite was opened without an explicit opt-in
│   ├── NoDatabase           there is no database that can be read
│   └── Unauthorized         a server refused the token
└── EngineError              an operation failed and changed nothing
    ├── NotFound             the entity does not exist
    ├── ValidationError      the caller's input, or stored data, is invalid
    │   └── Corruption       stored data cannot be read
    ├── Contention           the state has changed; reload and try again
    ├── Conflict             the request contradicts what is stored
    ├── StateError           the state of the subject does not allow the operation
    ├── TransportError       the store could not be reached, or answered unexpectedly
    ├── Unavailable          this store does not offer the operation
    ├── TimedOut             the store cancelled a statement
    ├── ResourceExhausted    a pool, a disk or a limit is full
    ├── StreamDisconnected   a subscription ended; resume from its cursor
    └── StreamBackpressure   events before the cursor are gone; read the state, then continue
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Self


class FlowFabricError(Exception):
    """Base of every error this package raises."""


class ConfigError(FlowFabricError):
    """The configuration of the process is invalid."""


class RequiresDevMode(ConfigError):
    """SQLite was opened without an explicit opt-in."""

    backend_kind = "protocol"

    def __init__(self) -> None:
        super().__init__(
            "sqlite requires FF_DEV_MODE=1: it is embedded and for one machine. "
            "Set FF_DEV_MODE=1 in the environment, or pass dev=True in code "
            "(SqliteBackend.new(path, dev=True), connect(url, dev=True)). "
            "`flowfabric demo` does so for its own process."
        )


class NoDatabase(ConfigError):
    """There is no database at the URL, or it cannot be read."""


class Unauthorized(ConfigError):
    """A server refused the token of a call."""


class ErrorClass(StrEnum):
    TERMINAL = "terminal"
    RETRYABLE = "retryable"
    INFORMATIONAL = "informational"
    COOPERATIVE = "cooperative"


class EngineError(FlowFabricError):
    """An operation failed. `code` is stable; `retryable` says whether a retry can succeed."""

    code: str = "engine_error"
    error_class: ErrorClass = ErrorClass.TERMINAL

    @property
    def retryable(self) -> bool:
        return self.error_class is ErrorClass.RETRYABLE


class NotFound(EngineError):
    def __init__(self, entity: str, ident: object = None) -> None:
        self.entity = entity
        self.code = f"{entity}_not_found"
        super().__init__(f"{entity} not found" if ident is None else f"{entity} {ident} not found")


class ValidationKind(StrEnum):
    INVALID_INPUT = "invalid_input"
    AMBIGUOUS_ID = "ambiguous_id"
    CAPABILITY_MISMATCH = "capability_mismatch"
    INVALID_CAPABILITIES = "invalid_capabilities"
    INVALID_POLICY_JSON = "invalid_policy_json"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    INVALID_BLOCKING_REASON = "invalid_blocking_reason"
    INVALID_TAG_KEY = "invalid_tag_key"
    CORRUPTION = "corruption"
    HANDLE_FROM_OTHER_BACKEND = "handle_from_other_backend"
    INVALID_DEPENDENCY = "invalid_dependency"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - the name of an error
    INVALID_KID = "invalid_kid"
    INVALID_SECRET_HEX = "invalid_secret_hex"  # noqa: S105
    INVALID_GRACE_MS = "invalid_grace_ms"
    INVALID_WAITPOINT_FOR_EXECUTION = "invalid_waitpoint_for_execution"
    WAITPOINT_NOT_TOKEN_BOUND = "waitpoint_not_token_bound"  # noqa: S105
    SIGNAL_LIMIT_EXCEEDED = "signal_limit_exceeded"
    RETENTION_LIMIT_EXCEEDED = "retention_limit_exceeded"


class ValidationError(EngineError):
    """`already_terminal`: a cancel of an execution that ended otherwise (409 over HTTP)."""

    def __init__(
        self, kind: ValidationKind, detail: str = "", *, already_terminal: bool = False
    ) -> None:
        self.kind, self.detail, self.already_terminal = kind, detail, already_terminal
        self.code = kind.value
        super().__init__(f"{kind.value}: {detail}" if detail else kind.value)


class Corruption(ValidationError):
    """Stored data cannot be read. `about` names the row, if one was addressed."""

    def __init__(self, what: str, about: object = None) -> None:
        self.what, self.about = what, about
        super().__init__(ValidationKind.CORRUPTION, what if about is None else f"{about}: {what}")


class _HintedKind(StrEnum):
    """A kind, and the hint for the caller that the message of its errors has."""

    hint: str

    def __new__(cls, value: str, hint: str = "") -> Self:
        kind = str.__new__(cls, value)
        kind._value_, kind.hint = value, hint
        return kind


class ContentionKind(_HintedKind):
    USE_CLAIM_RESUMED_EXECUTION = "use_claim_resumed_execution", "continue its interrupted attempt"
    NOT_A_RESUMED_EXECUTION = "not_a_resumed_execution", "nothing to resume; use claim_execution"
    EXECUTION_NOT_LEASEABLE = "execution_not_leaseable", "it is not runnable and eligible now"
    LEASE_CONFLICT = "lease_conflict", "this lease is not the current one; abandon the task"
    INVALID_CLAIM_GRANT = "invalid_claim_grant", "no grant for this worker; ask for one first"
    CLAIM_GRANT_EXPIRED = "claim_grant_expired", "the grant expired; ask for a new one"
    EXECUTION_NOT_ACTIVE = "execution_not_active", "the execution does not run; abandon the task"
    EXECUTION_NOT_ELIGIBLE = "execution_not_eligible", "it is not runnable and eligible now"
    RETRY_EXHAUSTED = "retry_exhausted", "the store stayed busy through 3 tries; try again later"
    STALE_GRAPH_REVISION = "stale_graph_revision", "the graph has changed; read its revision again"
    WAITPOINT_NOT_FOUND = "waitpoint_not_found", "there is no such waitpoint of this execution"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded", "the rate limit of its quota is reached"
    CONCURRENCY_LIMIT_EXCEEDED = "concurrency_limit_exceeded", "its quota's limit is reached"


class Contention(EngineError):
    """`facts` of EXECUTION_NOT_ACTIVE let a caller decide about a call whose answer was lost."""

    def __init__(self, kind: ContentionKind, **facts: str) -> None:
        self.kind, self.facts = kind, facts
        self.code = kind.value
        self.error_class = ErrorClass.RETRYABLE
        shown = ", ".join(f"{name}={value!r}" for name, value in facts.items())
        super().__init__(f"{kind.value}: {kind.hint}" + (f" ({shown})" if shown else ""))


class ConflictKind(StrEnum):
    ACTIVE_ATTEMPT_EXISTS = "active_attempt_exists"
    CYCLE_DETECTED = "cycle_detected"
    DEPENDENCY_ALREADY_EXISTS = "dependency_already_exists"
    EXECUTION_ALREADY_IN_FLOW = "execution_already_in_flow"
    WAITPOINT_ALREADY_EXISTS = "waitpoint_already_exists"
    ROTATION_CONFLICT = "rotation_conflict"
    STEP_MISMATCH = "step_mismatch"
    UNIQUE = "unique_violation"


class Conflict(EngineError):
    """`existing` is the conflicting object, if there is one."""

    def __init__(self, kind: ConflictKind, detail: str = "", *, existing: object = None) -> None:
        self.kind, self.detail, self.existing = kind, detail, existing
        self.code = kind.value
        super().__init__(f"{kind.value}: {detail}" if detail else kind.value)


class StateKind(_HintedKind):
    STALE_LEASE = "stale_lease", "this lease is not the stored one"
    LEASE_EXPIRED = "lease_expired", "the lease expired before this call; abandon the task"
    LEASE_REVOKED = "lease_revoked", "the lease was revoked; abandon the task"
    EXECUTION_NOT_TERMINAL = "execution_not_terminal", "only an ended execution can be replayed"
    MAX_REPLAYS_EXHAUSTED = "max_replays_exhausted", "its policy allows no more replays"
    GRANT_ALREADY_EXISTS = "grant_already_exists", "an unexpired grant exists; wait until it ends"
    LANE_CLOSED = "lane_closed", "the lane takes no new work; resume it or use another lane"
    NOT_RUNNABLE = "not_runnable", "only a runnable execution can be promoted"
    NOT_BLOCKED_BY_DEPS = "not_blocked_by_deps", "it does not wait for other executions"
    DEPS_NOT_SATISFIED = "deps_not_satisfied", "other executions it waits for have not ended"
    TERMINAL = "terminal", "it has ended"
    ALREADY_SUSPENDED = "already_suspended", "this handle can only observe its signals"
    ALREADY_SATISFIED = "already_satisfied", "the condition is satisfied already; continue"
    EXECUTION_NOT_SUSPENDED = "execution_not_suspended", "only a suspended execution can be resumed"
    TARGET_NOT_SIGNALABLE = "target_not_signalable", "the execution does not wait for signals now"
    WAITPOINT_CLOSED = "waitpoint_closed", "the waitpoint takes no more signals"
    WAITPOINT_NOT_PENDING = "waitpoint_not_pending", "it was used by a suspension or closed already"
    WAITPOINT_NOT_OPEN = "waitpoint_not_open", "only a pending or active waitpoint can be closed"
    PENDING_WAITPOINT_EXPIRED = "pending_waitpoint_expired", "not used in time; create another"
    BUDGET_EXCEEDED = "budget_exceeded", "a budget is exhausted; it can start after its reset"
    STREAM_CLOSED = "stream_closed", "its attempt has ended, so its stream accepts no more frames"


class StateError(EngineError):
    def __init__(self, kind: StateKind, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        self.code = kind.value
        if kind is StateKind.GRANT_ALREADY_EXISTS:
            self.error_class = ErrorClass.INFORMATIONAL
        elif kind is StateKind.BUDGET_EXCEEDED:
            self.error_class = ErrorClass.COOPERATIVE
        super().__init__(f"{kind.value}: {kind.hint}" + (f" ({detail})" if detail else ""))


class TransportError(EngineError):
    """The store could not be reached, or answered unexpectedly."""

    RETRYABLE_KINDS = frozenset({"transport", "timeout", "cluster", "busy_loading"})

    def __init__(
        self, backend: str, detail: str, *, backend_kind: str = "transport", doubtful: bool = False
    ) -> None:
        """`doubtful`: the change may have been made."""
        self.backend, self.backend_kind, self.doubtful = backend, backend_kind, doubtful
        self.code = "transport_error"
        if backend_kind in self.RETRYABLE_KINDS:
            self.error_class = ErrorClass.RETRYABLE
        super().__init__(f"{backend}: {detail}")


class Unavailable(EngineError):
    code = "unavailable"

    def __init__(self, op: str) -> None:
        self.op = op
        super().__init__(f"unavailable: {op}")


class TimedOut(EngineError):
    code = "timeout"

    def __init__(self, op: str, detail: str) -> None:
        self.op = op
        super().__init__(f"timeout: {op}: {detail}")


class ResourceExhausted(EngineError):
    code = "resource_exhausted"
    error_class = ErrorClass.RETRYABLE

    def __init__(self, pool: str, maximum: int, retry_after_ms: int | None = None) -> None:
        self.pool, self.maximum, self.retry_after_ms = pool, maximum, retry_after_ms
        super().__init__(f"{pool} is full (maximum {maximum})")


class StreamDisconnected(EngineError):
    code = "stream_disconnected"

    def __init__(self, cursor: bytes) -> None:
        self.cursor = cursor
        super().__init__(f"the subscription ended; resume from cursor {cursor.hex() or '(tail)'}")


class StreamBackpressure(EngineError):
    code = "stream_backpressure"
    error_class = ErrorClass.INFORMATIONAL

    def __init__(self) -> None:
        super().__init__(
            "events right after this cursor were removed by retention; "
            "read the current state, then continue"
        )


Kind = ValidationKind | ContentionKind | ConflictKind | StateKind
_ERROR_OF: dict[type, Callable[[Any], EngineError]] = {
    ValidationKind: ValidationError,
    ContentionKind: Contention,
    ConflictKind: Conflict,
    StateKind: StateError,
}


def error_of(kind: Kind) -> EngineError:
    return _ERROR_OF[type(kind)](kind)


def bad_input(detail: str) -> ValidationError:
    return ValidationError(ValidationKind.INVALID_INPUT, detail)


def invalid(field: str, accepted: str, got: object = None) -> ValidationError:
    """The error for an invalid argument: its field, and what is accepted."""
    shown = "" if got is None else f", got {_short(got)}"
    return bad_input(f"{field}: {accepted}{shown}")


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer with too many digits for str()
        return "a number too long to show"
    return text if len(text) <= 80 else text[:77] + "..."
