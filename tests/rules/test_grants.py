from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.model.execution import Blocked, Execution, LuaRejected
from flowfabric.model.lease import Granted, IssueGrantArgs
from flowfabric.plan import Applied
from flowfabric.rules.claims import grants
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    IDENT,
    NOW,
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
    told,
)

READY = execution()


def issued(
    of: Execution | None, capabilities: frozenset[str] = frozenset(), **around: Any
) -> Decision:
    args = IssueGrantArgs(
        execution_id=IDENT,
        worker_id="w-2",
        worker_instance_id="w-2-a",
        grant_ttl_ms=4_000,
        worker_capabilities=capabilities,
        capability_hash="h",
        route_snapshot_json="{}",
        admission_summary="ok",
    )
    return grants.issue_claim_grant(snapshot(of, **around), args, grant_id="g-9")


@pytest.mark.parametrize("state", ["active", "draining"])
def test_a_draining_lane_grants_its_executions(state: str) -> None:
    assert isinstance(issued(READY, lane=lane(state)), Commit)


MANY = frozenset(f"{n:03}" for n in range(257))
NEEDS = execution(required_capabilities=("eu", "gpu"))


@pytest.mark.parametrize(
    ("of", "capabilities", "around", "code"),
    [
        (None, (), {}, "execution_not_found"),
        *[
            (execution(name), (), {"grant": grant()}, "execution_not_eligible")
            for name in VECTORS
            if name != "READY"
        ],
        *[
            (READY, (), {"grant": grant(), "lane": lane(state)}, "execution_not_eligible")
            for state in ("paused", "disabled")
        ],
        (NEEDS, MANY, {"grant": grant()}, "grant_already_exists"),
        (NEEDS, MANY, {"grant": grant("reclaim", expires_in=0)}, "grant_already_exists"),
        (NEEDS, MANY, {}, "invalid_capabilities"),
        (NEEDS, ("x" * 4_097,), {}, "invalid_capabilities"),
        (NEEDS, ("gpu",), {}, "capability_mismatch"),
    ],
)
def test_issue_claim_grant_checks_in_order(
    of: Execution | None, capabilities: Any, around: dict[str, Any], code: str
) -> None:
    assert refusal(issued(of, frozenset(capabilities), **around)) == code


@pytest.mark.parametrize(
    ("capabilities", "detail"),
    [(MANY, "worker:too_many_tokens"), ({"x" * 4_097}, "worker:too_many_bytes")],
)
def test_an_error_about_too_many_capabilities_names_the_limit(
    capabilities: Any, detail: str
) -> None:
    decision = issued(READY, frozenset(capabilities))
    assert isinstance(decision, Reject)
    assert decision.error.detail == detail  # type: ignore[attr-defined]


def test_the_limits_of_a_workers_capabilities_are_inclusive() -> None:
    assert isinstance(issued(READY, frozenset(sorted(MANY)[:256])), Commit)
    assert isinstance(issued(READY, frozenset({"x" * 4_096})), Commit)


@pytest.mark.parametrize(
    ("required", "offered", "missing"),
    [
        ((), (), ""),
        (("a",), (), "a"),
        (("b", "a"), (), "a,b"),
        (("a", "b"), ("a",), "b"),
        (("a",), ("a", "z"), ""),
        (("GPU",), ("gpu",), "GPU"),
    ],
)
def test_what_a_worker_lacks_is_sorted_text(
    required: tuple[str, ...], offered: tuple[str, ...], missing: str
) -> None:
    assert (
        grants.missing_capabilities(execution(required_capabilities=required), offered) == missing
    )


def test_a_capability_mismatch_is_stored_although_the_grant_is_refused() -> None:
    decision = issued(NEEDS, frozenset({"eu"}))
    assert isinstance(decision, Reject) and decision.mark is not None
    assert decision.error.detail == "gpu"  # type: ignore[attr-defined]
    store = seeded(NEEDS)
    assert isinstance(commit(store, decision.mark), Applied)
    assert stored(store).last_capability_mismatch_at == NOW
    assert name_of(vector_of(stored(store))) == "READY"


@pytest.mark.parametrize("old", [None, grant(worker_id="other", expires_in=-1)])
def test_a_grant_reserves_without_changing_the_state(old: Any) -> None:
    decision = issued(NEEDS, frozenset({"eu", "gpu", "a"}), grant=old)
    assert isinstance(decision, Commit) and decision.result == Granted(IDENT)
    store = applied(decision, NEEDS, old)
    after, made = stored(store), load(store).grant
    assert vector_of(after) == vector_of(NEEDS)
    assert (after.reserved_for, after.reserved_until_ms, after.lease_epoch) == (
        "w-2",
        NOW + 4_000,
        0,
    )
    assert made is not None
    assert (made.grant_id, made.kind, made.worker_id, made.worker_instance_id) == (
        "g-9",
        "claim",
        "w-2",
        "w-2-a",
    )
    assert (made.issued_at_ms, made.expires_at_ms, made.grant_ttl_ms) == (NOW, NOW + 4_000, 4_000)
    assert (made.lane_id, made.worker_capabilities) == ("default", ("a", "eu", "gpu"))
    assert (made.capability_hash, made.route_snapshot_json, made.admission_summary) == (
        "h",
        "{}",
        "ok",
    )
    assert told(store) == ([], [], [])


# ---- blocking

REASONS = [
    ("waiting_for_budget", "BUDGET", "rate_limited"),
    ("waiting_for_quota", "QUOTA", "rate_limited"),
    ("waiting_for_capable_worker", "ROUTE", "waiting"),
    ("paused_by_operator", "OPBLOCK", "waiting"),
    ("paused_by_policy", "LANEBLOCK", "waiting"),
]


