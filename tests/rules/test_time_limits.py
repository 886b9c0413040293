"""Time limits: a timed-out attempt is retried or expires, a missed deadline ends it."""

from __future__ import annotations

import pytest

from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.execution import AlreadyTerminal, Expired
from flowfabric.model.policy import RetryPolicy, encode_policy, parse_policy
from flowfabric.model.state import ExpirePhase
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit, Decision, Snapshot
from flowfabric.rules.executions import time_limits
from flowfabric.rules.states import VECTORS, name_of, vector_of

from .factory import (
    IDENT,
    LEASE_ID,
    NOW,
    answer,
    applied,
    attempt,
    events,
    execution,
    grant,
    load,
    snapshot,
    stored,
    stored_attempt,
    told,
)

LIVE = [name for name in VECTORS if name != "ENDED"]
NO_RETRIES = RetryPolicy(max_retries=0, backoff={})
ONE_RETRY = RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 70})
AT_ONCE = RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 0})


def expire(
    seen: Snapshot, phase: ExpirePhase, now: int | None, default: RetryPolicy = NO_RETRIES
) -> Decision:
    return time_limits.expire(seen, phase, now, default, 0.5)


TIMEOUT, DEADLINE = ExpirePhase.ATTEMPT_TIMEOUT, ExpirePhase.EXECUTION_DEADLINE


@pytest.mark.parametrize("phase", ExpirePhase)
def test_expiring_a_missing_or_ended_execution_changes_nothing(phase: ExpirePhase) -> None:
    assert answer(expire(snapshot(None), phase, None)) is None
    for outcome in VECTORS["ENDED"].outcomes:
        over = execution("ENDED", outcome=outcome, deadline_at_ms=NOW, attempt_timeout_at_ms=NOW)
        assert answer(expire(snapshot(over), phase, None)) == AlreadyTerminal()


@pytest.mark.parametrize("name", LIVE)
def test_an_attempt_times_out_only_under_a_lease(name: str) -> None:
    due = execution(name, attempt_timeout_at_ms=NOW)
    decision = expire(snapshot(due), TIMEOUT, None)
    if name == "RUNNING":
        assert isinstance(decision, Commit)
    else:
        assert answer(decision) is None


@pytest.mark.parametrize(
    ("column", "phase"), [("attempt_timeout_at_ms", TIMEOUT), ("deadline_at_ms", DEADLINE)]
)
@pytest.mark.parametrize(
    ("at", "now", "due"),
    [
        (None, None, False),
        (NOW + 1, None, False),
        (NOW, None, True),
        (NOW + 9, NOW + 9, True),
        (NOW, NOW - 1, False),
    ],
)
def test_a_limit_is_due_at_its_time(
    column: str, phase: ExpirePhase, at: int | None, now: int | None, due: bool
) -> None:
    decision = expire(snapshot(execution("RUNNING", **{column: at})), phase, now)
    if due:
        assert isinstance(decision, Commit) and decision.result == Expired(IDENT)
    else:
        assert answer(decision) is None


@pytest.mark.parametrize("column", ["attempt_timeout_at_ms", "deadline_at_ms"])
def test_each_phase_looks_at_its_own_limit(column: str) -> None:
    other = TIMEOUT if column == "deadline_at_ms" else DEADLINE
    assert answer(expire(snapshot(execution("RUNNING", **{column: NOW})), other, None)) is None


@pytest.mark.parametrize(
    ("name", "state"), [(name, state) for name in LIVE for state in VECTORS[name].attempt_states]
)
def test_a_missed_deadline_ends_any_live_execution(name: str, state: str) -> None:
    before = execution(name, state, deadline_at_ms=NOW - 50, retention_ttl_ms=10)
    store = applied(expire(snapshot(before), DEADLINE, NOW - 7), before, attempt(before), grant())
    after = stored(store)
    assert (name_of(vector_of(after)), after.terminal_outcome, after.public_state) == (
        "ENDED",
        "expired",
        "expired",
    )
    assert (after.failure_reason, after.terminal_at_ms, after.last_transition_at) == (
        "execution_deadline",
        NOW - 7,
        NOW - 7,
    )
    assert (after.lease_epoch, after.closing_epoch, after.closing_attempt_index) == (
        before.lease_epoch,
        before.lease_epoch,
        0,
    )
    assert (after.current_lease_id, after.lease_expires_at_ms, after.delay_until_ms) == (
        None,
        None,
        None,
    )
    assert load(store).grant is None
    assert after.attempt_state == (
        "attempt_terminal" if before.total_attempt_count else "pending_first_attempt"
    )
    assert told(store) == (["revoked"] if name == "RUNNING" else [], ["expired"], [])
    if before.current_attempt_id is not None:
        closed = stored_attempt(store)
        assert (closed.attempt_state, closed.outcome) == ("ended_failure", "expired")
        assert (closed.failure_reason, closed.terminal_at_ms, closed.lease_expires_at_ms) == (
            "execution_deadline",
            NOW - 7,
            None,
        )
    else:
        assert load(store).attempt == attempt(before)


