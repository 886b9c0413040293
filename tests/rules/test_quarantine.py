"""Executions with unreadable columns."""

from __future__ import annotations

import pytest

from flowfabric.errors import Corruption, ValidationKind
from flowfabric.model.execution import UNREADABLE, stored_tags
from flowfabric.model.explanation import Looked, Why
from flowfabric.model.queue_stats import LongWriter
from flowfabric.model.waitpoint import Single, SuspendArgs, TimeoutBehavior
from flowfabric.plan import Applied, Refused
from flowfabric.rules.executions import quarantine, replay
from flowfabric.rules.executions.explain import explain
from flowfabric.rules.leases import renewal
from flowfabric.rules.waits import suspend, waitpoints

from .factory import (
    IDENT,
    NEW_ATTEMPT_ID,
    NOW,
    attempt,
    commit,
    execution,
    grant,
    handle,
    seeded,
    snapshot,
    stored,
    told,
)
from .test_takeover import WAITING, refusal, taken_over
from .wait_factory import deliver_args, suspend_args

RUNNING = execution("RUNNING", attempt_timeout_at_ms=NOW + 40)
TORN = '{"a"'


# ---- blocking


def test_lists_that_cannot_be_read_are_found() -> None:
    assert quarantine.damaged_list(execution()) == ""
    assert (
        quarantine.damaged_list(execution(required_capabilities=UNREADABLE))
        == "required_capabilities"
    )
    assert quarantine.damaged_list(execution(budget_ids=UNREADABLE)) == "budget_ids"


def test_budgets_that_are_not_ids_are_found() -> None:
    good = "018f0000-0000-7000-8000-000000000001"
    assert quarantine.unknown_budgets((good, "none", *UNREADABLE)) == {"none", *UNREADABLE}


def test_a_waiting_execution_is_blocked_with_the_reason() -> None:
    of = execution()
    store = seeded(of)
    plan = quarantine.hold(of.partition_key, of.execution_id, of.version, "tags", NOW)
    assert isinstance(commit(store, plan), Applied)
    after = stored(store)
    assert (after.eligibility_state, after.blocking_reason) == (
        "blocked_by_operator",
        "paused_by_operator",
    )
    assert after.blocking_detail == "quarantined: tags cannot be read"
    assert isinstance(commit(store, plan), Refused), "it has moved"


def test_a_claimed_execution_loses_its_lease_and_keeps_its_attempt() -> None:
    store = seeded(RUNNING, attempt(RUNNING))
    plan = quarantine.hold_claimed(handle(RUNNING), "policy")
    assert isinstance(commit(store, plan), Applied)
    after = stored(store)
    assert (after.blocking_detail, after.current_lease_id) == (
        "quarantined: policy cannot be read",
        None,
    )
    assert (after.attempt_state, after.attempt_timeout_remaining_ms) == ("attempt_interrupted", 40)
    assert (after.current_attempt_id, after.attempt_index) == (
        RUNNING.current_attempt_id,
        RUNNING.attempt_index,
    )
    assert told(store) == (["revoked"], [], [])
    assert isinstance(commit(store, plan), Refused), "the lease is over"


# ---- errors


def test_an_unreadable_column_is_named() -> None:
    with pytest.raises(Corruption) as caught:
        stored_tags("[7]", IDENT)
    assert (caught.value.kind, caught.value.about) == (ValidationKind.CORRUPTION, IDENT)
    assert str(caught.value) == f"corruption: {IDENT}: tags cannot be read"


@pytest.mark.parametrize("raw", [TORN, "7", "[]"])
def test_an_execution_whose_own_fields_cannot_be_read_is_not_replayed(raw: str) -> None:
    ended = execution("ENDED", terminal_outcome="failed", raw_fields=raw)
    with pytest.raises(Corruption, match="raw_fields"):
        replay.replay(snapshot(ended), attempt_id=NEW_ATTEMPT_ID, now_ms=NOW)


