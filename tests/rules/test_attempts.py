from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.model.attempt import ATTEMPT_TIMEOUT, Delayed, RetryScheduled, TerminalFailed
from flowfabric.model.execution import Execution
from flowfabric.model.lease import BackendTag, Completed, LeaseRenewal
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit, Reject, Return
from flowfabric.rules.leases import attempts
from flowfabric.rules.states import name_of, vector_of

from .factory import (
    ATTEMPT_ID,
    IDENT,
    INSTANCE,
    LEASE_ID,
    NOW,
    TTL,
    answer,
    applied,
    attempt,
    commit,
    events,
    execution,
    handle,
    load,
    refusal,
    seeded,
    snapshot,
    stored,
    stored_attempt,
    told,
)

RUNNING = execution("RUNNING", attempt_timeout_at_ms=NOW + 40)
TRIED = attempt(RUNNING)
HELD = handle(RUNNING)


def check_released(after: Execution, *, epoch: int = RUNNING.lease_epoch) -> None:
    released = (
        "current_lease_id",
        "current_worker_id",
        "current_worker_instance_id",
        "lease_expires_at_ms",
        "lease_last_renewed_at",
    )
    assert [
        getattr(after, c)
        for c in (*released, "lease_renewal_deadline", "lease_expired_at", "attempt_timeout_at_ms")
    ] == [None] * 8
    assert (after.lease_epoch, after.version, after.last_transition_at) == (
        epoch,
        RUNNING.version + 1,
        NOW,
    )


# ---- renew and progress


@pytest.mark.parametrize("ttl", [TTL, 5, 60_000])
@pytest.mark.parametrize("said", [1, 86_400_000])
def test_renewing_holds_the_lease_for_as_long_as_it_was_granted_for(ttl: int, said: int) -> None:
    act = attempts.renew(handle(RUNNING, lease_ttl_ms=said))
    store = seeded(RUNNING, TRIED)
    assert isinstance(commit(store, attempts.renew_for(handle(RUNNING), ttl)), Applied)
    done = commit(store, act.plan)
    assert isinstance(done, Applied)
    assert act.result(done) == LeaseRenewal(NOW + ttl, RUNNING.lease_epoch)
    after = stored(store)
    assert (
        after.lease_expires_at_ms,
        after.lease_last_renewed_at,
        after.lease_renewal_deadline,
    ) == (
        NOW + ttl,
        NOW,
        NOW + ttl * 2 // 3,
    )
    assert (after.lease_epoch, after.version, after.attempt_timeout_at_ms) == (
        RUNNING.lease_epoch,
        RUNNING.version,
        NOW + 40,
    )
    assert stored_attempt(store).lease_expires_at_ms == NOW + ttl
    assert told(store) == (["renewed", "renewed"], [], [])


@pytest.mark.parametrize(
    ("percent", "message", "kept"),
    [
        (50, None, (50, "old")),
        (0, None, (0, "old")),
        (None, "new", (10, "new")),
        (None, "", (10, "")),
        (60, "new", (60, "new")),
    ],
)
def test_progress_leaves_alone_what_is_not_given(
    percent: int | None, message: str | None, kept: tuple[int, str]
) -> None:
    before = execution("RUNNING", progress_pct=10, progress_message="old")
    store = seeded(before, attempt(before))
    assert isinstance(commit(store, attempts.progress(handle(before), percent, message)), Applied)
    after = stored(store)
    assert (after.progress_pct, after.progress_message) == kept
    assert (after.progress_updated_at, after.last_mutation_at, after.version) == (
        NOW,
        NOW,
        before.version,
    )
    assert (after.last_transition_at, told(store)) == (before.last_transition_at, ([], [], []))


# ---- complete


