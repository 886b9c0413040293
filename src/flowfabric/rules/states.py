"""The state vector as data: the legal combinations, their public states, and the transitions."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model.execution import Execution, StateVector
from flowfabric.model.state import ENDED_PHASES, PublicState

_REPEATED = ("pending_retry_attempt", "pending_replay_attempt")
_PENDING = ("pending_first_attempt", "attempt_interrupted", *_REPEATED)
_OUTCOMES = ("success", "failed", "cancelled", "expired", "skipped")
_DELAYS = ("waiting_for_delay", "waiting_for_retry_backoff", "waiting_for_resume_delay")
_ROUTES = ("waiting_for_capable_worker", "waiting_for_locality_match")
_OPERATORS = ("paused_by_operator", "paused_by_flow_cancel")
_ANSWERS = ("waiting_for_callback", "waiting_for_tool_result")
_SIGNALS = ("waiting_for_signal", "waiting_for_approval", *_ANSWERS)
_PAUSES = ("waiting_for_budget", "paused_by_operator", "paused_by_policy")


class Vector(Struct, frozen=True):
    """A legal combination. `entering` writes the first value of each tuple by default."""

    name: str
    meaning: str
    leaves_by: str
    public_state: str
    eligibility_state: str
    blocking_reasons: tuple[str, ...] = ("none",)
    lifecycle_phase: str = "runnable"
    ownership_state: str = "unowned"
    attempt_states: tuple[str, ...] = _PENDING
    outcomes: tuple[str, ...] = ("none",)


_VECTORS = (
    Vector("READY", "can be claimed", "claim", "waiting", "eligible_now", ("waiting_for_worker",)),
    Vector("DELAYED", "waits for a time", "timer", "delayed", "not_eligible_until_time", _DELAYS),
    Vector(
        "DEPS",
        "waits for other executions",
        "dependency",
        "waiting_children",
        "blocked_by_dependencies",
        ("waiting_for_children",),
    ),
    Vector(
        "BUDGET",
        "its budget is spent",
        "timer",
        "rate_limited",
        "blocked_by_budget",
        ("waiting_for_budget",),
    ),
    Vector(
        "QUOTA",
        "its quota is used up",
        "timer",
        "rate_limited",
        "blocked_by_quota",
        ("waiting_for_quota",),
    ),
    Vector(
        "ROUTE",
        "no live worker can run it",
        "worker registration",
        "waiting",
        "blocked_by_route",
        _ROUTES,
    ),
    Vector(
        "OPBLOCK", "held by an operator", "operator", "waiting", "blocked_by_operator", _OPERATORS
    ),
    Vector(
        "LANEBLOCK",
        "held by its lane",
        "operator",
        "waiting",
        "blocked_by_lane_state",
        ("paused_by_policy",),
    ),
    Vector(
        "RUNNING",
        "a worker holds a live lease",
        "worker or lease expiry",
        "active",
        "not_applicable",
        ("none",),
        "active",
        "leased",
        ("running_attempt",),
    ),
    Vector(
        "LOST",
        "its lease has expired",
        "reclaim or requeue",
        "active",
        "not_applicable",
        ("waiting_for_worker",),
        "active",
        "lease_expired_reclaimable",
        ("attempt_interrupted",),
    ),
    Vector(
        "SUSPENDED",
        "waits for a signal",
        "signal or timer",
        "suspended",
        "not_applicable",
        (*_SIGNALS, *_PAUSES),
        "suspended",
        "unowned",
        ("attempt_interrupted",),
    ),
    Vector(
        "ENDED",
        "has ended",
        "replay or retention",
        "",
        "not_applicable",
        ("none",),
        "terminal",
        "unowned",
        ("attempt_terminal", "none", "pending_first_attempt", *_REPEATED),
        _OUTCOMES,
    ),
)
VECTORS = {vector.name: vector for vector in _VECTORS}
_BY_PLACE = {(v.lifecycle_phase, v.ownership_state, v.eligibility_state): v for v in _VECTORS}

_BLOCKED = ("ROUTE", "BUDGET", "QUOTA", "OPBLOCK", "LANEBLOCK")
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
    *(("READY", "block", name) for name in _BLOCKED),
    *((name, "unblock", "READY") for name in _BLOCKED),
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
_PUBLIC_BY_ELIGIBILITY = {vector.eligibility_state: vector.public_state for vector in _VECTORS[:8]}
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
    "lifecycle_phase": frozenset({"submitted", *(v.lifecycle_phase for v in _VECTORS)}),
    "ownership_state": frozenset({"lease_revoked", *(v.ownership_state for v in _VECTORS)}),
    "eligibility_state": frozenset(v.eligibility_state for v in _VECTORS),
    "blocking_reason": frozenset(reason for v in _VECTORS for reason in v.blocking_reasons),
    "terminal_outcome": frozenset(outcome for v in _VECTORS for outcome in v.outcomes),
    "attempt_state": frozenset(state for v in _VECTORS for state in v.attempt_states),
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
    """The public value of a stored state. This version writes one alias, the phase `cancelled`."""
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
    at = (vector.lifecycle_phase, vector.ownership_state, vector.eligibility_state)
    found = _BY_PLACE.get(at)
    if found is None or vector.attempt_state not in found.attempt_states:
        return None
    reason, outcome = vector.blocking_reason, vector.terminal_outcome
    return found.name if reason in found.blocking_reasons and outcome in found.outcomes else None
