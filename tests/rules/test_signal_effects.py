"""What a signal writes, and the signal that resumes."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    OperatorOnly,
    ResumePolicy,
    Signal,
    Single,
    Suspension,
    TimeoutOnly,
    Waitpoint,
    all_of_waitpoints,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.states import name_of, vector_of
from flowfabric.rules.waits.signals import deliver, is_long
from flowfabric.rules.waits.suspend import encode_policy

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    attempt,
    commit,
    events,
    refusal,
    run,
    seeded,
    stored,
    stored_attempt,
    told,
)
from .signal_helpers import DEDUP, KEPT, MET, around, delivered
from .wait_factory import (
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


def test_defaults_of_a_signal() -> None:
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
def test_a_key_is_kept_for_its_ttl(
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
        (17, 8, 8, True),
        (16, 8, 8, False),
        (18, 1, 16, False),
        (1, 0, 1, True),
    ],
)
def test_a_history_is_trimmed_for_an_eighth_at_a_time(
    count: int, trimmed: int, most: int, long: bool
) -> None:
    assert is_long(waitpoint(signal_count=count, signals_trimmed=trimmed), most) is long
