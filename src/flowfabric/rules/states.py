"""The state vector as data: the legal combinations, their public states, and the transitions."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model.execution import Execution, StateVector
from flowfabric.model.state import (
    ENDED_PHASES,
    AttemptState,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    PublicState,
    TerminalOutcome,
)

PENDING = (
    "pending_first_attempt",
    "attempt_interrupted",
    "pending_retry_attempt",
    "pending_replay_attempt",
)


class Vector(Struct, frozen=True):
    """A legal combination. `entering` writes the first value of each tuple by default."""

    name: str
    meaning: str
    lifecycle_phase: str
    ownership_state: str
    eligibility_state: str
    blocking_reasons: tuple[str, ...]
    outcomes: tuple[str, ...]
    attempt_states: tuple[str, ...]
    public_state: str
    leaves_by: str


def _runnable(
    name: str, meaning: str, eligibility: str, reasons: tuple[str, ...], public: str, leaves_by: str
) -> Vector:
    shape = ("runnable", "unowned", eligibility, reasons, ("none",), PENDING, public, leaves_by)
    return Vector(name, meaning, *shape)


_VECTORS = (
    _runnable(
        "READY", "can be claimed", "eligible_now", ("waiting_for_worker",), "waiting", "claim"
    ),
    _runnable(
        "DELAYED",
        "waits for a time",
        "not_eligible_until_time",
        ("waiting_for_delay", "waiting_for_retry_backoff", "waiting_for_resume_delay"),
        "delayed",
        "timer",
    ),
    _runnable(
        "DEPS",
        "waits for other executions",
        "blocked_by_dependencies",
        ("waiting_for_children",),
        "waiting_children",
        "dependency",
    ),
    _runnable(
        "BUDGET",
        "its budget is spent",
        "blocked_by_budget",
        ("waiting_for_budget",),
        "rate_limited",
        "timer",
    ),
    _runnable(
        "QUOTA",
        "its quota is used up",
        "blocked_by_quota",
        ("waiting_for_quota",),
        "rate_limited",
        "timer",
    ),
    _runnable(
        "ROUTE",
        "no live worker can run it",
        "blocked_by_route",
        ("waiting_for_capable_worker", "waiting_for_locality_match"),
        "waiting",
        "worker registration",
    ),
    _runnable(
        "OPBLOCK",
        "held by an operator",
        "blocked_by_operator",
        ("paused_by_operator", "paused_by_flow_cancel"),
        "waiting",
        "operator",
    ),
    _runnable(
        "LANEBLOCK",
        "held by its lane",
        "blocked_by_lane_state",
        ("paused_by_policy",),
        "waiting",
        "operator",
    ),
    Vector(
        "RUNNING",
        "a worker holds a live lease",
        "active",
        "leased",
        "not_applicable",
        ("none",),
        ("none",),
        ("running_attempt",),
        "active",
        "worker or lease expiry",
    ),
    Vector(
        "LOST",
        "its lease has expired",
        "active",
        "lease_expired_reclaimable",
        "not_applicable",
        ("waiting_for_worker",),
        ("none",),
        ("attempt_interrupted",),
        "active",
        "reclaim or requeue",
    ),
    Vector(
        "SUSPENDED",
        "waits for a signal",
        "suspended",
        "unowned",
        "not_applicable",
        (
            "waiting_for_signal",
            "waiting_for_approval",
            "waiting_for_callback",
            "waiting_for_tool_result",
            "waiting_for_budget",
            "paused_by_operator",
            "paused_by_policy",
        ),
        ("none",),
        ("attempt_interrupted",),
        "suspended",
        "signal or timer",
    ),
    Vector(
        "ENDED",
        "has ended",
        "terminal",
        "unowned",
        "not_applicable",
        ("none",),
        ("success", "failed", "cancelled", "expired", "skipped"),
        ("attempt_terminal", "none", *PENDING[:1], *PENDING[2:]),
        "",
        "replay or retention",
    ),
)
VECTORS = {vector.name: vector for vector in _VECTORS}

TRANSITIONS: tuple[tuple[str, str, str], ...] = (
    ("", "create", "READY"),
    ("", "create, later", "DELAYED"),
    ("", "create, with dependencies", "DEPS"),
    ("READY", "apply a dependency", "DEPS"),
    ("DELAYED", "apply a dependency", "DEPS"),
    ("RUNNING", "wait for children", "DEPS"),
    ("DEPS", "dependencies met", "READY"),
    ("DEPS", "dependencies met, later", "DELAYED"),
    ("DEPS", "dependencies impossible", "ENDED"),
    ("READY", "claim", "RUNNING"),
    ("READY", "block", "ROUTE"),
    ("READY", "block", "BUDGET"),
    ("READY", "block", "QUOTA"),
    ("READY", "block", "OPBLOCK"),
    ("READY", "block", "LANEBLOCK"),
    ("ROUTE", "unblock", "READY"),
    ("BUDGET", "unblock", "READY"),
    ("QUOTA", "unblock", "READY"),
    ("OPBLOCK", "unblock", "READY"),
    ("LANEBLOCK", "unblock", "READY"),
    ("DELAYED", "promote", "READY"),
    ("RUNNING", "complete", "ENDED"),
    ("RUNNING", "fail, retry", "DELAYED"),
    ("RUNNING", "fail, retry at once", "READY"),
    ("RUNNING", "fail for good", "ENDED"),
    ("RUNNING", "delay", "DELAYED"),
    ("RUNNING", "revoke", "READY"),
    ("RUNNING", "budget spent", "BUDGET"),
    ("RUNNING", "lease expires", "LOST"),
    ("LOST", "reclaim", "RUNNING"),
    ("LOST", "requeue", "READY"),
    ("LOST", "reclaim limit reached", "ENDED"),
    ("RUNNING", "unreadable row", "OPBLOCK"),
    ("RUNNING", "suspend", "SUSPENDED"),
    ("SUSPENDED", "signal, operator or timeout", "READY"),
    ("SUSPENDED", "resume, later", "DELAYED"),
    ("SUSPENDED", "timeout or cancel", "ENDED"),
    ("ENDED", "replay", "READY"),
    ("ENDED", "replay of a skipped member", "DEPS"),
)

_PUBLIC_BY_OUTCOME = {
    "success": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "skipped": "skipped",
    "none": "failed",
}
_PUBLIC_BY_ELIGIBILITY = {
    "not_eligible_until_time": "delayed",
    "blocked_by_dependencies": "waiting_children",
    "blocked_by_budget": "rate_limited",
    "blocked_by_quota": "rate_limited",
}
_ALIASES: dict[str, dict[str, str]] = {
    "lifecycle_phase": {
        "cancelled": "terminal",
        "pending": "submitted",
        "eligible": "runnable",
        "blocked": "runnable",
    },
    "ownership_state": {"released": "unowned"},
    "eligibility_state": {"cancelled": "not_applicable", "pending_claim": "eligible_now"},
    "attempt_state": {
        "pending": "pending_first_attempt",
        "pending_claim": "pending_first_attempt",
        "initial": "pending_first_attempt",
        "running": "running_attempt",
        "cancelled": "attempt_terminal",
        "terminal_failed": "attempt_terminal",
    },
    "public_state": {"running": "active", "claimed": "active", "pending": "waiting"},
}
STATE_VALUES: dict[str, frozenset[str]] = {
    "lifecycle_phase": frozenset(LifecyclePhase),
    "ownership_state": frozenset(OwnershipState),
    "eligibility_state": frozenset(EligibilityState),
    "blocking_reason": frozenset(BlockingReason),
    "terminal_outcome": frozenset(TerminalOutcome),
    "attempt_state": frozenset(AttemptState),
    "public_state": frozenset(PublicState),
}


def entering(
    name: str, *, reason: str | None = None, outcome: str | None = None, detail: object = ""
) -> dict[str, object]:
    """The columns that put an execution into a vector, except its attempt state."""
    vector = VECTORS[name]
    ended = outcome or vector.outcomes[0]
    blocked = reason or vector.blocking_reasons[0]
    assert ended in vector.outcomes and blocked in vector.blocking_reasons, name
    return {
        "lifecycle_phase": "cancelled" if ended == "cancelled" else vector.lifecycle_phase,
        "ownership_state": vector.ownership_state,
        "eligibility_state": vector.eligibility_state,
        "blocking_reason": blocked,
        "blocking_detail": detail,
        "terminal_outcome": "none" if name != "ENDED" else ended,
        "public_state": vector.public_state or _PUBLIC_BY_OUTCOME[ended],
    }


def public_state(lifecycle_phase: str, eligibility_state: str, terminal_outcome: str) -> str:
    """The state that users see, derived from the rest of the vector."""
    match lifecycle_phase:
        case "terminal":
            return _PUBLIC_BY_OUTCOME[terminal_outcome]
        case "suspended" | "active":
            return lifecycle_phase
        case "runnable":
            return _PUBLIC_BY_ELIGIBILITY.get(eligibility_state, "waiting")
        case _:
            return "waiting"


def canonical(column: str, stored: str) -> str:
    """The public value of a stored state.

    Older stores have spellings of their own. The only alias written by this version is the
    phase of a cancelled execution.
    """
    return _ALIASES.get(column, {}).get(stored, stored)


def is_ended(execution: Execution) -> bool:
    return execution.lifecycle_phase in ENDED_PHASES


def vector_of(execution: Execution) -> StateVector:
    phase = canonical("lifecycle_phase", execution.lifecycle_phase)
    eligibility = canonical("eligibility_state", execution.eligibility_state)
    return StateVector(
        phase,
        canonical("ownership_state", execution.ownership_state),
        eligibility,
        execution.blocking_reason,
        execution.terminal_outcome,
        canonical("attempt_state", execution.attempt_state),
        public_state(phase, eligibility, execution.terminal_outcome),
    )


def name_of(vector: StateVector) -> str | None:
    """The name of a legal combination, or None for corruption."""
    for candidate in VECTORS.values():
        if (
            vector.lifecycle_phase == candidate.lifecycle_phase
            and vector.ownership_state == candidate.ownership_state
            and vector.eligibility_state == candidate.eligibility_state
            and vector.blocking_reason in candidate.blocking_reasons
            and vector.terminal_outcome in candidate.outcomes
            and vector.attempt_state in candidate.attempt_states
        ):
            return candidate.name
    return None