@pytest.mark.parametrize(("result", "encoding"), [(None, None), (b"", None), (b"\x00r", "raw")])
def test_completing_ends_with_success(result: bytes | None, encoding: str | None) -> None:
    store = applied(Commit(attempts.complete(HELD, result, encoding)), RUNNING, TRIED)
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.attempt_state) == (
        "ENDED",
        "success",
        "attempt_terminal",
    )
    assert (after.result, after.result_encoding, after.terminal_at_ms) == (result, encoding, NOW)
    assert (after.closing_epoch, after.closing_attempt_index, after.current_attempt_id) == (
        RUNNING.lease_epoch,
        0,
        ATTEMPT_ID,
    )
    check_released(after)
    assert (row.attempt_state, row.outcome, row.terminal_at_ms) == ("ended_success", "success", NOW)
    assert (row.lease_expires_at_ms, row.worker_id, row.worker_instance_id) == (
        None,
        "worker",
        INSTANCE,
    )
    assert told(store) == (["revoked"], ["success"], [])
    (event,) = events(store, "ff_lease_event")
    assert (event["lease_id"], event["worker_instance_id"], event["reason"]) == (
        LEASE_ID,
        INSTANCE,
        "completed",
    )


def test_events_carry_namespace_tag_and_flow() -> None:
    flow = UUID(int=0xF)
    before = execution("RUNNING", namespace="tenant", instance_tag="i-1", flow_id=flow)
    store = applied(Commit(attempts.complete(handle(before), None)), before, attempt(before))
    for event in (*events(store, "ff_lease_event"), *events(store, "ff_completion_event")):
        assert (event["namespace"], event["instance_tag"], event["partition_key"]) == (
            "tenant",
            "i-1",
            IDENT.partition_index,
        )
        assert event["execution_id"] == IDENT.uuid
    assert events(store, "ff_completion_event")[0]["flow_id"] == flow


def test_an_own_retention_starts_at_the_end() -> None:
    before = execution("RUNNING", retention_ttl_ms=70, failed_retention_ttl_ms=90)
    for plan, kept_ms in (
        (attempts.complete(handle(before), None), 70),
        (attempts.give_up(handle(before), "r"), 70),
        (attempts.fail(handle(before), "r", "c", None).plan, 90),
        (attempts.fail(handle(before), "r", ATTEMPT_TIMEOUT, None).plan, 90),
    ):
        assert (
            stored(applied(Commit(plan), before, attempt(before))).retain_until_ms == NOW + kept_ms
        )


# ---- fail


def test_failing_for_good() -> None:
    act = attempts.fail(HELD, "boom", "permanent", None)
    assert act.result == TerminalFailed()
    store = applied(act, RUNNING, TRIED)
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.attempt_state) == (
        "ENDED",
        "failed",
        "attempt_terminal",
    )
    assert (after.failure_reason, after.last_failure_message, after.blocking_detail) == (
        "boom",
        "boom",
        "",
    )
    assert (
        after.terminal_at_ms,
        after.closing_epoch,
        after.closing_attempt_index,
        after.retry_count,
    ) == (
        NOW,
        RUNNING.lease_epoch,
        0,
        0,
    )
    check_released(after)
    assert (row.attempt_state, row.outcome, row.failure_reason, row.failure_category) == (
        "ended_failure",
        "failed",
        "boom",
        "permanent",
    )
    assert (row.terminal_at_ms, row.lease_expires_at_ms) == (NOW, None)
    assert told(store) == (["revoked"], ["failed"], [])


@pytest.mark.parametrize(
    ("delay", "vector", "detail"),
    [
        (0, "READY", ""),
        (250, "DELAYED", f"retry backoff until {NOW + 250} (attempt 0 failed: boom)"),
    ],
)
def test_failing_with_a_retry(delay: int, vector: str, detail: str) -> None:
    act = attempts.fail(HELD, "boom", "transient", delay, '{"next":1}')
    store = seeded(RUNNING, TRIED)
    done = commit(store, act.plan)
    assert isinstance(done, Applied)
    assert act.result(done) == RetryScheduled(NOW + delay, 1)
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.blocking_detail) == (
        vector,
        "pending_retry_attempt",
        detail,
    )
    assert after.blocking_reason == (
        "waiting_for_worker" if delay == 0 else "waiting_for_retry_backoff"
    )
    assert (after.delay_until_ms, after.retry_count, after.terminal_at_ms, after.closing_epoch) == (
        NOW + delay,
        1,
        None,
        None,
    )
    assert (
        after.pending_retry_reason,
        after.pending_previous_attempt_index,
        after.pending_attempt_policy,
    ) == (
        "boom",
        0,
        '{"next":1}',
    )
    assert (after.attempt_index, after.total_attempt_count, after.current_attempt_id) == (
        0,
        1,
        None,
    )
    assert (after.failure_reason, after.last_failure_message) == ("boom", "boom")
    check_released(after)
    assert (row.attempt_state, row.outcome, row.failure_reason, row.failure_category) == (
        "ended_failure",
        "retry",
        "boom",
        "transient",
    )
    assert (row.terminal_at_ms, row.lease_expires_at_ms) == (NOW, None)
    assert told(store) == (["revoked"], [], [])


