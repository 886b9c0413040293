"""Who may still write. Each case holds the state valid and varies one fact."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import Contention
from flowfabric.model.execution import Execution
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Reject
from flowfabric.rules.fence import (
    MARK_EXPIRED,
    SWEEP_EXPIRED,
    check_fence,
    check_handle,
    closed_by,
    is_held,
    mark_expired,
    not_active,
    retry_scheduled_by,
)
from flowfabric.rules.leases import attempts
from flowfabric.rules.leases.recovery import requeue
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.testing import ManualClock

from .factory import (
    ATTEMPT_ID,
    IDENT,
    LEASE_ID,
    NOW,
    applied,
    attempt,
    commit,
    events,
    execution,
    fence,
    handle,
    load,
    refusal,
    run,
    seeded,
    snapshot,
    stored,
    told,
)

RUNNING = execution("RUNNING", lease_epoch=5)
OTHER = UUID(int=99)


def test_the_holder_of_a_live_lease_passes() -> None:
    assert check_handle(snapshot(RUNNING), handle(RUNNING)) is None
    assert check_fence(snapshot(RUNNING), fence(RUNNING), 0, None) is None


# ---- the handle, one fact at a time


@pytest.mark.parametrize("epoch", [0, 4, 6, 999])
def test_another_epoch_alone_is_a_conflict(epoch: int) -> None:
    assert (
        refusal(check_handle(snapshot(RUNNING), handle(RUNNING, lease_epoch=epoch)))
        == "lease_conflict"
    )


def test_another_lease_id_alone_is_a_conflict() -> None:
    assert (
        refusal(check_handle(snapshot(RUNNING), handle(RUNNING, lease_id=OTHER)))
        == "lease_conflict"
    )


def test_another_worker_alone_is_a_conflict() -> None:
    assert (
        refusal(check_handle(snapshot(RUNNING), handle(RUNNING, worker_instance_id="other")))
        == "lease_conflict"
    )


def test_another_attempt_alone_is_a_conflict() -> None:
    assert (
        refusal(check_handle(snapshot(RUNNING), handle(RUNNING, attempt_index=1)))
        == "lease_conflict"
    )


@pytest.mark.parametrize(
    ("expires", "code"),
    [(NOW + 1, None), (NOW, "lease_expired"), (NOW - 1, "lease_expired"), (None, "lease_expired")],
)
def test_the_time_alone_expires_a_lease(expires: int | None, code: str | None) -> None:
    late = execution("RUNNING", lease_expires_at_ms=expires)
    for refused in (
        check_handle(snapshot(late), handle(late)),
        check_fence(snapshot(late), fence(late), 0, None),
    ):
        assert (refused and refusal(refused)) == code


@pytest.mark.parametrize(
    "changed", [{"lease_epoch": 4}, {"lease_epoch": 6}, {"lease_id": OTHER}, {"attempt_index": 1}]
)
def test_the_guard_of_the_plan_holds_without_the_explanation(changed: dict[str, Any]) -> None:
    store = seeded(RUNNING, attempt(RUNNING))
    for plan in (
        attempts.renew(handle(RUNNING, **changed)).plan,
        attempts.progress(handle(RUNNING, **changed), 5, "x"),
        attempts.complete(handle(RUNNING, **changed), b"stolen"),
        attempts.fail(handle(RUNNING, **changed), "r", "c", None).plan,
        attempts.fail(handle(RUNNING, **changed), "r", "c", 0).plan,
        attempts.fail(handle(RUNNING, **changed), "r", "c", 5).plan,
        attempts.delay(handle(RUNNING, **changed), NOW).plan,
        attempts.give_up(handle(RUNNING, **changed), "r"),
    ):
        assert commit(store, plan) == Refused()
    assert stored(store) == RUNNING
    assert isinstance(commit(store, attempts.complete(handle(RUNNING), b"mine")), Applied)


def test_the_guard_of_the_plan_expires_with_the_lease() -> None:
    clock = ManualClock(NOW)
    store = seeded(RUNNING, attempt(RUNNING), clock=clock)
    assert RUNNING.lease_expires_at_ms is not None
    clock.now_ms = RUNNING.lease_expires_at_ms
    assert commit(store, attempts.complete(handle(RUNNING), None)) == Refused()
    clock.now_ms -= 1
    assert isinstance(
        commit(seeded(RUNNING, clock=clock), attempts.complete(handle(RUNNING), None)), Applied
    )


# ---- the handle, in order


@pytest.mark.parametrize(
    ("of", "around", "fields", "code"),
    [
        (None, {"attempt": None}, {"lease_epoch": 999}, "execution_not_found"),
        (RUNNING, {"attempt": None}, {"lease_epoch": 999}, "attempt_not_found"),
        (execution("ENDED"), {}, {"lease_epoch": 999}, "lease_conflict"),
        (execution("READY", "attempt_interrupted"), {}, {"lease_epoch": 0}, "lease_conflict"),
        (
            execution("RUNNING", ownership_state="lease_revoked"),
            {},
            {"lease_epoch": 0},
            "lease_conflict",
        ),
        *[(execution(name), {}, {}, "execution_not_active") for name in ("SUSPENDED", "ENDED")],
        *[
            (execution(name, "attempt_interrupted"), {}, {}, "execution_not_active")
            for name in ("READY", "DELAYED", "DEPS", "BUDGET")
        ],
        (
            execution("RUNNING", ownership_state="lease_revoked", lease_expires_at_ms=NOW - 1),
            {},
            {},
            "lease_revoked",
        ),
        (execution("RUNNING", lease_expires_at_ms=NOW), {}, {}, "lease_expired"),
        (execution("LOST"), {}, {}, "lease_expired"),
    ],
)
def test_the_handle_is_checked_in_order(
    of: Execution | None, around: dict[str, Any], fields: dict[str, Any], code: str
) -> None:
    shown = handle(of or RUNNING, **fields)
    assert refusal(check_handle(snapshot(of, **around), shown)) == code


@pytest.mark.parametrize("name", ["RUNNING", "READY", "ENDED"])
def test_a_late_call_says_expired_whoever_took_over(name: str) -> None:
    moved = execution(name, lease_epoch=6, expired_epoch=5, total_attempt_count=1)
    assert refusal(check_handle(snapshot(moved), handle(moved, lease_epoch=5))) == "lease_expired"
    assert refusal(check_handle(snapshot(moved), handle(moved, lease_epoch=4))) == "lease_conflict"


def test_a_late_call_says_expired_although_nobody_took_over() -> None:
    lost = execution("LOST", lease_expired_at=NOW - 10_000)
    store = applied(requeue(snapshot(lost), 5_000), lost, attempt(lost))
    assert name_of(vector_of(stored(store))) == "READY"
    assert refusal(check_handle(load(store, 0), handle(lost))) == "lease_expired"


@pytest.mark.parametrize("marks", [True, False])
def test_an_expired_lease_is_marked_unless_the_call_only_reports(marks: bool) -> None:
    late = execution("RUNNING", lease_expires_at_ms=NOW - 1)
    refused = check_handle(snapshot(late), handle(late), marks=marks)
    assert isinstance(refused, Reject)
    assert refused.mark == (mark_expired(late) if marks else None)


def test_a_lease_already_marked_is_not_marked_again() -> None:
    lost = execution("LOST")
    for refused in (
        check_handle(snapshot(lost), handle(lost)),
        check_fence(snapshot(lost), fence(lost), 0, None),
    ):
        assert isinstance(refused, Reject)
        assert refused.mark is None


def test_a_call_on_what_is_not_active_gets_the_facts_to_settle_it() -> None:
    error = not_active(execution("ENDED", outcome="cancelled", lease_epoch=3))
    assert isinstance(error, Contention)
    assert error.facts == {
        "terminal_outcome": "cancelled",
        "lease_epoch": "3",
        "lifecycle_phase": "terminal",
        "attempt_id": str(ATTEMPT_ID),
    }
    assert not_active(execution()).facts["attempt_id"] == ""


# ---- the typed fence


@pytest.mark.parametrize(
    ("of", "shown", "source", "code"),
    [
        (None, None, None, "execution_not_found"),
        (execution("ENDED"), None, None, "invalid_input"),
        (execution("ENDED"), None, "lease_holder", "invalid_input"),
        (execution("ENDED"), None, "operator_override", "execution_not_active"),
        (execution("ENDED"), fence(RUNNING), None, "execution_not_active"),
        (execution("SUSPENDED"), fence(RUNNING), None, "execution_not_active"),
        (
            execution("RUNNING", ownership_state="lease_revoked"),
            fence(RUNNING, lease_epoch=9),
            None,
            "lease_revoked",
        ),
        (
            execution("RUNNING", ownership_state="lease_revoked"),
            None,
            "operator_override",
            "lease_revoked",
        ),
        (
            execution("RUNNING", lease_expires_at_ms=NOW),
            fence(RUNNING, lease_epoch=9),
            None,
            "lease_expired",
        ),
        (execution("LOST"), None, "operator_override", "lease_expired"),
        (RUNNING, fence(RUNNING, lease_epoch=4), "operator_override", "stale_lease"),
    ],
)
def test_the_typed_fence_is_checked_in_order(
    of: Execution | None, shown: Any, source: str | None, code: str
) -> None:
    assert refusal(check_fence(snapshot(of), shown, 0, source)) == code


def test_a_missing_fence_is_named() -> None:
    refused = check_fence(snapshot(RUNNING), None, 0, None)
    assert isinstance(refused, Reject)
    assert refused.error.detail == "fence_required"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "changed", [{"lease_epoch": 4}, {"lease_epoch": 6}, {"lease_id": OTHER}, {"attempt_id": OTHER}]
)
def test_each_part_of_the_triple_alone_makes_it_stale(changed: dict[str, Any]) -> None:
    assert (
        refusal(check_fence(snapshot(RUNNING), fence(RUNNING, **changed), 0, "operator_override"))
        == "stale_lease"
    )


def test_another_attempt_index_alone_makes_it_stale() -> None:
    assert refusal(check_fence(snapshot(RUNNING), fence(RUNNING), 1, None)) == "stale_lease"


def test_an_operator_passes_without_a_fence() -> None:
    assert check_fence(snapshot(RUNNING), None, 7, "operator_override") is None


# ---- repeated calls


@pytest.mark.parametrize("outcome", VECTORS["ENDED"].outcomes)
def test_the_closing_lease_is_recognised_for_its_own_outcome_only(outcome: str) -> None:
    over = execution("ENDED", outcome=outcome)
    shown = handle(over, lease_epoch=1)
    assert [o for o in VECTORS["ENDED"].outcomes if closed_by(snapshot(over), shown, o)] == [
        outcome
    ]


@pytest.mark.parametrize("fields", [{"lease_epoch": 2}, {"attempt_index": 1}, {"lease_id": OTHER}])
def test_any_other_lease_did_not_close_it(fields: dict[str, Any]) -> None:
    over = execution("ENDED", outcome="success")
    assert closed_by(snapshot(over), handle(over), "success")
    assert not closed_by(snapshot(over), handle(over, **fields), "success")


def test_nothing_closed_what_is_missing_or_still_runs() -> None:
    over = execution("ENDED", outcome="success")
    assert not closed_by(snapshot(None), handle(over), "success")
    assert not closed_by(snapshot(over, attempt=None), handle(over), "success")
    running = execution(
        "RUNNING", closing_epoch=1, closing_attempt_index=0, terminal_outcome="success"
    )
    assert not closed_by(snapshot(running), handle(running), "success")


WAITS = execution("DELAYED", "pending_retry_attempt", reason="waiting_for_retry_backoff")


@pytest.mark.parametrize(
    ("of", "around", "fields", "scheduled"),
    [
        (WAITS, {}, {}, True),
        (execution("READY", "pending_retry_attempt"), {}, {}, True),
        (WAITS, {}, {"lease_epoch": 2}, False),
        (WAITS, {}, {"attempt_index": 1}, False),
        (WAITS, {}, {"lease_id": OTHER}, False),
        (WAITS, {"attempt": None}, {}, False),
        (execution("READY", "attempt_interrupted"), {}, {}, False),
        (execution("ENDED", "pending_retry_attempt"), {}, {}, False),
        (RUNNING, {}, {}, False),
    ],
)
def test_a_retry_is_recognised_by_the_lease_that_failed(
    of: Execution, around: dict[str, Any], fields: dict[str, Any], scheduled: bool
) -> None:
    assert retry_scheduled_by(snapshot(of, **around), handle(of, **fields)) is scheduled


def test_no_retry_is_scheduled_for_what_does_not_exist() -> None:
    assert not retry_scheduled_by(snapshot(None), handle(WAITS))


# ---- marking


def test_marking_moves_a_lease_that_ran_out_to_lost() -> None:
    late = execution(
        "RUNNING", lease_expires_at_ms=NOW, attempt_timeout_at_ms=NOW + 5, attempt_timeout_ms=70
    )
    store = seeded(late, attempt(late))
    assert isinstance(commit(store, mark_expired(late)), Applied)
    after = stored(store)
    assert (name_of(vector_of(after)), after.blocking_detail) == (
        "LOST",
        "lease expired, awaiting reclaim",
    )
    assert (after.lease_expired_at, after.interrupt_cause, after.expired_epoch) == (
        NOW,
        "lease_expired",
        1,
    )
    assert (after.lease_epoch, after.current_lease_id, after.lease_expires_at_ms) == (
        1,
        LEASE_ID,
        NOW,
    )
    assert (
        after.current_worker_id,
        after.attempt_timeout_at_ms,
        after.attempt_timeout_remaining_ms,
    ) == ("worker", None, 70)
    assert told(store) == (["expired"], [], [])
    assert events(store, "ff_lease_event")[0]["lease_id"] == LEASE_ID
    assert isinstance(commit(store, mark_expired(late)), Refused)


def test_a_lease_renewed_in_between_is_not_marked() -> None:
    late = execution("RUNNING", lease_expires_at_ms=NOW)
    store = seeded(execution("RUNNING", lease_expires_at_ms=NOW + 1))
    assert isinstance(commit(store, mark_expired(late)), Refused)
    assert MARK_EXPIRED.args == ("partition_key", "execution_id", "version")


@pytest.mark.parametrize(("expires", "marked"), [(NOW + 1, False), (NOW, True)])
def test_the_sweep_marks_what_ran_out(expires: int, marked: bool) -> None:
    store = seeded(execution("RUNNING", lease_expires_at_ms=expires))
    assert run(store.sweep(SWEEP_EXPIRED(), 10)) == (
        [(IDENT.partition_index, IDENT.uuid)] if marked else []
    )
    assert name_of(vector_of(stored(store))) == ("LOST" if marked else "RUNNING")
    assert told(store)[0] == (["expired"] if marked else [])


def test_a_row_shows_whose_lease_is_current() -> None:
    fields = handle(RUNNING)
    row = (fields.execution_id.uuid, fields.lease_id, "active", "leased")
    assert is_held(row, fields)
    assert not is_held(None, fields)
    assert not is_held((*row[:3], "unowned"), fields)