def test_the_lease_event_of_a_timeout_names_the_lease_and_why() -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=NOW)
    store = applied(expire(snapshot(before), TIMEOUT, None), before, attempt(before))
    (event,) = events(store, "ff_lease_event")
    assert (event["event_type"], event["reason"], event["lease_id"]) == (
        "revoked",
        "expired",
        LEASE_ID,
    )
    assert stored(store).failure_reason == stored_attempt(store).failure_reason == "attempt_timeout"


# ---- the retry policy of timed-out attempts


@pytest.mark.meets("timeout", "retry")
@pytest.mark.parametrize(
    ("default", "delay_ms", "name"), [(ONE_RETRY, 70, "DELAYED"), (AT_ONCE, 0, "READY")]
)
def test_a_timed_out_attempt_is_retried_while_retries_are_left(
    default: RetryPolicy, delay_ms: int, name: str
) -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=NOW, attempt_timeout_ms=40)
    decision = expire(snapshot(before), TIMEOUT, None, default)
    store = applied(decision, before, attempt(before))
    after, closed = stored(store), stored_attempt(store)
    assert (name_of(vector_of(after)), after.retry_count, after.attempt_state) == (
        name,
        1,
        "pending_retry_attempt",
    )
    assert (after.current_lease_id, after.attempt_timeout_at_ms, after.delay_until_ms) == (
        None,
        None,
        NOW + delay_ms,
    )
    assert (closed.attempt_state, closed.outcome, closed.failure_category) == (
        "ended_failure",
        "retry",
        "attempt_timeout",
    )
    assert told(store) == (["revoked"], [], [])
    assert isinstance(decision, Commit) and callable(decision.result)
    assert decision.result(Applied(NOW, (NOW + delay_ms, 1))) == RetryScheduled(NOW + delay_ms, 1)


@pytest.mark.meets("timeout", "retry")
def test_the_policy_of_the_execution_overrides_the_default() -> None:
    policy = encode_policy(
        parse_policy(
            {"retry_policy": {"max_retries": 0, "backoff": {"type": "fixed", "delay_ms": 1}}}
        )
    )
    decision = expire(
        snapshot(execution("RUNNING", attempt_timeout_at_ms=NOW, policy=policy)),
        TIMEOUT,
        None,
        ONE_RETRY,
    )
    assert isinstance(decision, Commit) and decision.result == Expired(IDENT)


@pytest.mark.meets("timeout", "retry")
@pytest.mark.parametrize(
    ("categories", "again"), [((), True), (("attempt_timeout",), True), (("infra_crash",), False)]
)
def test_a_timeout_is_a_category_of_its_own(categories: tuple[str, ...], again: bool) -> None:
    policy = RetryPolicy(max_retries=1, backoff={}, retryable_categories=categories)
    decision = expire(
        snapshot(execution("RUNNING", attempt_timeout_at_ms=NOW)), TIMEOUT, None, policy
    )
    assert isinstance(decision, Commit) and (decision.result != Expired(IDENT)) == again


@pytest.mark.meets("timeout", "deadline")
def test_a_missed_deadline_is_never_retried() -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=NOW, deadline_at_ms=NOW)
    decision = expire(snapshot(before), DEADLINE, None, ONE_RETRY)
    assert isinstance(decision, Commit) and decision.result == Expired(IDENT)


@pytest.mark.meets("timeout", "crash")
@pytest.mark.parametrize(("lease_end", "due"), [(NOW - 2, False), (NOW - 1, True), (NOW + 5, True)])
def test_a_lease_that_ran_out_before_the_limit_is_lost_and_not_timed_out(
    lease_end: int, due: bool
) -> None:
    before = execution("RUNNING", attempt_timeout_at_ms=NOW - 1, lease_expires_at_ms=lease_end)
    assert isinstance(expire(snapshot(before), TIMEOUT, None), Commit) == due
