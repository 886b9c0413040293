"""Every state vector has reasons, in the order in which they have to be resolved."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.explanation import (
    Holder,
    Outcome,
    Quota,
    Why,
)
from flowfabric.rules.executions.explain import EXPLAINED, is_ready, looks_ahead
from flowfabric.rules.executions.phrasing import ago, clipped, coming, counted, listed, span
from flowfabric.rules.states import STATE_VALUES, VECTORS

from .explain_factory import (
    QUOTA_ID,
    SPENT,
    codes,
    explained,
    lane,
    worker,
)
from .factory import NOW, execution

# ---- every state


def test_every_state_has_a_row() -> None:
    assert set(EXPLAINED) == set(VECTORS)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (name, reason)
        for name, v in VECTORS.items()
        for reason in v.blocking_reasons
        if reason != "none"
    ],
)
def test_the_code_of_a_waiting_state_is_its_blocking_reason(vector: str, reason: str) -> None:
    found = explained(vector, reason=reason, last_transition_at=NOW - 5, workers=(worker(),))
    expected = {"READY": "waiting_for_worker", "LOST": "lease_expired"}.get(vector, reason)
    assert (found.state, codes(found)) == (vector, [expected])
    assert found.code == expected
    assert found.reasons[0].says and found.reasons[0].hint


def test_every_blocking_reason_is_a_code() -> None:
    assert STATE_VALUES["blocking_reason"] - {"none"} <= {why.value for why in Why}


def test_contradicting_columns_are_reported() -> None:
    found = explained(ownership_state="leased")
    assert (found.state, codes(found)) == ("UNKNOWN", ["unknown"])
    assert "flowfabric verify" in found.reasons[0].hint
    assert not looks_ahead(execution(ownership_state="leased"))


@pytest.mark.parametrize(
    ("vector", "ahead"),
    [("READY", True), ("SUSPENDED", True), ("RUNNING", False), ("ENDED", False)],
)
def test_only_waiting_executions_need_other_rows(vector: str, ahead: bool) -> None:
    assert looks_ahead(execution(vector)) is ahead
    assert is_ready(execution(vector)) is (vector == "READY")


# ---- ended and running


@pytest.mark.parametrize(
    ("outcome", "columns", "says", "facts"),
    [
        ("success", {}, "it completed 1 s ago", Outcome("success", "", NOW - 1_000)),
        (
            "success",
            {"failure_reason": "an earlier try"},
            "it completed 1 s ago",
            Outcome("success", "", NOW - 1_000),
        ),
        (
            "failed",
            {"failure_reason": "no disk"},
            "it failed 1 s ago: no disk",
            Outcome("failed", "no disk", NOW - 1_000),
        ),
        (
            "cancelled",
            {"cancellation_reason": "enough", "cancelled_by": "ann"},
            "it was cancelled 1 s ago by ann: enough",
            Outcome("cancelled", "enough", NOW - 1_000, "ann"),
        ),
        ("cancelled", {}, "it was cancelled 1 s ago", Outcome("cancelled", "", NOW - 1_000)),
        (
            "expired",
            {"failure_reason": "execution_deadline"},
            "it expired 1 s ago: execution_deadline",
            Outcome("expired", "execution_deadline", NOW - 1_000),
        ),
        (
            "skipped",
            {},
            "it was skipped, because its dependencies cannot be met, 1 s ago",
            Outcome("skipped", "", NOW - 1_000),
        ),
    ],
)
def test_the_reason_of_an_ended_execution(
    outcome: str, columns: dict[str, Any], says: str, facts: Outcome
) -> None:
    (reason,) = explained("ENDED", outcome=outcome, **columns).reasons
    assert (reason.code, reason.says, reason.facts, reason.since_ms) == (
        Why.ENDED,
        says,
        facts,
        NOW - 1_000,
    )


def test_the_holder_and_its_progress() -> None:
    (reason,) = explained("RUNNING").reasons
    assert (
        reason.says == "worker `worker` (`worker-1`) runs attempt 1, started 10 s ago; "
        "its lease expires in 20 s unless renewed"
    )
    assert reason.facts == Holder("worker", "worker-1", NOW - 10_000, NOW + 20_000, 0)
    said = (
        explained(
            "RUNNING", progress_pct=40, progress_message="half of it", progress_updated_at=NOW
        )
        .reasons[0]
        .says
    )
    assert "; progress: 40 %, half of it; " in said
    assert (
        "; progress: resting; " in explained("RUNNING", progress_message="resting").reasons[0].says
    )


def test_an_expired_lease_marked_or_not() -> None:
    (unnoticed,) = explained("RUNNING", lease_expires_at_ms=NOW).reasons
    assert (
        unnoticed.code is Why.LEASE_EXPIRED
        and "expired less than a second ago and is about to be marked" in unnoticed.says
    )
    lost = explained("LOST", lane=lane("paused"))
    assert codes(lost) == ["lease_expired", "lane_paused"]
    assert lost.reasons[0].says.startswith(
        "its lease expired 2 s ago, worker `worker` did not renew it"
    )


# ---- several reasons


def test_reasons_are_in_the_order_in_which_they_have_to_be_resolved() -> None:
    around: dict[str, Any] = {
        "lane": lane("paused"),
        "workers": (worker(),),
        "required_capabilities": ("gpu",),
        "budgets": (SPENT,),
        "quota": Quota(QUOTA_ID, 10, 0, 1, None, (), 1),
    }
    capable, budget, quota = "waiting_for_capable_worker", "waiting_for_budget", "waiting_for_quota"
    assert codes(explained(**around)) == ["lane_paused", capable, budget, quota]
    assert codes(explained("DELAYED", **around)) == [
        "waiting_for_delay",
        "lane_paused",
        capable,
        budget,
        quota,
    ]
    assert codes(explained("BUDGET", **around)) == [budget, "lane_paused", capable, quota]
    assert codes(explained("QUOTA", **around)) == [quota, "lane_paused", capable, budget]
    assert codes(explained("ROUTE", **around)) == [capable, "lane_paused", budget, quota]
    assert codes(explained("OPBLOCK", **around)) == [
        "paused_by_operator",
        "lane_paused",
        capable,
        budget,
        quota,
    ]
    assert codes(explained("SUSPENDED", **around)) == [
        "waiting_for_signal",
        "lane_paused",
        capable,
        budget,
        quota,
    ]
    assert codes(explained("DEPS", **around)) == [
        "waiting_for_children",
        "lane_paused",
        capable,
        budget,
        quota,
    ]


# ---- phrases


@pytest.mark.parametrize(
    ("ms", "says"),
    [
        (0, "less than a second"),
        (999, "less than a second"),
        (1_000, "1 s"),
        (59_999, "59 s"),
        (7_200_000, "2 h"),
        (90_000_000, "1 d"),
    ],
)
def test_spans(ms: int, says: str) -> None:
    assert span(ms) == says


def test_lists_and_long_texts_are_cut() -> None:
    assert listed(["a", "b", "c", "d"], 2) == "a, b, c and 3 more" and listed(["a"]) == "a"
    assert clipped("x" * 500) == "x" * 199 + "…" and clipped(None) == ""
    assert (ago(5, None), coming(5, None)) == ("", "")
    assert (counted(1, "reply", "replies"), counted(2_000, "reply", "replies")) == (
        "1 reply",
        "2,000 replies",
    )


def test_a_long_failure_reason_is_clipped() -> None:
    found = explained("ENDED", outcome="failed", failure_reason="x" * 10_000)
    assert len(found.reasons[0].says) < 300
