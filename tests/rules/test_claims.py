from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.model.execution import Execution
from flowfabric.model.lease import ClaimExecutionArgs, ClaimResumedArgs, HandleKind
from flowfabric.rules.claims import claims
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .checks import check_lease
from .factory import (
    ATTEMPT_ID,
    IDENT,
    LEASE_ID,
    NEW_ATTEMPT_ID,
    NEW_LEASE_ID,
    NOW,
    TTL,
    WORKER,
    applied,
    attempt,
    execution,
    grant,
    lane,
    refusal,
    run,
    seeded,
    snapshot,
    stored,
    stored_attempt,
)

NEW = {"lease_id": NEW_LEASE_ID, "attempt_id": NEW_ATTEMPT_ID}
PENDING = ("pending_first_attempt", "pending_retry_attempt", "pending_replay_attempt")


def claimed(
    of: Execution | None, *, worker: str = WORKER, args: dict[str, Any] | None = None, **around: Any
) -> Decision:
    around.setdefault("grant", grant())
    asked = ClaimExecutionArgs(
        execution_id=IDENT,
        worker_id=worker,
        worker_instance_id="i",
        lease_ttl_ms=TTL,
        **(args or {}),
    )
    return claims.claim_execution(snapshot(of, **around), asked, **NEW)


def resumed(of: Execution | None, remaining: int | None = None, **around: Any) -> Decision:
    asked = ClaimResumedArgs(
        execution_id=IDENT,
        worker_id=WORKER,
        worker_instance_id="i",
        lease_ttl_ms=TTL,
        remaining_attempt_timeout_ms=remaining,
    )
    return claims.claim_resumed(snapshot(of, **around), asked, **NEW)


def taken(of: Execution | None, lane_id: str = "default", **around: Any) -> Decision:
    return claims.issue_grant_and_claim(snapshot(of, **around), lane_id, TTL, **NEW)


# ---- claim_execution

READY = execution()


@pytest.mark.parametrize(
    ("of", "around", "code"),
    [
        (None, {}, "execution_not_found"),
        (execution("RUNNING"), {"grant": None}, "lease_conflict"),
        (execution("LOST"), {"grant": None}, "execution_not_leaseable"),
        (execution("SUSPENDED"), {"grant": None}, "execution_not_leaseable"),
        (execution("ENDED"), {"grant": None}, "execution_not_leaseable"),
        (
            execution(ownership_state="lease_revoked", eligibility_state="blocked_by_quota"),
            {},
            "lease_conflict",
        ),
        (execution("DELAYED", "attempt_interrupted"), {"grant": None}, "execution_not_leaseable"),
        (execution("BUDGET"), {"grant": None}, "execution_not_leaseable"),
        (READY, {"lane": lane("paused"), "grant": None}, "execution_not_leaseable"),
        (READY, {"lane": lane("disabled")}, "execution_not_leaseable"),
        (
            execution(attempt_state="running_attempt", total_attempt_count=0),
            {"grant": None},
            "active_attempt_exists",
        ),
        (
            execution(attempt_state="attempt_interrupted"),
            {"grant": None},
            "use_claim_resumed_execution",
        ),
        (READY, {"grant": None}, "invalid_claim_grant"),
        (READY, {"grant": grant("reclaim")}, "invalid_claim_grant"),
        (READY, {"grant": grant(worker_id="other")}, "invalid_claim_grant"),
        (READY, {"grant": grant(worker_id="other", expires_in=-1)}, "invalid_claim_grant"),
        (READY, {"grant": grant(expires_in=-1)}, "claim_grant_expired"),
    ],
)
def test_claim_execution_checks_in_order(
    of: Execution | None, around: dict[str, Any], code: str
) -> None:
    assert refusal(claimed(of, **around)) == code


def test_a_grant_holds_until_its_time_is_past() -> None:
    assert isinstance(claimed(READY, grant=grant(expires_in=0)), Commit)


@pytest.mark.parametrize("state", ["active", "draining"])
def test_an_open_lane_and_a_draining_one_run_what_is_there(state: str) -> None:
    assert isinstance(claimed(READY, lane=lane(state)), Commit)


