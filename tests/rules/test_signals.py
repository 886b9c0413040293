from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.model.execution import Execution
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    DeliverSignalArgs,
    OperatorOnly,
    ResumePolicy,
    Signal,
    SignalAccepted,
    SignalDuplicate,
    Single,
    Suspension,
    TimeoutOnly,
    Waitpoint,
    all_of_waitpoints,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.rules.waits.signals import Delivery, check_source, deliver, is_long
from flowfabric.rules.waits.suspend import encode_policy
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    answer,
    applied,
    attempt,
    commit,
    events,
    execution,
    refusal,
    run,
    seeded,
    stored,
    stored_attempt,
    told,
)
from .wait_factory import (
    OTHER_SUSPENSION,
    SECOND,
    SIGNAL_ID,
    SUSPENSION_ID,
    THIRD,
    WAITPOINT_ID,
    changed,
    deliver_args,
    one,
    rows_of,
    suspended,
    suspension,
    waitpoint,
)

MET, KEPT = "resume_condition_satisfied", "appended_to_waitpoint"
FIRST = UUID(int=0x1)
DEDUP = "ff_signal_dedup"


def around(
    of: Execution | None = None,
    at: Waitpoint | None = None,
    wait: Suspension | None = None,
    **more: Any,
) -> tuple[Delivery, list[Any]]:
    """What a delivery is decided from, and the rows it is applied to."""
    of, at, wait = of or suspended(flow_id=FLOW_ID), at or waitpoint(), wait or suspension()
    given: dict[str, Any] = {"now_ms": NOW, "duplicate_of": None, "signals": 0, **more}
    return Delivery(execution=of, waitpoint=at, suspension=wait, **given), [
        of,
        attempt(of),
        at,
        wait,
    ]


def delivered(
    condition: Condition = Single("a"),  # noqa: B008
    args: DeliverSignalArgs | None = None,
    *others: Waitpoint,
    at: Waitpoint | None = None,
    **columns: Any,
) -> tuple[str, MemoryStore]:
    seen, rows = around(at=at, wait=suspension(condition, **columns))
    decision = deliver(seen, args or deliver_args())
    assert isinstance(decision, Commit)
    assert decision.result.signal_id == (args or deliver_args()).signal_id
    return decision.result.effect, applied(decision, *rows, *others)


# ---- the checks


def test_the_checks_of_a_delivery_in_order() -> None:
    """Each line gets past the checks before its own and fails all that come after."""
    ended, late = (
        execution("ENDED", outcome="failed"),
        waitpoint(state="pending", expires_at_ms=NOW),
    )
    full: dict[str, Any] = {"signals": 10_000}

    def said(of: Execution, at: Waitpoint, **more: Any) -> Decision:
        return deliver(around(of, at, **more)[0], deliver_args())

    assert answer(said(ended, late, duplicate_of=FIRST, **full)) == SignalDuplicate(FIRST)
    assert refusal(said(ended, late, **full)) == "target_not_signalable"
    assert refusal(said(execution("RUNNING"), late, **full)) == "waitpoint_closed"
    assert (
        refusal(said(execution("RUNNING"), waitpoint(state="closed"), **full))
        == "target_not_signalable"
    )
    assert refusal(said(suspended(), waitpoint(state="closed"), **full)) == "waitpoint_closed"
    assert refusal(said(suspended(), waitpoint(), **full)) == "signal_limit_exceeded"
    assert (
        refusal(said(execution("RUNNING"), waitpoint(state="pending"), **full))
        == "signal_limit_exceeded"
    )
    assert isinstance(said(suspended(), waitpoint(), signals=9_999), Commit)


@pytest.mark.parametrize("outcome", VECTORS["ENDED"].outcomes)
@pytest.mark.parametrize("state", ["pending", "active", "closed"])
def test_nobody_signals_what_is_over(outcome: str, state: str) -> None:
    seen, _ = around(execution("ENDED", outcome=outcome), waitpoint(state=state))
    assert refusal(deliver(seen, deliver_args())) == "target_not_signalable"