# ---- delay and giving up


@pytest.mark.parametrize("until", [NOW + 500, NOW, NOW - 500])
@pytest.mark.parametrize(("timeout", "left"), [(None, None), (NOW + 40, 40), (NOW + 1, 1)])
def test_delaying_parks_the_same_attempt(until: int, timeout: int | None, left: int | None) -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=timeout)
    act = attempts.delay(handle(before), until)
    assert act.result == Delayed(IDENT)
    store = applied(act, before, attempt(before))
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.interrupt_cause) == (
        "DELAYED",
        "attempt_interrupted",
        "delayed",
    )
    assert (after.delay_until_ms, after.blocking_reason, after.blocking_detail) == (
        until,
        "waiting_for_delay",
        f"delayed until {until}",
    )
    assert (after.attempt_timeout_remaining_ms, after.current_attempt_id, after.retry_count) == (
        left,
        ATTEMPT_ID,
        0,
    )
    check_released(after)
    assert (row.attempt_state, row.suspended_at_ms, row.suspension_id, row.outcome) == (
        "suspended",
        NOW,
        "worker_delay",
        None,
    )
    assert (row.attempt_timeout_remaining_ms, row.lease_expires_at_ms) == (left, None)
    assert told(store) == (["revoked"], [], [])


def test_giving_up_cancels_and_fences_the_own_handle() -> None:
    store = applied(Commit(attempts.give_up(HELD, "enough")), RUNNING, TRIED)
    after, row = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.lifecycle_phase) == (
        "ENDED",
        "cancelled",
        "cancelled",
    )
    assert (after.cancellation_reason, after.cancelled_by, after.terminal_at_ms) == (
        "enough",
        "worker",
        NOW,
    )
    assert (after.closing_epoch, after.closing_attempt_index) == (RUNNING.lease_epoch, 0)
    check_released(after, epoch=RUNNING.lease_epoch + 1)
    assert (row.attempt_state, row.outcome, row.failure_reason) == (
        "ended_cancelled",
        "cancelled",
        "cancelled: enough",
    )
    assert (row.worker_instance_id, row.lease_expires_at_ms, row.lease_epoch) == (
        None,
        None,
        after.lease_epoch,
    )
    assert told(store) == (["revoked"], ["cancelled"], [])


# ---- the stored lease as a handle


def test_the_stored_lease_replaces_a_handle() -> None:
    assert attempts.holder(RUNNING, BackendTag.SQLITE, TTL) == HELD
    assert attempts.holder(RUNNING, BackendTag.POSTGRES).tag is BackendTag.POSTGRES
    assert (
        attempts.holder(
            execution("RUNNING", current_worker_instance_id=None), BackendTag.SQLITE
        ).worker_instance_id
        == ""
    )


@pytest.mark.parametrize("missing", ["current_attempt_id", "current_lease_id"])
def test_without_a_lease_there_is_no_holder(missing: str) -> None:
    with pytest.raises(AssertionError):
        attempts.holder(execution("RUNNING", **{missing: None}), BackendTag.SQLITE)


# ---- repeated and refused calls

ENDINGS: dict[str, tuple[Any, Any]] = {
    "success": (attempts.complete(HELD, b"first"), Completed(IDENT)),
    "failed": (attempts.fail(HELD, "r", "c", None).plan, TerminalFailed()),
    "cancelled": (attempts.give_up(HELD, "r"), None),
}


