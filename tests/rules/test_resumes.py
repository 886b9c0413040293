from __future__ import annotations

import pytest

from flowfabric.model.state import PublicState
from flowfabric.model.waitpoint import Resumed, Suspension, Waitpoint
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.rules.waits.signal_forms import DEDUP
from flowfabric.rules.waits.signals import awake, forget_key, forget_suspend, resume, stamp_failure
from flowfabric.rules.waits.suspend import remember

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
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
from .signal_helpers import delivered
from .wait_factory import (
    SECOND,
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

# ---- by an operator


def test_the_checks_of_a_resume_in_order() -> None:
    assert refusal(resume(None, None, 0, NOW)) == "execution_not_found"
    for name in VECTORS:
        if name != "SUSPENDED":
            assert (
                refusal(resume(execution(name), suspension(), 0, NOW)) == "execution_not_suspended"
            )
    assert refusal(resume(suspended(), None, 0, NOW)) == "execution_not_suspended"
    assert (
        refusal(resume(suspended(), suspension(closed_at_ms=NOW), 0, NOW))
        == "execution_not_suspended"
    )


@pytest.mark.parametrize(
    ("delay", "shown", "name"),
    [(0, PublicState.WAITING, "READY"), (25, PublicState.DELAYED, "DELAYED")],
)
def test_an_operator_resumes_whatever_the_condition(
    delay: int, shown: PublicState, name: str
) -> None:
    before, wait = suspended(flow_id=FLOW_ID), suspension()
    decision = resume(before, wait, delay, NOW - 1)
    assert isinstance(decision, Commit) and decision.result == Resumed(shown)
    store = applied(decision, before, attempt(before), wait, waitpoint(), waitpoint(SECOND, "b"))
    after = stored(store)
    assert (name_of(vector_of(after)), after.attempt_state, after.public_state) == (
        name,
        "attempt_interrupted",
        shown,
    )
    assert (after.lease_epoch, after.version, after.interrupt_cause) == (
        before.lease_epoch,
        before.version + 1,
        "suspended",
    )
    assert (after.current_suspension_id, after.current_waitpoint_id) == (None, None)
    assert after.blocking_detail == ("resume delay 25ms" if delay else "")
    assert after.delay_until_ms == (NOW - 1 + delay if delay else None)
    assert stored_attempt(store) == attempt(before)
    closed = one(store, Suspension)
    assert (closed.closed_at_ms, closed.close_reason, closed.closer_signal_id) == (
        NOW - 1,
        "resumed",
        None,
    )
    for row in rows_of(store, Waitpoint):
        assert (row.state, row.closed_at_ms, row.close_reason) == ("closed", NOW - 1, "resumed")
    assert told(store) == ([], [], [])
    assert events(store, "ff_signal_event") == []
    assert refusal(resume(after, closed, 0, NOW)) == "execution_not_suspended"
    assert isinstance(commit(store, decision.plan), Refused)


def test_a_resume_leaves_pending_waitpoints_for_the_next_suspension() -> None:
    before, wait, left = suspended(), suspension(), waitpoint(THIRD, "left", "pending")
    store = applied(resume(before, wait, 0, NOW), before, attempt(before), wait, waitpoint(), left)
    assert one(store, Waitpoint, waitpoint_id=THIRD) == left
    assert one(store, Waitpoint, waitpoint_id=WAITPOINT_ID).state == "closed"


# ---- around


@pytest.mark.parametrize("delay", [0, -1])
def test_no_delay_is_at_once(delay: int) -> None:
    assert awake(delay, NOW, "d") == {
        "eligibility_state": "eligible_now",
        "blocking_reason": "waiting_for_worker",
        "public_state": "waiting",
        "blocking_detail": "",
        "delay_until_ms": None,
    }


def test_a_failed_token_is_noted_and_nothing_else() -> None:
    store = seeded(suspended())
    owner = {"partition_key": IDENT.partition_index, "execution_id": IDENT.uuid}
    assert isinstance(commit(store, stamp_failure(owner, NOW)), Applied)
    assert stored(store) == changed(suspended(), last_hmac_validation_failed_at=NOW)


def test_old_keys_are_forgotten() -> None:
    _, store = delivered(args=deliver_args(idempotency_key="k", dedup_ttl_ms=5))
    (row,) = run(store.dump((DEDUP,)))[DEDUP]
    assert isinstance(commit(store, forget_key(row, NOW + 4)), Refused)
    assert isinstance(commit(store, forget_key(row, NOW + 5)), Applied)
    commit(store, remember(IDENT, "k", "{}", NOW, 5, known=False))
    (row,) = run(store.dump(("ff_suspend_dedup",)))["ff_suspend_dedup"]
    assert isinstance(commit(store, forget_suspend(row, NOW + 4)), Refused)
    assert isinstance(commit(store, forget_suspend(row, NOW + 5)), Applied)
    assert not any(run(store.dump((DEDUP, "ff_suspend_dedup"))).values())