@pytest.mark.parametrize("name", [name for name in VECTORS if name not in ("SUSPENDED", "ENDED")])
@pytest.mark.parametrize("state", ["active", "closed", "expired"])
def test_only_a_suspended_execution_listens(name: str, state: str) -> None:
    seen, _ = around(execution(name), waitpoint(state=state))
    assert refusal(deliver(seen, deliver_args())) == "target_not_signalable"


@pytest.mark.parametrize(
    ("at", "wait"),
    [
        (waitpoint(state="closed"), suspension()),
        (waitpoint(state="expired"), suspension()),
        (waitpoint(suspension_id=OTHER_SUSPENSION), suspension()),
        (waitpoint(), suspension(closed_at_ms=NOW)),
    ],
)
def test_a_waitpoint_listens_for_the_open_suspension_only(at: Waitpoint, wait: Suspension) -> None:
    seen, _ = around(at=at, wait=wait)
    assert refusal(deliver(seen, deliver_args())) == "waitpoint_closed"


def test_a_waitpoint_without_any_suspension_is_closed() -> None:
    seen, _ = around()
    assert refusal(deliver(replace(seen, suspension=None), deliver_args())) == "waitpoint_closed"


@pytest.mark.parametrize(
    ("signals", "most", "accepted"),
    [(2, 3, True), (3, 3, False), (4, 3, False), (99_999, 0, True), (0, 1, True)],
)
def test_the_most_signals_of_an_execution(signals: int, most: int, accepted: bool) -> None:
    decision = deliver(around(signals=signals)[0], deliver_args(max_signals_per_execution=most))
    if accepted:
        assert isinstance(decision, Commit)
    else:
        assert refusal(decision) == "signal_limit_exceeded"


@pytest.mark.parametrize("source", ["engine", " Operator "])
def test_a_token_does_not_speak_for_the_engine_or_an_operator(source: str) -> None:
    assert check_source(deliver_args()) is None
    said = check_source(deliver_args(source_type=source))
    assert said is not None
    assert "source_type: any except" in str(said)


VETOED = Count(2, CountKind.DISTINCT_SOURCES, ("a",), "approved", "rejected")
INTEGER = '{"type":"integer"}'


@pytest.mark.parametrize("state", ["active", "pending"])
@pytest.mark.parametrize(
    ("name", "payload", "wrong"),
    [
        ("approved", b"1", None),
        ("rejected", b"1", None),
        ("rejected", None, None),
        ("approved", None, "payload"),
        ("approved", b'"x"', "payload"),
        ("rejected", b'"x"', "payload"),
        ("maybe", b"1", "signal_name: one of approved, rejected, got 'maybe'"),
    ],
)
def test_a_decision_takes_its_names_and_a_payload_that_fits(
    state: str, name: str, payload: bytes | None, wrong: str | None
) -> None:
    at = waitpoint(
        state=state, payload_schema=INTEGER, required_signal_names='["approved","rejected"]'
    )
    seen, _ = around(at=at, wait=suspension(VETOED))
    decision = deliver(seen, deliver_args(name, payload=payload))
    if wrong is None:
        assert isinstance(decision, Commit)
    else:
        assert isinstance(decision, Reject)
        assert wrong in str(decision.error)


def test_a_wait_that_decides_nothing_takes_any_name() -> None:
    seen, _ = around(wait=suspension(Single("a")))
    assert isinstance(deliver(seen, deliver_args("anything")), Commit)


# ---- ahead of the suspension


@pytest.mark.parametrize("name", ["RUNNING", "READY", "SUSPENDED"])
@pytest.mark.parametrize("expires_at", [None, NOW + 1])
def test_a_pending_waitpoint_keeps_what_arrives(name: str, expires_at: int | None) -> None:
    seen, rows = around(
        execution(name), waitpoint(state="pending", expires_at_ms=expires_at, signal_count=1)
    )
    decision = deliver(seen, deliver_args(idempotency_key="once"))
    assert isinstance(decision, Commit) and decision.result == SignalAccepted(
        SIGNAL_ID, "buffered_for_pending_waitpoint"
    )
    store = applied(decision, *rows)
    row = one(store, Waitpoint)
    assert (row.state, row.signal_count, row.matched_signal_count, row.last_signal_at_ms) == (
        "pending",
        2,
        0,
        NOW,
    )
    kept = one(store, Signal)
    assert (kept.observed_effect, kept.matched, kept.suspension_id) == (
        "buffered_for_pending_waitpoint",
        0,
        None,
    )
    assert stored(store) == rows[0]
    assert one(store, Suspension) == rows[3]
    (event,) = events(store, "ff_signal_event")
    assert event["event_type"] == "buffered_for_pending_waitpoint"
    assert len(run(store.dump((DEDUP,)))[DEDUP]) == 1
    assert told(store) == ([], [], [])