@pytest.mark.parametrize("outcome", ENDINGS)
def test_a_terminal_call_sent_again_by_the_same_lease_answers_the_same(outcome: str) -> None:
    plan, result = ENDINGS[outcome]
    store = applied(Commit(plan), RUNNING, TRIED)
    before = stored(store)
    assert isinstance(commit(store, plan), Refused)
    why = attempts.explain(load(store, 0), HELD, outcome)
    assert isinstance(why, Return) and why.result == result
    assert stored(store) == before
    assert [len(kinds) for kinds in told(store)] == [1, 1, 0]


@pytest.mark.parametrize(
    ("ended", "asked"), [(e, a) for e in ENDINGS for a in (*ENDINGS, None) if a != e]
)
def test_a_call_after_another_ending_is_refused(ended: str, asked: str | None) -> None:
    store = applied(Commit(ENDINGS[ended][0]), RUNNING, TRIED)
    why = attempts.explain(load(store, 0), HELD, asked)
    assert refusal(why) == ("lease_conflict" if ended == "cancelled" else "execution_not_active")


@pytest.mark.parametrize("outcome", ENDINGS)
def test_another_lease_does_not_share_the_answer(outcome: str) -> None:
    store = applied(Commit(ENDINGS[outcome][0]), RUNNING, TRIED)
    for changed in ({"lease_epoch": 9}, {"lease_id": UUID(int=9)}):
        assert (
            refusal(attempts.explain(load(store, 0), handle(RUNNING, **changed), outcome))
            == "lease_conflict"
        )


@pytest.mark.parametrize("delay", [0, 250])
def test_a_failure_sent_again_reports_the_retry_that_waits(delay: int) -> None:
    act = attempts.fail(HELD, "boom", "transient", delay)
    store = applied(act, RUNNING, TRIED)
    assert isinstance(commit(store, act.plan), Refused)
    assert answer(attempts.explain(load(store, 0), HELD, "failed")) == RetryScheduled(
        NOW + delay, 1
    )  # type: ignore[arg-type]
    assert refusal(attempts.explain(load(store, 0), HELD, "success")) == "execution_not_active"


@pytest.mark.parametrize(
    ("reason", "answers"), [(ATTEMPT_TIMEOUT, True), ("execution_deadline", False)]
)
def test_a_timeout_sent_again_answers_the_same_and_a_deadline_is_not_taken_for_it(
    reason: str, answers: bool
) -> None:
    store = applied(
        Commit(attempts.fail(HELD, "too long", ATTEMPT_TIMEOUT, None).plan), RUNNING, TRIED
    )
    ended = load(store, 0)
    assert ended.execution is not None and ended.execution.terminal_outcome == "expired"
    seen = structs.replace(ended, execution=structs.replace(ended.execution, failure_reason=reason))
    why = attempts.explain(seen, HELD, "failed")
    assert answer(why) == TerminalFailed() if answers else refusal(why) == "execution_not_active"


def test_a_retry_that_was_promoted_reports_when_it_became_ready() -> None:
    promoted = execution(
        "READY", "pending_retry_attempt", delay_until_ms=None, last_transition_at=NOW - 3
    )
    why = attempts.explain(snapshot(promoted), handle(promoted), "failed")
    assert why == Return(RetryScheduled(NOW - 3, 1))


def test_a_retry_that_was_claimed_again_is_a_conflict() -> None:
    claimed = execution(
        "RUNNING", lease_epoch=2, attempt_index=1, total_attempt_count=2, retry_count=1
    )
    why = attempts.explain(snapshot(claimed, attempt=TRIED), HELD, "failed")
    assert refusal(why) == "lease_conflict"


def test_when_the_lease_is_fine_the_call_is_tried_again() -> None:
    assert attempts.explain(snapshot(RUNNING), HELD, "success") is None
    assert attempts.explain(snapshot(RUNNING), HELD) is None


@pytest.mark.parametrize("marks", [True, False])
def test_only_calls_that_matter_mark_an_expired_lease(marks: bool) -> None:
    late = execution("RUNNING", lease_expires_at_ms=NOW)
    why = attempts.explain(snapshot(late), handle(late), marks=marks)
    assert isinstance(why, Reject)
    assert (why.mark is not None) is marks
