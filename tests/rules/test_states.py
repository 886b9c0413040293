from __future__ import annotations

from itertools import product

import msgspec
import pytest

from flowfabric.model.execution import StateVector
from flowfabric.model.state import PublicState
from flowfabric.rules.states import (
    STATE_VALUES,
    TRANSITIONS,
    VECTORS,
    canonical,
    entering,
    is_ended,
    name_of,
    public_state,
    vector_of,
)

from .factory import execution

WORDS = {
    "lifecycle_phase": {"submitted", "runnable", "active", "suspended", "terminal"},
    "ownership_state": {"unowned", "leased", "lease_expired_reclaimable", "lease_revoked"},
    "eligibility_state": {
        "eligible_now",
        "not_eligible_until_time",
        "blocked_by_dependencies",
        "blocked_by_budget",
        "blocked_by_quota",
        "blocked_by_route",
        "blocked_by_lane_state",
        "blocked_by_operator",
        "not_applicable",
    },
    "blocking_reason": {
        "none",
        "waiting_for_worker",
        "waiting_for_retry_backoff",
        "waiting_for_resume_delay",
        "waiting_for_delay",
        "waiting_for_signal",
        "waiting_for_approval",
        "waiting_for_callback",
        "waiting_for_tool_result",
        "waiting_for_children",
        "waiting_for_budget",
        "waiting_for_quota",
        "waiting_for_capable_worker",
        "waiting_for_locality_match",
        "paused_by_operator",
        "paused_by_policy",
        "paused_by_flow_cancel",
    },
    "terminal_outcome": {"none", "success", "failed", "cancelled", "expired", "skipped"},
    "attempt_state": {
        "none",
        "pending_first_attempt",
        "running_attempt",
        "attempt_interrupted",
        "pending_retry_attempt",
        "pending_replay_attempt",
        "attempt_terminal",
    },
    "public_state": {state.value for state in PublicState},
}
PHASES, OWNERS, ELIGIBILITIES = (
    WORDS[column] for column in ("lifecycle_phase", "ownership_state", "eligibility_state")
)
OUTCOMES = {
    "success": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "skipped": "skipped",
}


@pytest.mark.parametrize(("outcome", "shown"), [*OUTCOMES.items(), ("none", "failed")])
def test_an_ended_execution_shows_its_outcome(outcome: str, shown: str) -> None:
    for eligibility in ELIGIBILITIES:
        assert public_state("terminal", eligibility, outcome) == shown


@pytest.mark.parametrize("phase", ["suspended", "active"])
def test_suspended_and_active_show_themselves(phase: str) -> None:
    for eligibility in ELIGIBILITIES:
        assert public_state(phase, eligibility, "none") == phase


@pytest.mark.parametrize(
    ("eligibility", "shown"),
    [
        ("eligible_now", "waiting"),
        ("not_eligible_until_time", "delayed"),
        ("blocked_by_dependencies", "waiting_children"),
        ("blocked_by_budget", "rate_limited"),
        ("blocked_by_quota", "rate_limited"),
        ("blocked_by_route", "waiting"),
        ("blocked_by_lane_state", "waiting"),
        ("blocked_by_operator", "waiting"),
        ("not_applicable", "waiting"),
    ],
)
def test_a_runnable_execution_shows_what_it_waits_for(eligibility: str, shown: str) -> None:
    assert public_state("runnable", eligibility, "none") == shown
    assert public_state("submitted", eligibility, "none") == "waiting"


def test_every_derivation_is_a_public_state_and_none_is_resumable() -> None:
    shown = {
        public_state(*words) for words in product(PHASES, ELIGIBILITIES, WORDS["terminal_outcome"])
    }
    assert shown == set(PublicState) - {"resumable"}


@pytest.mark.parametrize("name", VECTORS)
def test_entering_a_vector_writes_its_columns(name: str) -> None:
    vector = VECTORS[name]
    for reason, outcome, attempt_state in product(
        vector.blocking_reasons, vector.outcomes, vector.attempt_states
    ):
        row = execution(name, attempt_state, reason=reason, outcome=outcome)
        seen = vector_of(row)
        assert name_of(seen) == name
        assert (seen.blocking_reason, seen.terminal_outcome, seen.attempt_state) == (
            reason,
            outcome,
            attempt_state,
        )
        assert row.public_state == seen.public_state


@pytest.mark.parametrize("column", WORDS)
def test_the_words_of_a_column_are_those_of_the_api(column: str) -> None:
    assert STATE_VALUES[column] == WORDS[column]


