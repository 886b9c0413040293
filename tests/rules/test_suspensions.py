from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from flowfabric.model.attempt import Attempt
from flowfabric.model.waitpoint import (
    AllOf,
    FreshWaitpoint,
    OperatorOnly,
    ReasonCode,
    ResumePolicy,
    Signal,
    Single,
    SuspendArgs,
    Suspension,
    TimeoutBehavior,
    Waitpoint,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.states import name_of, vector_of
from flowfabric.rules.waits.conditions import decode
from flowfabric.rules.waits.suspend import ConditionState, replay
from flowfabric.store.memory import MemoryStore

from .factory import (
    IDENT,
    LEASE_ID,
    NOW,
    attempt,
    commit_all,
    events,
    execution,
    grant,
    load,
    seeded,
    stored_attempt,
    told,
)
from .factory import stored as stored_row
from .wait_factory import (
    FRESH,
    KEY,
    OTHER_SUSPENSION,
    PENDING,
    SECOND,
    SUSPENSION_ID,
    THIRD,
    WAITPOINT_ID,
    around,
    one,
    rows_of,
    signal,
    suspend_args,
    suspend_plans,
    suspension,
    waitpoint,
)

B, C = FreshWaitpoint(SECOND, "b"), FreshWaitpoint(THIRD, "c")

# ---- what had arrived before

EARLY = [
    signal("no", ident=UUID(int=1)),
    signal("x", ident=UUID(int=2)),
    signal("x", ident=UUID(int=3)),
    signal("y"),
]
XY = AllOf((Single("a", "x"), Single("a", "y")))


@pytest.mark.parametrize(
    ("condition", "signals", "found"),
    [
        (Single("a"), [], ConditionState()),
        (Single("a", "never"), EARLY, ConditionState()),
        (Single("a"), EARLY, ConditionState(("leaf:",), (UUID(int=1),), met=True)),
        (Single("a", "x"), EARLY, ConditionState(("leaf:",), (UUID(int=2),), met=True)),
        (XY, EARLY[:3], ConditionState(("leaf:members[0]",), (UUID(int=2),))),
        (
            XY,
            EARLY,
            ConditionState(
                ("leaf:members[0]", "leaf:members[1]"), (UUID(int=2), EARLY[3].signal_id), met=True
            ),
        ),
        (OperatorOnly(), EARLY, ConditionState()),
    ],
)
def test_what_arrived_early_is_replayed_oldest_first(
    condition: Any, signals: list[Signal], found: ConditionState
) -> None:
    assert replay(suspend_args(condition, PENDING), signals) == found


# ---- suspending


def parked(
    args: SuspendArgs,
    *rows: Any,
    at: Any = None,
    found: ConditionState | None = None,
    **columns: Any,
) -> MemoryStore:
    of = execution("RUNNING", attempt_timeout_at_ms=NOW + 400, **columns)
    store = seeded(of, attempt(of), grant(), *rows)
    assert isinstance(commit_all(store, suspend_plans(of, args, at, found)), Applied)
    return store


def test_a_suspension_gives_up_the_lease_and_keeps_the_attempt() -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=NOW + 400)
    store = parked(suspend_args(reason_code="waiting_for_approval", now=NOW - 3))
    after = stored_row(store)
    assert name_of(vector_of(after)) == "SUSPENDED"
    assert (after.public_state, after.blocking_reason) == ("suspended", "waiting_for_approval")
    assert (
        after.blocking_detail
        == f"suspended: waitpoint {WAITPOINT_ID} awaiting waiting_for_approval"
    )
    assert (after.attempt_state, after.interrupt_cause) == ("attempt_interrupted", "suspended")
    assert (after.lease_epoch, after.version) == (before.lease_epoch + 1, before.version + 1)
    assert (after.attempt_index, after.total_attempt_count) == (
        before.attempt_index,
        before.total_attempt_count,
    )
    assert (after.current_attempt_id, after.current_lease_id) == (before.current_attempt_id, None)
    assert (after.lease_expires_at_ms, after.current_worker_id) == (None, None)
    assert (after.attempt_timeout_at_ms, after.attempt_timeout_remaining_ms) == (None, 400)
    assert (after.current_suspension_id, after.current_waitpoint_id) == (
        SUSPENSION_ID,
        WAITPOINT_ID,
    )
    assert (after.last_transition_at, after.last_mutation_at) == (NOW, NOW)
    row = stored_attempt(store)
    assert (row.attempt_state, row.outcome, row.suspended_at_ms) == ("suspended", None, NOW - 3)
    assert (row.suspension_id, row.lease_epoch) == (str(SUSPENSION_ID), after.lease_epoch)
    assert (row.attempt_timeout_remaining_ms, row.lease_expires_at_ms) == (400, None)
    assert len(rows_of(store, Attempt)) == 1
    assert load(store).grant is None
    assert told(store) == (["revoked"], [], [])
    (event,) = events(store, "ff_lease_event")
    assert (event["lease_id"], event["reason"]) == (LEASE_ID, "suspended")
    assert events(store, "ff_signal_event") == []