@pytest.mark.parametrize("state", PENDING)
def test_claim_execution_starts_the_attempt_that_is_pending(state: str) -> None:
    before = execution(
        attempt_state=state, pending_retry_reason="boom", pending_replay_reason="again"
    )
    new = before.current_attempt_id is None
    store = applied(
        claimed(before, args={"attempt_policy_json": '{"x":1}'}), before, attempt(before), grant()
    )
    after = check_lease(before, store, new=new)
    row = stored_attempt(store, after.attempt_index)
    if new:
        assert after.current_attempt_id == NEW_ATTEMPT_ID
        kind = "retry" if state == "pending_retry_attempt" else "initial"
        assert (row.attempt_type, row.retry_reason, row.policy) == (kind, "boom", '{"x":1}')
        assert row.previous_attempt_index == before.pending_previous_attempt_index
        assert (row.created_at_ms, row.started_at_ms) == (NOW, NOW)
    assert (
        after.pending_retry_reason,
        after.pending_replay_reason,
        after.pending_previous_attempt_index,
    ) == (None, None, None)


def test_a_replayed_attempt_takes_the_id_the_caller_gives_it() -> None:
    before = execution(attempt_state="pending_replay_attempt")
    store = applied(claimed(before), before, attempt(before), grant())
    assert stored(store).current_attempt_id == stored_attempt(store).attempt_id == NEW_ATTEMPT_ID


def test_a_replay_without_an_earlier_attempt_starts_a_new_one() -> None:
    before = execution(
        attempt_state="pending_replay_attempt",
        current_attempt_id=None,
        total_attempt_count=0,
        pending_replay_reason="r",
    )
    store = applied(claimed(before), before, grant())
    check_lease(before, store, new=True)
    assert (stored_attempt(store).attempt_type, stored_attempt(store).replay_reason) == (
        "replay",
        "r",
    )


@pytest.mark.parametrize(
    ("argument", "policy", "at"),
    [(None, None, None), (None, 500, NOW + 500), (200, 500, NOW + 200), (0, 500, NOW + 500)],
)
def test_the_attempt_timeout_is_the_arguments_else_the_policys(
    argument: int | None, policy: int | None, at: int | None
) -> None:
    before = execution(attempt_timeout_ms=policy)
    store = applied(claimed(before, args={"attempt_timeout_ms": argument}), before, grant())
    assert stored(store).attempt_timeout_at_ms == stored_attempt(store).attempt_timeout_at_ms == at


@pytest.mark.parametrize(
    ("argument", "kept"),
    [(None, (NOW + 5, "policy")), (0, (NOW + 5, "policy")), (NOW + 9, (NOW + 9, "argument"))],
)
def test_a_deadline_given_at_the_claim_replaces_the_stored_one(
    argument: int | None, kept: tuple[int, str]
) -> None:
    before = execution(deadline_at_ms=NOW + 5, deadline_origin="policy")
    after = stored(
        applied(claimed(before, args={"execution_deadline_at": argument}), before, grant())
    )
    assert (after.deadline_at_ms, after.deadline_origin) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", None),
        ("{}", "{}"),
        ('{"a":1}', '{"a":1}'),
        ("[]", None),
        ("1", None),
        ("{", None),
        ("null", None),
    ],
)
def test_an_attempt_policy_is_kept_only_when_it_is_an_object(text: str, kept: str | None) -> None:
    assert claims.policy_text(text) == kept


def test_the_policy_a_failure_left_for_the_next_attempt_is_used_unless_one_is_given() -> None:
    before = execution(attempt_state="pending_retry_attempt", pending_attempt_policy='{"next":1}')
    assert stored_attempt(applied(claimed(before), before, grant()), 1).policy == '{"next":1}'
    given = claimed(before, args={"attempt_policy_json": '{"given":1}'})
    store = applied(given, before, grant())
    assert (stored_attempt(store, 1).policy, stored(store).pending_attempt_policy) == (
        '{"given":1}',
        None,
    )


@pytest.mark.parametrize(
    ("state", "kind"),
    [*[(s, HandleKind.FRESH) for s in PENDING], ("attempt_interrupted", HandleKind.RESUMED)],
)
def test_the_kind_of_handle_follows_from_the_attempt_state(state: str, kind: HandleKind) -> None:
    assert claims.kind_after(state) is kind


@pytest.mark.parametrize(("ttl", "within"), [(30_000, 20_000), (1, 0), (100, 66)])
def test_a_lease_is_renewed_within_two_thirds_of_its_time(ttl: int, within: int) -> None:
    assert claims.renew_within_ms(ttl) == within


# ---- claim_resumed_execution

WAITING = execution(attempt_state="attempt_interrupted")


