from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.ids import lease_mark
from flowfabric.model.execution import Execution
from flowfabric.model.lease import (
    AlreadySatisfied,
    MarkedExpired,
    Revoked,
    RevokeLeaseArgs,
)
from flowfabric.plan import Refused
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.leases import expiry
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    ATTEMPT_ID,
    IDENT,
    LEASE_ID,
    NOW,
    answer,
    applied,
    attempt,
    commit,
    events,
    execution,
    grant,
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


# ---- revoke


def revoked(of: Execution | None, **args: Any) -> Decision:
    return expiry.revoke(snapshot(of), RevokeLeaseArgs(execution_id=IDENT, **args), "sqlite")


def test_revoking_a_missing_execution_is_refused() -> None:
    assert refusal(revoked(None)) == "execution_not_found"


WRONG: dict[str, Any] = {"worker_instance_id": "other", "expected_lease_id": "x"}


@pytest.mark.parametrize(
    ("of", "args", "reason"),
    [
        (LOST, WRONG, "already_expired"),
        *[
            (execution(name), WRONG, "no_active_lease")
            for name in VECTORS
            if name not in ("RUNNING", "LOST")
        ],
        (TAKEN_AWAY, WRONG, "no_active_lease"),
        (RUNNING, WRONG, "different_worker_instance_id"),
        (RUNNING, {"expected_lease_id": str(UUID(int=9))}, "lease_id_mismatch"),
        (RUNNING, {"expected_lease_id": f"pg:{IDENT.uuid}:0:1"}, "lease_id_mismatch"),
        (RUNNING, {"expected_lease_id": f"sqlite:{IDENT.uuid}:0:2"}, "lease_id_mismatch"),
        (RUNNING, {"expected_lease_id": f"sqlite:{IDENT.uuid}:1:1"}, "lease_id_mismatch"),
    ],
)
def test_there_is_nothing_to_revoke(of: Execution, args: dict[str, Any], reason: str) -> None:
    assert answer(revoked(of, **args)) == AlreadySatisfied(reason)


@pytest.mark.parametrize("before", [RUNNING, RAN_OUT])
@pytest.mark.parametrize(
    "args",
    [
        {},
        {"worker_instance_id": "worker-1"},
        {"expected_lease_id": LEASE_ID},
        {"expected_lease_id": str(LEASE_ID)},
        {"expected_lease_id": COMPOSITE},
    ],
)
def test_revoking_makes_it_ready_and_fences_the_holder(
    before: Execution, args: dict[str, Any]
) -> None:
    decision = revoked(before, reason="why", **args)
    assert isinstance(decision, Commit) and decision.result == Revoked(COMPOSITE, "2")
    store = applied(decision, before, attempt(before))
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.interrupt_cause) == (
        "READY",
        "attempt_interrupted",
        "lease_revoked",
    )
    assert (after.lease_epoch, after.blocking_detail, after.current_attempt_id) == (
        2,
        "lease revoked: why",
        ATTEMPT_ID,
    )
    assert (
        after.current_lease_id,
        after.current_worker_id,
        after.current_worker_instance_id,
        after.lease_expires_at_ms,
    ) == (None,) * 4
    assert (row.attempt_state, row.worker_instance_id, row.lease_expires_at_ms) == (
        "suspended",
        None,
        None,
    )
    assert (row.worker_id, row.lease_epoch, row.suspended_at_ms) == ("worker", 2, NOW)
    assert told(store) == (["revoked"], [], [])
    (event,) = events(store, "ff_lease_event")
    assert (event["lease_id"], event["worker_instance_id"], event["lease_epoch"]) == (
        LEASE_ID,
        "worker-1",
        2,
    )


@pytest.mark.parametrize("at", [None, NOW + 40, NOW - 40])
def test_a_revoked_lease_restores_the_full_attempt_timeout(at: int | None) -> None:
    limits = {"attempt_timeout_at_ms": at, "attempt_timeout_ms": 900}
    for before, decide in ((execution("RUNNING", **limits), revoked), (lost(**limits), requeued)):
        store = applied(decide(before), before, attempt(before))  # type: ignore[operator]
        assert (
            stored(store).attempt_timeout_remaining_ms,
            stored(store).attempt_timeout_at_ms,
        ) == (900, None)