# ---- what is written


def test_everything_about_a_signal_is_kept() -> None:
    args = deliver_args(
        "go",
        signal_category="c",
        source_type="user",
        source_identity="eva",
        payload=b"\x00\xff",
        payload_encoding="raw",
        correlation_id="x-1",
        idempotency_key="k",
        target_scope="execution",
        created_at=NOW - 77,
        now=NOW - 7,
    )
    _, store = delivered(Single("a", "other"), args)
    assert one(store, Signal) == Signal(
        partition_key=IDENT.partition_index,
        execution_id=IDENT.uuid,
        signal_id=SIGNAL_ID,
        waitpoint_id=WAITPOINT_ID,
        waitpoint_key="a",
        suspension_id=SUSPENSION_ID,
        attempt_index=0,
        signal_name="go",
        signal_category="c",
        source_type="user",
        source_identity="eva",
        correlation_id="x-1",
        payload_encoding="raw",
        target_scope="execution",
        idempotency_key="k",
        created_at_ms=NOW - 77,
        accepted_at_ms=NOW - 7,
        observed_effect=KEPT,
        matched=0,
        payload=b"\x00\xff",
    )
    (event,) = events(store, "ff_signal_event")
    assert (event["execution_id"], event["signal_id"], event["waitpoint_id"]) == (
        IDENT.uuid,
        SIGNAL_ID,
        WAITPOINT_ID,
    )
    assert (event["source_identity"], event["event_type"], event["occurred_at_ms"]) == (
        "eva",
        KEPT,
        NOW - 7,
    )
    assert event["partition_key"] == IDENT.partition_index


def test_what_is_not_said_about_a_signal() -> None:
    _, store = delivered(args=deliver_args("", payload_encoding="", idempotency_key=""))
    row = one(store, Signal)
    assert (row.payload, row.payload_encoding, row.idempotency_key, row.created_at_ms) == (
        None,
        None,
        None,
        NOW,
    )


@pytest.mark.parametrize(
    ("key", "ttl", "kept"),
    [("k", 50, True), ("k", 0, False), ("", 50, False), (None, 50, False), ("k", -1, False)],
)
@pytest.mark.parametrize(
    "condition", [Single("a"), Single("a", "other"), all_of_waitpoints("a", "b")]
)
def test_a_key_is_remembered_for_its_time(
    key: str | None, ttl: int, kept: bool, condition: Condition
) -> None:
    _, store = delivered(condition, deliver_args(idempotency_key=key, dedup_ttl_ms=ttl))
    expected = (
        [(IDENT.partition_index, WAITPOINT_ID, "k", IDENT.uuid, SIGNAL_ID, NOW + 50)]
        if kept
        else []
    )
    assert run(store.dump((DEDUP,)))[DEDUP] == expected


def test_a_key_past_its_time_is_given_to_the_next_signal() -> None:
    seen, rows = around(wait=suspension(OperatorOnly()))
    store = seeded(*rows)
    for number in (8, 9):
        args = deliver_args(signal_id=UUID(int=number), idempotency_key="k", dedup_ttl_ms=number)
        decision = deliver(replace(seen, execution=stored(store)), args)
        assert isinstance(decision, Commit)
        assert isinstance(commit(store, decision.plan), Applied)
    assert run(store.dump((DEDUP,)))[DEDUP] == [
        (IDENT.partition_index, WAITPOINT_ID, "k", IDENT.uuid, UUID(int=9), NOW + 9)
    ]