@pytest.mark.parametrize(
    ("of", "around", "code"),
    [
        (None, {}, "execution_not_found"),
        (execution("RUNNING"), {}, "execution_not_leaseable"),
        (execution("SUSPENDED"), {}, "not_a_resumed_execution"),
        (execution("LOST"), {}, "execution_not_leaseable"),
        (execution("ENDED"), {}, "execution_not_leaseable"),
        *[(execution(attempt_state=state), {}, "not_a_resumed_execution") for state in PENDING],
        (execution("DELAYED"), {}, "not_a_resumed_execution"),
        (execution("DELAYED", "attempt_interrupted"), {}, "execution_not_leaseable"),
        (execution("DEPS", "attempt_interrupted"), {"grant": grant()}, "execution_not_leaseable"),
        (WAITING, {"lane": lane("paused")}, "execution_not_leaseable"),
        (WAITING, {"grant": grant(worker_id="other")}, "invalid_claim_grant"),
    ],
)
def test_claim_resumed_checks_in_order(
    of: Execution | None, around: dict[str, Any], code: str
) -> None:
    assert refusal(resumed(of, **around)) == code


@pytest.mark.parametrize("held", [None, grant(), grant(expires_in=0)])
def test_a_resumed_claim_needs_no_grant_and_consumes_its_own(held: Any) -> None:
    store = applied(resumed(WAITING, grant=held), WAITING, attempt(WAITING), held)
    after = check_lease(WAITING, store, new=False)
    row = stored_attempt(store)
    assert (
        after.current_attempt_id,
        row.resumed_at_ms,
        row.suspended_at_ms,
        row.suspension_id,
    ) == (ATTEMPT_ID, NOW, None, None)
    assert (row.attempt_type, after.lease_reclaim_count) == ("initial", 0)


@pytest.mark.parametrize(
    "left_over",
    [grant(worker_id="other", expires_in=-1), grant("reclaim", worker_id="other", expires_in=-1)],
)
def test_a_grant_that_ran_out_stands_in_nobodys_way(left_over: Any) -> None:
    assert isinstance(resumed(WAITING, grant=left_over), Commit)


@pytest.mark.parametrize(
    ("given", "left", "at"),
    [(None, None, None), (None, 70, NOW + 70), (40, 70, NOW + 40), (0, 70, NOW + 70)],
)
def test_the_attempts_clock_goes_on_where_it_stopped(
    given: int | None, left: int | None, at: int | None
) -> None:
    before = execution(
        attempt_state="attempt_interrupted",
        attempt_timeout_ms=999,
        attempt_timeout_remaining_ms=left,
    )
    after = stored(applied(resumed(before, given), before, attempt(before)))
    assert (after.attempt_timeout_at_ms, after.attempt_timeout_remaining_ms) == (at, None)


@pytest.mark.parametrize(
    ("cause", "count"),
    [("lease_expired", 3), ("lease_revoked", 2), ("delayed", 2), ("suspended", 2), ("children", 2)],
)
def test_only_a_lost_lease_counts_as_a_loss(cause: str, count: int) -> None:
    before = execution(
        attempt_state="attempt_interrupted", interrupt_cause=cause, lease_reclaim_count=2
    )
    assert stored(applied(resumed(before), before)).lease_reclaim_count == count
    assert stored(sweep(before)).lease_reclaim_count == count


# ---- the claim of a lane's best


def sweep(
    *rows: Any, lane_id: str = "default", capabilities: tuple[str, ...] = (), limit: int = 1
) -> MemoryStore:
    store = seeded(*rows)
    asked: dict[str, Any] = {"lane": lane_id, "namespace": "default", "capabilities": capabilities}
    plan = claims.claim(**asked, worker_id=WORKER, instance="i", ttl_ms=TTL)
    run(store.sweep(plan, limit))
    return store


@pytest.mark.parametrize("state", VECTORS["READY"].attempt_states)
def test_a_claim_starts_or_continues_the_attempt(state: str) -> None:
    before = execution(attempt_state=state, attempt_timeout_ms=500, attempt_timeout_remaining_ms=70)
    after = stored(sweep(before, attempt(before)))
    assert (name_of(vector_of(after)), after.lease_epoch) == ("RUNNING", before.lease_epoch + 1)
    assert after.total_attempt_count == (1 if state != "pending_retry_attempt" else 2)
    new = before.current_attempt_id is None
    assert after.attempt_timeout_at_ms == NOW + (500 if new else 70)
    assert after.current_worker_instance_id == "i"


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "READY"])
def test_a_claim_takes_nothing_but_what_is_ready(name: str) -> None:
    before = execution(name)
    assert stored(sweep(before)) == before