def test_the_row_of_a_suspension() -> None:
    policy = ResumePolicy(resume_delay_ms=9)
    args = suspend_args(
        Single("a", "go"),
        timeout_at=NOW + 100,
        timeout_behavior=TimeoutBehavior.ESCALATE,
        requested_by="operator",
        continuation_metadata_pointer="s3://x",
        resume_policy=policy,
    )
    store = parked(args)
    row = one(store, Suspension)
    assert (row.suspension_id, row.suspended_at_ms, row.attempt_index) == (SUSPENSION_ID, NOW, 0)
    assert (row.timeout_at_ms, row.timeout_behavior, row.requested_by) == (
        NOW + 100,
        "escalate",
        "operator",
    )
    assert (row.continuation_metadata_pointer, row.primary_waitpoint_id) == ("s3://x", WAITPOINT_ID)
    assert (row.reason_code, decode(row.condition)) == ("waiting_for_signal", Single("a", "go"))
    assert json.loads(row.resume_policy)["resume_delay_ms"] == 9
    assert (row.satisfied_set, row.satisfier_signal_ids) == ("[]", "[]")
    assert (row.closed_at_ms, row.close_reason, row.closer_signal_id, row.last_signal_at_ms) == (
        None,
        None,
        None,
        None,
    )


def test_without_a_timeout_there_is_no_behaviour() -> None:
    row = one(parked(suspend_args(timeout_behavior=TimeoutBehavior.CANCEL)), Suspension)
    assert (row.timeout_at_ms, row.timeout_behavior) == (None, None)


def test_the_next_suspension_replaces_the_last() -> None:
    last = suspension(
        suspension_id=OTHER_SUSPENSION,
        closed_at_ms=NOW - 9,
        close_reason="resumed",
        closer_signal_id=UUID(int=1),
        last_signal_at_ms=NOW - 9,
        satisfied_set='["leaf:"]',
        satisfier_signal_ids='["x"]',
        timeout_at_ms=5,
        timeout_behavior="fail",
        version=4,
    )
    row = one(parked(suspend_args(), last), Suspension)
    assert (row.suspension_id, row.closed_at_ms, row.close_reason) == (SUSPENSION_ID, None, None)
    assert (
        row.closer_signal_id,
        row.last_signal_at_ms,
        row.timeout_at_ms,
        row.timeout_behavior,
    ) == (None, None, None, None)
    assert (row.satisfied_set, row.satisfier_signal_ids, row.version) == ("[]", "[]", 5)


BLOCKED_BY = {
    "waiting_for_signal": "waiting_for_signal",
    "waiting_for_approval": "waiting_for_approval",
    "waiting_for_callback": "waiting_for_callback",
    "waiting_for_tool_result": "waiting_for_tool_result",
    "waiting_for_operator_review": "paused_by_operator",
    "paused_by_policy": "paused_by_policy",
    "paused_by_budget": "waiting_for_budget",
    "step_boundary": "waiting_for_signal",
    "manual_pause": "paused_by_operator",
    "anything else": "waiting_for_signal",
}


@pytest.mark.parametrize("reason", [*ReasonCode, "anything else"])
def test_the_blocking_reason_of_every_reason_code(reason: str) -> None:
    store = parked(suspend_args(reason_code=reason))
    after = stored_row(store)
    assert after.blocking_reason == BLOCKED_BY[str(reason)]
    assert name_of(vector_of(after)) == "SUSPENDED"
    assert one(store, Suspension).reason_code == str(reason)