@pytest.mark.parametrize(("reason", "vector", "shown"), REASONS)
@pytest.mark.parametrize("state", VECTORS["READY"].attempt_states)
def test_blocking_keeps_the_attempt_state(reason: str, vector: str, shown: str, state: str) -> None:
    before = execution(attempt_state=state)
    decision = grants.block(snapshot(before), reason, "why", NOW - 4)
    assert isinstance(decision, Commit) and decision.result == Blocked(IDENT, reason)
    store = applied(decision, before, attempt(before))
    after = stored(store)
    assert (name_of(vector_of(after)), after.public_state, after.attempt_state) == (
        vector,
        shown,
        state,
    )
    assert (after.blocking_reason, after.blocking_detail, after.last_transition_at) == (
        reason,
        "why",
        NOW - 4,
    )
    assert told(store) == ([], [], [])


@pytest.mark.parametrize(
    "reason",
    ["", "none", "waiting_for_worker", "paused_by_flow_cancel", "waiting_for_locality_match"],
)
def test_an_unknown_blocking_reason_is_refused_first(reason: str) -> None:
    assert refusal(grants.block(snapshot(None), reason, "", None)) == "invalid_blocking_reason"
    if reason:
        assert refusal(grants.unblock(snapshot(None), reason, None)) == "invalid_blocking_reason"


def test_blocking_a_missing_execution_is_refused() -> None:
    assert (
        refusal(grants.block(snapshot(None), "waiting_for_budget", "", None))
        == "execution_not_found"
    )


@pytest.mark.parametrize(
    ("of", "code"),
    [
        *[
            (execution("ENDED", outcome=outcome), "execution_not_active")
            for outcome in VECTORS["ENDED"].outcomes
        ],
        *[(execution(name), "execution_not_eligible") for name in ("RUNNING", "LOST", "SUSPENDED")],
        *[
            (execution(name), "execution_not_eligible")
            for name in ("DELAYED", "DEPS", "BUDGET", "QUOTA", "ROUTE", "LANEBLOCK")
        ],
        (execution("OPBLOCK", reason="paused_by_flow_cancel"), "execution_not_eligible"),
    ],
)
def test_a_late_block_is_an_answer_not_an_error(of: Execution, code: str) -> None:
    assert answer(grants.block(snapshot(of), "paused_by_operator", "", None)) == LuaRejected(code)


@pytest.mark.parametrize(("reason", "vector", "_"), REASONS)
def test_blocking_again_for_the_same_reason_only_refreshes_the_detail(
    reason: str, vector: str, _: str
) -> None:
    before = execution(vector, blocking_detail="old")
    after = stored(applied(grants.block(snapshot(before), reason, "new", None), before))
    assert (vector_of(after), after.blocking_detail, after.last_transition_at) == (
        vector_of(before),
        "new",
        NOW,
    )


@pytest.mark.parametrize(("reason", "vector", "_"), REASONS)
@pytest.mark.parametrize("expected", [True, False])
def test_unblocking_makes_it_ready_again(reason: str, vector: str, _: str, expected: bool) -> None:
    before = execution(vector, "attempt_interrupted", blocking_detail="why")
    store = applied(
        grants.unblock(snapshot(before), reason if expected else "", NOW + 3),
        before,
        attempt(before),
    )
    after = stored(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.blocking_detail) == (
        "READY",
        "attempt_interrupted",
        "",
    )
    assert after.last_transition_at == NOW + 3
    assert told(store) == ([], [], [])


def test_unblocking_without_a_time_uses_the_clock_of_the_store() -> None:
    before = execution("BUDGET")
    assert (
        stored(applied(grants.unblock(snapshot(before), "", None), before)).last_transition_at
        == NOW
    )


@pytest.mark.parametrize(
    "of",
    [
        None,
        *[
            execution(name)
            for name in ("READY", "DELAYED", "DEPS", "RUNNING", "LOST", "SUSPENDED", "ENDED")
        ],
    ],
)
def test_only_blocked_executions_are_unblocked(of: Execution | None) -> None:
    assert refusal(grants.unblock(snapshot(of), "", None)) == "execution_not_eligible"


def test_a_member_of_a_cancelled_flow_is_not_unblocked() -> None:
    held = execution("OPBLOCK", reason="paused_by_flow_cancel")
    assert refusal(grants.unblock(snapshot(held), "", None)) == "execution_not_eligible"


def test_unblock_requires_the_expected_reason() -> None:
    assert (
        refusal(grants.unblock(snapshot(execution("BUDGET")), "waiting_for_quota", None))
        == "execution_not_eligible"
    )
    assert refusal(
        grants.unblock(
            snapshot(execution("ROUTE", reason="waiting_for_locality_match")),
            "waiting_for_capable_worker",
            None,
        )
    ) == ("execution_not_eligible")


def test_the_reasons_accepted_are_the_documented_five() -> None:
    assert set(grants.BLOCK) == {reason for reason, _, _ in REASONS}


def test_blocked_on_is_stored_and_defaults_to_the_own_quota() -> None:
    quota = UUID(int=5)
    own = execution(quota_policy_id=quota)
    for reason, said, kept in (
        ("waiting_for_quota", None, f"quota:{quota}"),
        ("waiting_for_quota", "quota:other", "quota:other"),
        ("waiting_for_budget", None, None),
        ("waiting_for_budget", "budget:b", "budget:b"),
    ):
        act = grants.block(snapshot(own), reason, "", None, said)
        assert isinstance(act, Commit)
        assert dict(zip(act.plan.form.args, act.plan.values, strict=True))["blocked_on"] == kept