# ---- explanations


def test_a_quarantined_execution_has_a_repair_hint() -> None:
    held = execution(
        "OPBLOCK", blocking_detail=quarantine.detail("tags"), last_transition_at=NOW - 5
    )
    reason = explain(Looked(NOW, held)).reasons[0]
    assert reason.code is Why.PAUSED_BY_OPERATOR
    assert "quarantined: tags cannot be read" in reason.says and "repair the row" in reason.hint


def test_an_unreadable_row_that_is_not_blocked_yet_is_reported() -> None:
    reason = explain(Looked(NOW, execution(required_capabilities=UNREADABLE))).reasons[0]
    assert reason.code is Why.UNKNOWN and "required_capabilities cannot be read" in reason.says


def test_delayed_events_are_the_last_reason() -> None:
    writer = LongWriter(7, 42_000, "sales", "report")
    reasons = explain(Looked(NOW, execution(), writer=writer)).reasons
    assert (reasons[-1].code, reasons[-1].facts) == (Why.EVENTS_HELD_BACK, writer)
    assert "backend 7 (report) of database sales has been writing for 42 s" in reasons[-1].says
    assert str(LongWriter(7, 42_000, "", "")) == "backend 7 of database ? has been writing for 42 s"
    assert len(reasons) == 2


# ---- renewals, grants, and policies of suspensions and signals


@pytest.mark.parametrize("told_of", [True, False])
def test_a_renewal_writes_an_event_unless_disabled(told_of: bool) -> None:
    store = seeded(RUNNING, attempt(RUNNING))
    assert isinstance(commit(store, renewal.renew(handle(RUNNING), event=told_of).plan), Applied)
    assert isinstance(
        commit(store, renewal.renew_for(handle(RUNNING), 500, event=told_of)), Applied
    )
    assert stored(store).lease_expires_at_ms == NOW + 500
    assert told(store)[0] == ["renewed"] * (2 if told_of else 0)


def test_the_grant_of_another_worker_refuses_the_claim() -> None:
    assert refusal(taken_over(WAITING, grant=grant(worker_id="other"))) == "invalid_claim_grant"


TIMED = '{"suspension_policy":{"default_timeout_ms":50,"timeout_behavior":"cancel"}}'


@pytest.mark.parametrize("policy", [None, "{}", '{"suspension_policy":{}}'])
def test_without_a_timeout_in_the_policy_a_suspension_keeps_its_own(
    policy: str | None,
) -> None:
    args = suspend_args()
    assert suspend.timed(args, execution(policy=policy), NOW) is args


@pytest.mark.parametrize(("said", "at"), [(None, NOW + 50), (NOW + 900, NOW + 950)])
def test_the_policys_timeout_counts_from_the_suspension(said: int | None, at: int) -> None:
    timed = suspend.timed(suspend_args(Single("a"), now=said), execution(policy=TIMED), NOW)
    assert (timed.timeout_at, timed.timeout_behavior) == (at, TimeoutBehavior.CANCEL)
    own: SuspendArgs = suspend_args(Single("a"), timeout_at=NOW + 7)
    assert suspend.timed(own, execution(policy=TIMED), NOW) is own


@pytest.mark.parametrize(
    ("policy", "asked", "most"),
    [
        (None, 3, 3),
        (None, 0, 0),
        ("{}", 3, 3),
        ("{}", 20_000, 20_000),
        ('{"max_signals_per_execution":2}', 3, 2),
        ('{"max_signals_per_execution":2}', 0, 2),
        ('{"max_signals_per_execution":5}', 3, 3),
        ('{"max_signals_per_execution":0}', 3, 3),
    ],
)
def test_the_smaller_limit_of_signals_counts(policy: str | None, asked: int, most: int) -> None:
    assert (
        waitpoints.signal_limit(policy, IDENT, deliver_args(max_signals_per_execution=asked))
        == most
    )
