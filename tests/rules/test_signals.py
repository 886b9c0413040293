from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.model.execution import Execution
from flowfabric.model.waitpoint import (
    Count,
    CountKind,
    Signal,
    SignalAccepted,
    SignalDuplicate,
    Single,
    Suspension,
    Waitpoint,
)
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.states import VECTORS
from flowfabric.rules.waits.signals import check_source, deliver

from .factory import (
    NOW,
    answer,
    applied,
    events,
    execution,
    refusal,
    run,
    stored,
    told,
)
from .signal_helpers import DEDUP, around
from .wait_factory import (
    OTHER_SUSPENSION,
    SIGNAL_ID,
    deliver_args,
    one,
    suspended,
    suspension,
    waitpoint,
)

FIRST = UUID(int=0x1)


def test_the_checks_of_a_delivery_in_order() -> None:
    """Each line passes the checks before its own, and fails its own and all later ones."""
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
def test_an_ended_execution_takes_no_signal(outcome: str, state: str) -> None:
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
