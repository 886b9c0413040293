from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.execution import Execution
from flowfabric.model.lease import (
    GrantNotFound,
    IssueGrantArgs,
    NotReclaimable,
    ReclaimCapExceeded,
    ReclaimExecutionArgs,
    ReclaimGrant,
)
from flowfabric.plan import Applied
from flowfabric.rules.decision import DECIDE_AGAIN, Commit, Decision
from flowfabric.rules.leases import expiry, reclaim
from flowfabric.rules.states import name_of, vector_of

from .factory import (
    IDENT,
    NEW_ATTEMPT_ID,
    NEW_LEASE_ID,
    NOW,
    TTL,
    answer,
    applied,
    attempt,
    commit,
    execution,
    grant,
    lane,
    load,
    refusal,
    seeded,
    snapshot,
    stored,
    stored_attempt,
    told,
)

RUNNING, LOST = execution("RUNNING"), execution("LOST")
RAN_OUT = execution("RUNNING", lease_expires_at_ms=NOW)
TAKEN_AWAY = execution("RUNNING", ownership_state="lease_revoked")
COMPOSITE = f"sqlite:{IDENT.uuid}:0:1"


def interrupted(cause: str | None, name: str = "READY", **columns: Any) -> Execution:
    return execution(name, "attempt_interrupted", interrupt_cause=cause, **columns)


def lost(**columns: Any) -> Execution:
    return execution("LOST", lease_expired_at=NOW - 5_000, **columns)


def requeued(of: Execution | None, grace_ms: int = 5_000, **around: Any) -> Decision:
    return expiry.requeue(snapshot(of, **around), grace_ms)


# ---- the reclaim limit


@pytest.mark.parametrize(
    ("stored_limit", "called", "limit"),
    [(None, None, 1_000), (None, 5, 5), (None, 0, 0), (7, 5, 7), (0, 5, 0), (100, None, 100)],
)
def test_the_reclaim_limit(stored_limit: int | None, called: int | None, limit: int) -> None:
    assert expiry.reclaim_limit(execution(max_reclaim_count=stored_limit), called) == limit


def reclaimed(
    of: Execution | None,
    *,
    caller: str = "worker",
    cap: int | None = None,
    policy: str = "",
    **around: Any,
) -> Decision:
    around.setdefault("grant", grant("reclaim"))
    args = ReclaimExecutionArgs(
        execution_id=IDENT,
        worker_id=caller,
        worker_instance_id="i",
        lease_ttl_ms=TTL,
        max_reclaim_count=cap,
        attempt_policy_json=policy,
    )
    return reclaim.reclaim(
        snapshot(of, **around), args, lease_id=NEW_LEASE_ID, attempt_id=NEW_ATTEMPT_ID
    )


def granted(of: Execution | None, *, capabilities: tuple[str, ...] = (), **around: Any) -> Decision:
    args = IssueGrantArgs(
        execution_id=IDENT,
        worker_id="w-2",
        worker_instance_id="i",
        grant_ttl_ms=900,
        worker_capabilities=frozenset(capabilities),
    )
    return reclaim.issue_reclaim_grant(snapshot(of, **around), args, grant_id="g-9")


@pytest.mark.parametrize("decide", [requeued, granted, reclaimed])
@pytest.mark.parametrize(
    ("limit", "count", "over"),
    [
        (0, 0, True),
        (2, 1, False),
        (2, 2, True),
        (2, 3, True),
        (None, 999, False),
        (None, 1_000, True),
    ],
)
def test_exceeding_the_reclaim_limit_fails_the_execution(
    decide: Any, limit: int | None, count: int, over: bool
) -> None:
    before = lost(max_reclaim_count=limit, lease_reclaim_count=count)
    decision = decide(before)
    assert isinstance(decision, Commit)
    if not over:
        assert not isinstance(decision.result, ReclaimCapExceeded)
        return
    assert decision.result == ReclaimCapExceeded(IDENT, count)
    store = applied(decision, before, attempt(before), grant("reclaim"))
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.failure_reason) == (
        "ENDED",
        "failed",
        "max_reclaims_exceeded",
    )
    assert (after.attempt_state, after.terminal_at_ms, after.lease_epoch, after.closing_epoch) == (
        "attempt_terminal",
        NOW,
        1,
        1,
    )
    assert (after.current_lease_id, after.lease_expired_at, load(store).grant) == (None, None, None)
    assert (row.attempt_state, row.outcome, row.terminal_at_ms) == (
        "interrupted_reclaimed",
        "interrupted_reclaimed",
        NOW,
    )
    assert told(store) == (["revoked"], ["failed"], [])