@pytest.mark.parametrize("name", VECTORS)
def test_every_vector_has_a_meaning_and_an_exit(name: str) -> None:
    assert VECTORS[name].leaves_by
    assert VECTORS[name].meaning


def test_no_two_vectors_overlap() -> None:
    places = [(v.lifecycle_phase, v.ownership_state, v.eligibility_state) for v in VECTORS.values()]
    assert len(set(places)) == len(places)


def test_transitions_name_vectors() -> None:
    for source, verb, target in TRANSITIONS:
        assert source == "" or source in VECTORS
        assert verb
        assert target in VECTORS


@pytest.mark.parametrize(
    ("name", "reason", "outcome"),
    [
        ("READY", "waiting_for_delay", None),
        ("READY", None, "success"),
        ("ENDED", None, "none"),
        ("RUNNING", "paused_by_policy", None),
    ],
)
def test_a_vector_refuses_values_of_another(
    name: str, reason: str | None, outcome: str | None
) -> None:
    with pytest.raises(AssertionError):
        entering(name, reason=reason, outcome=outcome)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_only_a_cancelled_execution_is_stored_under_an_alias(outcome: str) -> None:
    written = entering("ENDED", outcome=outcome)
    assert written["lifecycle_phase"] == ("cancelled" if outcome == "cancelled" else "terminal")
    assert written["public_state"] == OUTCOMES[outcome]
    row = execution("ENDED", outcome=outcome)
    assert is_ended(row)
    assert vector_of(row).lifecycle_phase == "terminal"


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "ENDED"])
def test_nothing_else_counts_as_ended(name: str) -> None:
    assert not is_ended(execution(name))


@pytest.mark.parametrize(
    ("column", "stored", "read"),
    [
        ("lifecycle_phase", "cancelled", "terminal"),
        ("lifecycle_phase", "pending", "submitted"),
        ("lifecycle_phase", "eligible", "runnable"),
        ("lifecycle_phase", "blocked", "runnable"),
        ("ownership_state", "released", "unowned"),
        ("eligibility_state", "cancelled", "not_applicable"),
        ("eligibility_state", "pending_claim", "eligible_now"),
        ("attempt_state", "pending", "pending_first_attempt"),
        ("attempt_state", "pending_claim", "pending_first_attempt"),
        ("attempt_state", "initial", "pending_first_attempt"),
        ("attempt_state", "running", "running_attempt"),
        ("attempt_state", "cancelled", "attempt_terminal"),
        ("attempt_state", "terminal_failed", "attempt_terminal"),
        ("public_state", "running", "active"),
        ("public_state", "claimed", "active"),
        ("public_state", "pending", "waiting"),
        ("lifecycle_phase", "active", "active"),
        ("blocking_reason", "cancelled", "cancelled"),
    ],
)
def test_private_spellings_are_read_canonically(column: str, stored: str, read: str) -> None:
    assert canonical(column, stored) == read


def test_canonical_values_are_unchanged() -> None:
    for column, words in STATE_VALUES.items():
        assert {canonical(column, word) for word in words} == words


LEGAL = vector_of(execution("RUNNING"))


@pytest.mark.parametrize(
    "changed",
    [
        {"lifecycle_phase": "submitted"},
        {"lifecycle_phase": "suspended"},
        {"ownership_state": "unowned"},
        {"ownership_state": "lease_revoked"},
        {"eligibility_state": "eligible_now"},
        {"blocking_reason": "waiting_for_worker"},
        {"terminal_outcome": "success"},
        {"attempt_state": "attempt_interrupted"},
        {"attempt_state": "none"},
    ],
)
def test_one_wrong_word_is_corruption(changed: dict[str, str]) -> None:
    assert name_of(LEGAL) == "RUNNING"
    assert name_of(msgspec.structs.replace(LEGAL, **changed)) is None


def test_the_invariants_of_the_vector_follow_from_the_table() -> None:
    for phase, ownership, eligibility, outcome in product(
        PHASES, OWNERS, ELIGIBILITIES, WORDS["terminal_outcome"]
    ):
        for vector in VECTORS.values():
            for blocking, attempt in product(vector.blocking_reasons, vector.attempt_states):
                seen = StateVector(phase, ownership, eligibility, blocking, outcome, attempt, "")
                if name_of(seen) is None:
                    continue
                assert (ownership == "leased") == (
                    phase == "active" and attempt == "running_attempt"
                )
                assert (outcome != "none") == (phase == "terminal")
                assert eligibility != "eligible_now" or (
                    phase == "runnable" and ownership == "unowned"
                )