TWO = all_of_waitpoints("a", "b")
VOTES = Count(2, CountKind.DISTINCT_SIGNALS, ("a",), "vote")


@pytest.mark.parametrize(
    ("condition", "key", "satisfied", "effect", "matched"),
    [
        (Single("a"), "a", [], MET, 1),
        (Single("a", "other"), "a", [], KEPT, 0),
        (OperatorOnly(), "a", [], KEPT, 0),
        (TimeoutOnly(), "a", [], KEPT, 0),
        (TWO, "a", [], KEPT, 1),
        (TWO, "a", ["leaf:members[0]"], "appended_to_waitpoint_duplicate", 1),
        (TWO, "a", ["leaf:members[1]"], MET, 1),
        (TWO, "z", [], "signal_ignored_not_in_condition", 0),
        (VOTES, "a", [], "signal_ignored_matcher_failed", 0),
    ],
)
def test_every_effect_on_its_rows(
    condition: Condition, key: str, satisfied: list[str], effect: str, matched: int
) -> None:
    at = waitpoint(key=key, signal_count=4, matched_signal_count=2)
    said, store = delivered(condition, at=at, satisfied_set=json.dumps(satisfied))
    assert said == effect
    row, kept, wait = one(store, Waitpoint), one(store, Signal), one(store, Suspension)
    assert (row.signal_count, row.matched_signal_count, row.last_signal_at_ms) == (
        5,
        2 + matched,
        NOW,
    )
    assert (kept.observed_effect, kept.matched) == (effect, matched)
    assert (wait.last_signal_at_ms, wait.is_open) == (NOW, effect != MET)
    grown = len(json.loads(wait.satisfied_set)) > len(satisfied)
    assert json.loads(wait.satisfier_signal_ids) == ([str(SIGNAL_ID)] if grown else [])
    assert [event["event_type"] for event in events(store, "ff_signal_event")] == [effect]
    if effect != MET:
        before = suspended(flow_id=FLOW_ID)
        assert stored(store) == changed(before, version=before.version + 1, last_mutation_at=NOW)
        assert told(store) == ([], [], [])


def test_the_same_signal_again_is_recorded_once_and_does_not_advance_a_count() -> None:
    condition = Count(2, CountKind.DISTINCT_SIGNALS, ("a",))
    first, store = delivered(condition)
    wait, at = one(store, Suspension), one(store, Waitpoint)
    decision = deliver(around(stored(store), at, wait)[0], deliver_args(payload=b"new"))
    assert isinstance(decision, Commit)
    assert isinstance(commit(store, decision.plan), Applied)
    assert (first, decision.result.effect) == (KEPT, "appended_to_waitpoint_duplicate")
    assert one(store, Signal).payload == b"new"
    assert json.loads(one(store, Suspension).satisfier_signal_ids) == [str(SIGNAL_ID)]


def test_a_signal_that_satisfies_twice_is_one_satisfier() -> None:
    condition = AllOf((Single("a"), Single("b"), Single("c")))
    _, store = delivered(
        condition, satisfied_set='["leaf:members[1]"]', satisfier_signal_ids=f'["{SIGNAL_ID}"]'
    )
    assert json.loads(one(store, Suspension).satisfier_signal_ids) == [str(SIGNAL_ID)]


# ---- the last one