def test_the_callers_cap_counts_only_without_a_stored_one() -> None:
    assert isinstance(reclaimed(lost(), cap=0).result, ReclaimCapExceeded)  # type: ignore[union-attr]
    assert reclaimed(lost(max_reclaim_count=5), cap=0).result is None  # type: ignore[union-attr]


# ---- reclaim grants

NOT_RECLAIMABLE = [
    *[
        (execution(name), f"lifecycle_phase={phase} (expected active)")
        for name, phase in (("SUSPENDED", "suspended"), ("ENDED", "terminal"))
    ],
    (execution("ENDED", outcome="cancelled"), "lifecycle_phase=terminal (expected active)"),
    (execution(), "lifecycle_phase=runnable (expected active)"),
    (interrupted("delayed"), "lifecycle_phase=runnable (expected active)"),
    (interrupted("suspended"), "lifecycle_phase=runnable (expected active)"),
    (interrupted("lease_expired", "DELAYED"), "lifecycle_phase=runnable (expected active)"),
    (
        execution(attempt_state="pending_retry_attempt", interrupt_cause="lease_expired"),
        "lifecycle_phase=runnable (expected active)",
    ),
    (RUNNING, "ownership_state=leased (expected lease_expired_reclaimable | lease_revoked)"),
    (
        execution("RUNNING", ownership_state="unowned"),
        "ownership_state=unowned (expected lease_expired_reclaimable | lease_revoked)",
    ),
    (
        execution("RUNNING", lease_expires_at_ms=None),
        "ownership_state=leased (expected lease_expired_reclaimable | lease_revoked)",
    ),
]
RECLAIMABLE = [LOST, TAKEN_AWAY, interrupted("lease_expired"), interrupted("lease_revoked")]


def test_a_reclaim_grant_of_a_missing_execution_is_refused() -> None:
    assert refusal(granted(None)) == "execution_not_found"


@pytest.mark.parametrize(("of", "detail"), NOT_RECLAIMABLE)
def test_not_reclaimable_answers_name_the_state(of: Execution, detail: str) -> None:
    assert answer(granted(of, grant=grant("reclaim"))) == NotReclaimable(IDENT, detail)
    assert answer(reclaimed(of)) == NotReclaimable(
        IDENT, f"{detail}; exec transitioned after grant issuance"
    )


@pytest.mark.parametrize("decide", [granted, reclaimed])
def test_an_unmarked_expired_lease_is_marked_first(decide: Any) -> None:
    decision = decide(RAN_OUT)
    assert isinstance(decision, Commit) and decision.result is DECIDE_AGAIN
    assert name_of(vector_of(stored(applied(decision, RAN_OUT)))) == "LOST"


@pytest.mark.parametrize("kind", ["claim", "reclaim"])
def test_a_second_grant_is_refused_before_capabilities_are_compared(kind: str) -> None:
    needs = execution("LOST", required_capabilities=("gpu",))
    assert refusal(granted(needs, grant=grant(kind, expires_in=0))) == "grant_already_exists"


def test_a_worker_without_the_capabilities_gets_no_grant_and_the_mismatch_is_stored() -> None:
    needs = execution("LOST", required_capabilities=("eu", "gpu"))
    decision = granted(needs, capabilities=("x",))
    assert isinstance(decision, Commit) and decision.result == NotReclaimable(
        IDENT, "capability_mismatch: eu,gpu"
    )
    store = applied(decision, needs)
    assert (stored(store).last_capability_mismatch_at, load(store).grant) == (NOW, None)


@pytest.mark.parametrize("before", RECLAIMABLE)
@pytest.mark.parametrize("old", [None, grant("reclaim", worker_id="other", expires_in=-1)])
def test_a_reclaim_grant_changes_no_state(before: Execution, old: Any) -> None:
    decision = granted(before, grant=old)
    assert isinstance(decision, Commit)
    store = seeded(before, attempt(before), old)
    done = commit(store, decision.plan)
    assert isinstance(done, Applied)
    assert decision.result(done) == ReclaimGrant(IDENT, "{fp:7}", "g-9", NOW + 900, "default")
    made = load(store).grant
    assert made is not None
    assert (made.kind, made.worker_id, made.expires_at_ms) == ("reclaim", "w-2", NOW + 900)
    assert vector_of(stored(store)) == vector_of(before)
    assert told(store) == ([], [], [])


# ---- reclaim


@pytest.mark.parametrize("held", [None, grant("claim")])
def test_reclaiming_needs_a_reclaim_grant(held: Any) -> None:
    assert answer(reclaimed(LOST, grant=held)) == GrantNotFound(IDENT)
    assert answer(reclaimed(None, grant=held)) == GrantNotFound(IDENT)


