from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.execution import Execution
from flowfabric.model.lease import ResumeGrant, ResumeToken
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.fence import check_handle
from flowfabric.rules.leases import reclaim

from .checks import check_lease
from .factory import (
    ATTEMPT_ID,
    IDENT,
    NEW_ATTEMPT_ID,
    NEW_LEASE_ID,
    NOW,
    TTL,
    WORKER,
    answer,
    applied,
    attempt,
    execution,
    handle,
    lane,
    load,
    refusal,
    run,
    seeded,
    snapshot,
    stored,
)

WAITING = execution(attempt_state="attempt_interrupted")


def taken_over(of: Execution | None, *, expires_in: int = 1_000, **around: Any) -> Decision:
    token = ResumeToken(
        ResumeGrant(IDENT, "{fp:7}", "key", NOW + expires_in, "default"), WORKER, "i", TTL
    )
    return reclaim.claim_from_resume_grant(
        snapshot(of, **around), token, lease_id=NEW_LEASE_ID, attempt_id=NEW_ATTEMPT_ID
    )


RAN_OUT = execution("RUNNING", lease_expires_at_ms=NOW)


@pytest.mark.parametrize(
    ("of", "around", "code"),
    [
        (None, {}, "execution_not_found"),
        (WAITING, {"attempt": None}, "attempt_not_found"),
        (WAITING, {"expires_in": -1}, "claim_grant_expired"),
        (execution("LOST"), {"expires_in": -1}, "claim_grant_expired"),
        (RAN_OUT, {"expires_in": -1}, "claim_grant_expired"),
    ],
)
def test_taking_over_refuses_in_order(
    of: Execution | None, around: dict[str, Any], code: str
) -> None:
    assert refusal(taken_over(of, **around)) == code


@pytest.mark.parametrize(
    "of",
    [
        execution("ENDED"),
        execution("ENDED", outcome="cancelled"),
        execution("SUSPENDED"),
        execution(),
        execution(attempt_state="pending_retry_attempt"),
        execution(attempt_state="pending_replay_attempt"),
        execution("RUNNING"),
        execution("RUNNING", lease_expires_at_ms=NOW + 1),
        execution("DELAYED", "attempt_interrupted"),
        execution("BUDGET", "attempt_interrupted"),
    ],
)
def test_nothing_is_taken_over_while_it_is_held_or_not_interrupted(of: Execution) -> None:
    assert answer(taken_over(of)) is None


@pytest.mark.parametrize(
    ("state", "held"),
    [("active", False), ("draining", False), ("paused", True), ("disabled", True)],
)
def test_a_held_lane_grants_no_reclaim(state: str, held: bool) -> None:
    for of in (WAITING, execution("LOST"), RAN_OUT):
        decision = taken_over(of, lane=lane(state))
        assert (answer(decision) is None) if held else isinstance(decision, Commit)


def test_a_live_lease_is_checked_before_the_expiry_of_the_token() -> None:
    assert answer(taken_over(execution("RUNNING"), expires_in=-1)) is None


@pytest.mark.parametrize(("before", "losses"), [(WAITING, 0), (execution("LOST"), 1), (RAN_OUT, 1)])
def test_taking_over_continues_the_same_attempt_under_a_higher_epoch(
    before: Execution, losses: int
) -> None:
    store = applied(taken_over(before, expires_in=0), before, attempt(before))
    after = check_lease(before, store, new=False, event="reclaimed")
    assert (after.current_attempt_id, after.lease_reclaim_count) == (ATTEMPT_ID, losses)


@pytest.mark.parametrize("limit", [None, 900])
def test_reclaiming_restores_the_full_attempt_timeout(limit: int | None) -> None:
    marked = execution("LOST", attempt_timeout_ms=limit, attempt_timeout_remaining_ms=limit)
    unmarked = execution(
        "RUNNING", lease_expires_at_ms=NOW, attempt_timeout_at_ms=NOW + 3, attempt_timeout_ms=limit
    )
    for before in (marked, unmarked):
        after = stored(applied(taken_over(before), before, attempt(before)))
        assert after.attempt_timeout_at_ms == (None if limit is None else NOW + limit)


@pytest.mark.parametrize("before", [execution("LOST"), RAN_OUT])
def test_a_late_call_on_a_reclaimed_lease_is_expired(before: Execution) -> None:
    store = applied(taken_over(before), before, attempt(before))
    assert refusal(check_handle(load(store, 0), handle(before))) == "lease_expired"


@pytest.mark.parametrize("vector", ["LOST", "RUNNING"])
def test_taking_over_fails_an_execution_over_the_reclaim_limit(vector: str) -> None:
    before = execution(vector, max_reclaim_count=2, lease_reclaim_count=2, lease_expires_at_ms=NOW)
    store = seeded(before, attempt(before))
    for _ in range(2):
        decision = taken_over(stored(store))
        if isinstance(decision, Commit):
            assert isinstance(run(store.commit(decision.plan)), Applied)
    assert (stored(store).terminal_outcome, stored(store).failure_reason) == (
        "failed",
        "max_reclaims_exceeded",
    )