@pytest.mark.parametrize(
    ("columns", "offered", "taken_now"),
    [
        ({}, (), True),
        ({"required_capabilities": ("gpu",)}, (), False),
        ({"required_capabilities": ("gpu", "eu")}, ("gpu",), False),
        ({"required_capabilities": ("gpu",)}, ("eu", "gpu"), True),
        ({"reserved_for": "other", "reserved_until_ms": NOW}, (), False),
        ({"reserved_for": "other", "reserved_until_ms": NOW - 1}, (), True),
        ({"reserved_for": WORKER, "reserved_until_ms": NOW + 9}, (), True),
        ({"lane_id": "another"}, (), False),
        ({"namespace": "another"}, (), False),
    ],
)
def test_what_a_claim_may_take(
    columns: dict[str, Any], offered: tuple[str, ...], taken_now: bool
) -> None:
    after = stored(sweep(execution(**columns), capabilities=offered))
    assert (after.lifecycle_phase == "active") is taken_now


def test_a_claim_never_reuses_a_lease_id() -> None:
    after = stored(sweep(WAITING, attempt(WAITING)))
    assert isinstance(after.current_lease_id, UUID)
    assert after.current_lease_id != LEASE_ID


# ---- issue_grant_and_claim


@pytest.mark.parametrize(
    ("of", "around", "code"),
    [
        (None, {}, "execution_not_found"),
        (execution("RUNNING"), {"lane_id": "another"}, "invalid_input"),
        (execution("RUNNING"), {"grant": grant()}, "lease_conflict"),
        (execution("LOST"), {}, "lease_conflict"),
        (execution("SUSPENDED"), {"grant": grant()}, "execution_not_eligible"),
        (execution("ENDED"), {}, "execution_not_eligible"),
        (execution(attempt_state="running_attempt"), {"grant": grant()}, "active_attempt_exists"),
        (READY, {"grant": grant()}, "grant_already_exists"),
        (execution("DELAYED"), {"grant": grant()}, "grant_already_exists"),
        *[
            (execution(name), {}, "execution_not_eligible")
            for name in ("DELAYED", "DEPS", "BUDGET", "QUOTA", "ROUTE", "OPBLOCK", "LANEBLOCK")
        ],
        *[
            (execution(name, "attempt_interrupted"), {}, "execution_not_eligible")
            for name in ("DELAYED", "DEPS")
        ],
    ],
)
def test_issue_grant_and_claim_checks_in_order(
    of: Execution | None, around: dict[str, Any], code: str
) -> None:
    assert refusal(taken(of, **around)) == code


def test_a_wrong_lane_names_both() -> None:
    decision = taken(READY, "another")
    assert refusal(decision) == "invalid_input"
    assert "lane_mismatch: args.lane_id=another exec_core.lane_id=default" in str(decision.error)  # type: ignore[union-attr]


@pytest.mark.parametrize("held", [None, grant(worker_id="other", expires_in=-1)])
@pytest.mark.parametrize("state", VECTORS["READY"].attempt_states)
def test_an_operator_takes_what_is_ready(state: str, held: Any) -> None:
    before = execution(attempt_state=state, required_capabilities=("gpu",))
    store = applied(taken(before, grant=held), before, attempt(before), held)
    after = check_lease(before, store, new=before.current_attempt_id is None, worker="operator")
    assert after.current_worker_instance_id == "operator"


@pytest.mark.parametrize("name", ["BUDGET", "QUOTA", "ROUTE", "OPBLOCK", "LANEBLOCK"])
def test_an_operator_continues_an_interrupted_attempt_that_is_held_back(name: str) -> None:
    before = execution(name, "attempt_interrupted")
    check_lease(
        before, applied(taken(before), before, attempt(before)), new=False, worker="operator"
    )


@pytest.mark.parametrize(
    ("limit", "ends_at", "used"),
    [
        (None, None, 0),
        (1_000, None, 0),
        (None, NOW, 0),
        (1_000, NOW + 1_000, 0),
        (1_000, NOW + 300, 700),
        (1_000, NOW + 5_000, 0),
    ],
)
def test_how_much_of_its_time_an_attempt_has_used(
    limit: int | None, ends_at: int | None, used: int
) -> None:
    assert claims.time_used_ms(NOW, limit, ends_at) == used