@pytest.mark.parametrize("expires_in", [1_000, -1])
def test_reclaiming_under_another_workers_grant_is_refused(expires_in: int) -> None:
    decision = reclaimed(
        None, caller="me", grant=grant("reclaim", worker_id="you", expires_in=expires_in)
    )
    assert refusal(decision) == "invalid_input"
    assert decision.error.detail == "reclaim_execution: grant worker_id=you mismatches caller me"  # type: ignore[union-attr]


@pytest.mark.parametrize("of", [None, LOST, RUNNING])
def test_an_expired_reclaim_grant_is_dropped(of: Execution | None) -> None:
    old = grant("reclaim", expires_in=-1)
    decision = reclaimed(of, grant=old)
    assert isinstance(decision, Commit) and decision.result == GrantNotFound(IDENT)
    store = seeded(of, old)
    assert isinstance(commit(store, decision.plan), Applied)
    assert load(store).grant is None
    assert load(store).execution == of


def test_dropping_an_old_grant_never_drops_the_one_that_replaced_it() -> None:
    decision = reclaimed(LOST, grant=grant("reclaim", expires_in=-1))
    assert isinstance(decision, Commit)
    fresh = grant("reclaim", expires_in=1_000)
    store = seeded(LOST, fresh)
    commit(store, decision.plan)
    assert load(store).grant == fresh


def test_reclaiming_a_missing_execution_is_refused() -> None:
    assert refusal(reclaimed(None)) == "execution_not_found"


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (LOST, "lease_lease_expired_reclaimable"),
        (TAKEN_AWAY, "lease_lease_revoked"),
        (interrupted("lease_expired"), "lease_lease_expired_reclaimable"),
        (interrupted("lease_revoked"), "lease_lease_revoked"),
    ],
)
def test_reclaiming_closes_the_lost_attempt_and_starts_another(
    before: Execution, reason: str
) -> None:
    store = applied(reclaimed(before, policy='{"x":1}'), before, attempt(before), grant("reclaim"))
    after, old, new = stored(store), stored_attempt(store, 0), stored_attempt(store, 1)
    assert (name_of(vector_of(after)), after.attempt_index, after.total_attempt_count) == (
        "RUNNING",
        1,
        2,
    )
    assert (after.lease_epoch, after.lease_reclaim_count, after.version) == (
        before.lease_epoch + 1,
        1,
        before.version + 1,
    )
    assert (after.current_lease_id, after.current_attempt_id) == (NEW_LEASE_ID, NEW_ATTEMPT_ID)
    assert (after.lease_expires_at_ms, after.lease_renewal_deadline) == (
        NOW + TTL,
        NOW + TTL * 2 // 3,
    )
    assert (after.interrupt_cause, after.lease_expired_at, after.blocking_detail) == (
        None,
        None,
        "",
    )
    assert (old.attempt_state, old.outcome, old.failure_reason) == (
        "interrupted_reclaimed",
        "interrupted_reclaimed",
        reason,
    )
    assert (old.terminal_at_ms, old.lease_expires_at_ms) == (NOW, None)
    assert (
        new.attempt_type,
        new.attempt_state,
        new.reclaim_reason,
        new.previous_attempt_index,
    ) == (
        "reclaim",
        "started",
        reason,
        0,
    )
    assert (new.attempt_id, new.lease_id, new.lease_epoch, new.policy) == (
        NEW_ATTEMPT_ID,
        NEW_LEASE_ID,
        after.lease_epoch,
        '{"x":1}',
    )
    assert load(store).grant is None
    assert told(store) == (["reclaimed"], [], [])


@pytest.mark.parametrize(
    ("state", "held"),
    [("active", False), ("draining", False), ("paused", True), ("disabled", True)],
)
def test_nothing_is_reclaimed_on_a_held_lane(state: str, held: bool) -> None:
    decision = reclaimed(LOST, lane=lane(state))
    if held:
        assert answer(decision) == NotReclaimable(IDENT, "lane default is held")
    else:
        assert isinstance(decision, Commit)


@pytest.mark.parametrize(("limit", "at"), [(None, None), (300, NOW + 300)])
def test_a_reclaimed_attempt_gets_its_full_time(limit: int | None, at: int | None) -> None:
    before = execution("LOST", attempt_timeout_ms=limit, attempt_timeout_at_ms=NOW + 1)
    assert stored(applied(reclaimed(before), before, grant("reclaim"))).attempt_timeout_at_ms == at


@pytest.mark.parametrize(("expires_in", "dropped"), [(-1, True), (0, False)])
def test_the_sweep_of_grants_drops_only_expired_ones(expires_in: int, dropped: bool) -> None:
    store = seeded(grant(expires_in=expires_in))
    plan = reclaim.drop_expired(IDENT.partition_index, IDENT.uuid)
    assert isinstance(commit(store, plan), Applied) is dropped