def test_a_completing_signal_makes_the_attempt_claimable_and_closes_the_suspension() -> None:
    before = suspended(flow_id=FLOW_ID)
    others = (
        waitpoint(SECOND, "b"),
        waitpoint(THIRD, "left", "pending"),
        waitpoint(UUID(int=9), "old", "closed", close_reason="proactive_close", closed_at_ms=5),
    )
    said, store = delivered(
        TWO, None, *others, satisfied_set='["leaf:members[1]"]', satisfier_signal_ids='["x"]'
    )
    assert said == MET
    after = stored(store)
    assert (name_of(vector_of(after)), after.public_state) == ("READY", "waiting")
    assert (after.attempt_state, after.interrupt_cause) == (
        "attempt_interrupted",
        before.interrupt_cause,
    )
    assert (after.lease_epoch, after.version, after.attempt_index) == (
        before.lease_epoch,
        before.version + 1,
        0,
    )
    assert (after.current_suspension_id, after.current_waitpoint_id) == (None, None)
    assert (after.delay_until_ms, after.blocking_detail, after.last_transition_at) == (
        None,
        "",
        NOW,
    )
    assert stored_attempt(store) == attempt(before)
    wait = one(store, Suspension)
    assert (wait.closed_at_ms, wait.close_reason, wait.closer_signal_id) == (
        NOW,
        "resumed",
        SIGNAL_ID,
    )
    assert json.loads(wait.satisfier_signal_ids) == ["x", str(SIGNAL_ID)]
    for ident in (WAITPOINT_ID, SECOND):
        row = one(store, Waitpoint, waitpoint_id=ident)
        assert (row.state, row.close_reason, row.closed_at_ms, row.satisfied_at_ms) == (
            "closed",
            "resumed",
            NOW,
            NOW,
        )
    assert {one(store, Waitpoint, waitpoint_id=row.waitpoint_id) == row for row in others[1:]} == {
        True
    }
    assert told(store) == ([], ["resumable"], [])
    (done,) = events(store, "ff_completion_event")
    assert (done["flow_id"], done["execution_id"], done["occurred_at_ms"]) == (
        None,
        IDENT.uuid,
        NOW,
    )


@pytest.mark.parametrize(
    ("given", "policy", "delay"),
    [
        (None, None, 0),
        (0, None, 0),
        (None, 40, 40),
        (0, 40, 0),
        (9, 40, 9),
        (9, None, 9),
        (None, 0, 0),
    ],
)
def test_the_delay_of_the_signal_goes_before_that_of_the_policy(
    given: int | None, policy: int | None, delay: int
) -> None:
    kept = encode_policy(ResumePolicy(resume_delay_ms=policy))
    _, store = delivered(
        args=deliver_args("go", resume_delay_ms=given, now=NOW - 2), resume_policy=kept
    )
    after = stored(store)
    if not delay:
        assert (name_of(vector_of(after)), after.delay_until_ms, after.blocking_detail) == (
            "READY",
            None,
            "",
        )
        return
    assert (name_of(vector_of(after)), after.public_state) == ("DELAYED", "delayed")
    assert (after.blocking_reason, after.delay_until_ms) == (
        "waiting_for_resume_delay",
        NOW - 2 + delay,
    )
    assert after.blocking_detail == f"resume delay {delay}ms after signal go"
    assert after.attempt_state == "attempt_interrupted"


def test_two_completing_signals_at_once() -> None:
    seen, rows = around()
    one_of, other = (deliver(seen, deliver_args(signal_id=UUID(int=n))) for n in (1, 2))
    assert isinstance(one_of, Commit) and isinstance(other, Commit)
    store = seeded(*rows)
    assert isinstance(commit(store, one_of.plan), Applied)
    assert isinstance(commit(store, other.plan), Refused)
    assert [row.signal_id for row in rows_of(store, Signal)] == [UUID(int=1)]
    again, _ = around(stored(store), one(store, Waitpoint), one(store, Suspension))
    assert refusal(deliver(again, deliver_args())) == "target_not_signalable"


def test_two_signals_at_once_are_counted_one_after_the_other() -> None:
    seen, rows = around(wait=suspension(OperatorOnly()))
    first, second = (deliver(seen, deliver_args(signal_id=UUID(int=n))) for n in (1, 2))
    assert isinstance(first, Commit) and isinstance(second, Commit)
    store = seeded(*rows)
    assert isinstance(commit(store, first.plan), Applied)
    assert isinstance(commit(store, second.plan), Refused)


@pytest.mark.parametrize(
    ("count", "trimmed", "most", "long"),
    [
        (8, 0, 8, False),
        (9, 0, 8, True),
        (9, 1, 8, False),
        (1_124, 0, 1_000, False),
        (1_125, 0, 1_000, True),
        (99, 0, 0, False),
    ],
)
def test_a_history_is_trimmed_for_an_eighth_at_a_time(
    count: int, trimmed: int, most: int, long: bool
) -> None:
    assert is_long(waitpoint(signal_count=count, signals_trimmed=trimmed), most) is long