@pytest.mark.parametrize(
    ("seen", "moved"),
    [(RUNNING.lease_epoch, False), (RUNNING.lease_epoch - 1, True), (None, False)],
)
def test_a_lease_granted_after_the_revoke_was_requested_is_kept(
    seen: int | None, moved: bool
) -> None:
    decision = expiry.revoke(snapshot(RUNNING), RevokeLeaseArgs(execution_id=IDENT), "sqlite", seen)
    assert isinstance(decision, Commit) is not moved
    if moved:
        assert answer(decision) == AlreadySatisfied("epoch_moved")


def test_a_revoke_accepts_the_mark_of_a_lease() -> None:
    assert isinstance(revoked(RUNNING, expected_lease_id=lease_mark(LEASE_ID)), Commit)


def test_a_revoke_that_lost_the_race_is_refused() -> None:
    decision = revoked(RUNNING)
    assert isinstance(decision, Commit)
    for moved in (execution("RUNNING", lease_epoch=2), execution("RUNNING", version=6), LOST):
        assert isinstance(commit(seeded(moved), decision.plan), Refused)


# ---- marking


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (None, "execution_not_found"),
        *[(execution(name), "not_active") for name in VECTORS if name not in ("RUNNING", "LOST")],
        (LOST, "already_expired"),
        (TAKEN_AWAY, "already_revoked"),
        (execution("RUNNING", ownership_state="unowned"), "unowned"),
        (execution("RUNNING", lease_expires_at_ms=None), "unowned"),
        (execution("RUNNING", lease_expires_at_ms=NOW + 1), "not_yet_expired"),
    ],
)
def test_marking_returns_why_there_is_nothing_to_mark(of: Execution | None, reason: str) -> None:
    assert answer(expiry.mark_if_due(snapshot(of))) == AlreadySatisfied(reason)


def test_marking_an_expired_lease() -> None:
    decision = expiry.mark_if_due(snapshot(RAN_OUT))
    assert isinstance(decision, Commit) and decision.result == MarkedExpired()
    assert name_of(vector_of(stored(applied(decision, RAN_OUT)))) == "LOST"


# ---- requeue


def lost(**columns: Any) -> Execution:
    return execution("LOST", lease_expired_at=NOW - 5_000, **columns)


def requeued(of: Execution | None, grace_ms: int = 5_000, **around: Any) -> Decision:
    return expiry.requeue(snapshot(of, **around), grace_ms)


@pytest.mark.parametrize(
    ("of", "around", "found"),
    [
        (None, {}, "not_lost"),
        *[(execution(name), {}, "not_lost") for name in VECTORS if name != "LOST"],
        (execution("LOST", lease_expired_at=None), {}, "not_lost"),
        (execution("LOST", lease_expired_at=NOW - 4_999), {}, "not_yet_due"),
        (lost(max_reclaim_count=0), {"grant": grant("reclaim", expires_in=0)}, "granted"),
    ],
)
def test_executions_that_are_not_requeued(
    of: Execution | None, around: dict[str, Any], found: str
) -> None:
    assert answer(requeued(of, **around)) == found


@pytest.mark.parametrize("left_over", [None, grant("reclaim", expires_in=-1)])
def test_a_lost_execution_is_requeued_after_the_grace_period(left_over: Any) -> None:
    before = lost()
    decision = requeued(before, grant=left_over)
    assert isinstance(decision, Commit) and decision.result == "requeued"
    store = applied(decision, before, attempt(before), left_over)
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.interrupt_cause) == (
        "READY",
        "attempt_interrupted",
        "lease_expired",
    )
    assert (after.lease_epoch, after.lease_reclaim_count, after.blocking_detail) == (1, 0, "")
    assert (after.current_lease_id, after.lease_expires_at_ms, after.lease_expired_at) == (
        None,
        None,
        None,
    )
    assert (row.attempt_state, row.outcome, row.lease_expires_at_ms) == ("suspended", None, None)
    assert told(store) == ([], [], [])