def test_every_binding_becomes_an_active_waitpoint_with_a_token_of_its_own() -> None:
    condition = AllOf((Single("a", "x"), Single("b"), Single("c", "y")))
    store = parked(suspend_args(condition, FRESH, B, C, timeout_at=NOW + 50))
    rows = sorted(rows_of(store, Waitpoint), key=lambda row: row.waitpoint_key)
    assert [row.waitpoint_id for row in rows] == [WAITPOINT_ID, SECOND, THIRD]
    assert [json.loads(row.required_signal_names) for row in rows] == [["x"], [], ["y"]]
    assert len({row.token_digest for row in rows}) == 3
    for row in rows:
        assert (row.state, row.suspension_id, row.execution_id) == (
            "active",
            SUSPENSION_ID,
            IDENT.uuid,
        )
        assert (row.created_at_ms, row.activated_at_ms, row.expires_at_ms) == (NOW, NOW, NOW + 50)
        assert (row.token_kid, row.attempt_index, row.signal_count) == (KEY.kid, 0, 0)


def test_a_pending_waitpoint_keeps_its_token_and_its_beginning() -> None:
    made = waitpoint(
        state="pending", token_digest="old", token_kid="old", expires_at_ms=NOW + 5, signal_count=2
    )
    heard = [signal("no"), signal("x", ident=UUID(int=5))]
    other = signal("elsewhere", ident=UUID(int=6), waitpoint_id=SECOND)
    at = around(made, signals=heard)
    args = suspend_args(XY, PENDING, timeout_at=NOW + 900)
    found = replay(args, heard)
    store = parked(args, made, *heard, other, at=at, found=found)
    row = one(store, Waitpoint)
    assert (row.state, row.token_digest, row.token_kid, row.created_at_ms) == (
        "active",
        "old",
        "old",
        made.created_at_ms,
    )
    assert (row.activated_at_ms, row.expires_at_ms, row.suspension_id) == (
        NOW,
        NOW + 900,
        SUSPENSION_ID,
    )
    assert (json.loads(row.required_signal_names), row.signal_count) == (["x", "y"], 2)
    kept = one(store, Suspension)
    assert json.loads(kept.satisfied_set) == ["leaf:members[0]"]
    assert json.loads(kept.satisfier_signal_ids) == [str(UUID(int=5))]
    assert {s.signal_id: s.suspension_id for s in rows_of(store, Signal)} == {
        heard[0].signal_id: SUSPENSION_ID,
        UUID(int=5): SUSPENSION_ID,
        UUID(int=6): None,
    }


def test_a_pending_waitpoint_without_signals() -> None:
    made = waitpoint(state="pending")
    store = parked(suspend_args(Single("a"), PENDING), made, at=around(made))
    assert one(store, Waitpoint).version == made.version + 1


def test_other_pending_waitpoints_stay_pending() -> None:
    left = waitpoint(SECOND, "left", "pending")
    assert one(parked(suspend_args(), left), Waitpoint, waitpoint_id=SECOND) == left


def test_a_closed_waitpoint_is_bound_again() -> None:
    used = waitpoint(
        key="old",
        state="closed",
        suspension_id=OTHER_SUSPENSION,
        signal_count=3,
        matched_signal_count=2,
        last_signal_at_ms=5,
        satisfied_at_ms=6,
        closed_at_ms=6,
        close_reason="resumed",
    )
    row = one(parked(suspend_args(), used, at=around(used)), Waitpoint)
    assert (row.state, row.waitpoint_key, row.suspension_id, row.version) == (
        "active",
        "a",
        SUSPENSION_ID,
        used.version + 1,
    )
    assert (row.created_at_ms, row.activated_at_ms, row.signal_count, row.matched_signal_count) == (
        NOW,
        NOW,
        3,
        2,
    )
    assert (row.last_signal_at_ms, row.satisfied_at_ms, row.closed_at_ms, row.close_reason) == (
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("name", ["READY", "SUSPENDED", "ENDED", "LOST"])
def test_only_the_holder_suspends(name: str) -> None:
    of = execution(name)
    store = seeded(of, attempt(of))
    assert commit_all(store, suspend_plans(of, suspend_args())) == Refused(0, 0)
    assert stored_row(store) == of
    assert rows_of(store, Waitpoint) == rows_of(store, Suspension) == []


def test_a_changed_waitpoint_refuses_the_whole_suspension() -> None:
    of, made = execution("RUNNING"), waitpoint(state="pending")
    store = seeded(of, attempt(of), waitpoint(state="pending", version=made.version + 1))
    plans = suspend_plans(of, suspend_args(Single("a"), PENDING), around(made))
    assert isinstance(commit_all(store, plans), Refused)
    assert stored_row(store) == of
