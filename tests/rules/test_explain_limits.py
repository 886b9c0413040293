"""The reasons of executions under budgets and quotas."""

from __future__ import annotations

import pytest

from flowfabric.model.explanation import (
    MAX_LISTED,
    Budget,
    Quota,
    SpentBudget,
    UsedQuota,
    Why,
)

from .explain_factory import (
    FREE,
    MIN,
    QUOTA_ID,
    SPENT,
    codes,
    explained,
    worker,
)
from .factory import NOW


def test_a_spent_budget_and_its_reset() -> None:
    (reason,) = explained("BUDGET", budgets=(SPENT,)).reasons
    assert reason.says == "budget b-1 has no usd left (5 of 5 used); it resets in 2 min"
    assert (
        reason.facts == SpentBudget("b-1", "usd", 5, 5, NOW + 2 * MIN)
        and reason.until_ms == NOW + 2 * MIN
    )
    forever = Budget("b-2", {"usd": 5}, {"usd": 9}, None)
    assert "has no reset interval" in explained("BUDGET", budgets=(forever,)).reasons[0].says


def test_several_limits_are_listed_and_an_unused_dimension_is_none() -> None:
    other = Budget("b-2", {"usd": 1, "calls": 1}, {"usd": 1}, None)
    assert codes(explained("BUDGET", budgets=(SPENT, other))) == ["waiting_for_budget"] * 2
    many = Budget("b-3", {f"d{n}": 1 for n in range(50)}, {f"d{n}": 1 for n in range(50)}, None)
    assert len(explained("BUDGET", budgets=(many,)).reasons) == MAX_LISTED


NAMED = Budget("b-1", {"usd": 5, "tokens": 100}, {"tokens": 90}, None, "acme/day")


def test_a_refused_usage_report() -> None:
    """The budget has capacity, and the execution stays blocked all the same."""
    held = {"blocked_on": "refused:b-1", "blocking_detail": "budget b-1: tokens 90/100"}
    (reason,) = explained("BUDGET", budgets=(NAMED,), **held).reasons
    assert reason.says == (
        "budget `acme/day` (b-1) refused its usage report: 90 of 100 tokens are used, and the "
        "report exceeds the rest; it is blocked until the budget is reset, has usage released, or "
        "gets other limits"
    )
    assert reason.facts == SpentBudget("b-1", "tokens", 90, 100, None)
    assert reason.hint == "reset_budget, or update_budget with a higher limit"
    timed = Budget("b-1", {"tokens": 100}, {"tokens": 100}, NOW + 2 * MIN)
    both = explained(
        "BUDGET", budgets=(timed, Budget("b-2", {"usd": 5}, {"usd": 5}, None)), **held
    ).reasons
    assert [reason.facts.budget_id for reason in both] == ["b-1", "b-2"]  # type: ignore[union-attr]
    assert (
        "it is blocked until the budget resets in 2 min, is reset," in both[0].says
        and both[0].until_ms == NOW + 2 * MIN
    )


def test_a_report_refused_by_a_removed_budget() -> None:
    assert (
        "has capacity again"
        in explained("BUDGET", blocked_on="refused:b-9", budgets=(NAMED,)).reasons[0].says
    )


@pytest.mark.parametrize(("vector", "what"), [("BUDGET", "its budget"), ("QUOTA", "its quota")])
def test_a_limit_with_capacity_again(vector: str, what: str) -> None:
    (reason,) = explained(vector, blocking_detail="usd 5/5", quota=FREE).reasons
    assert (
        reason.says
        == f"{what} has capacity again (blocked by: usd 5/5); it is about to be unblocked"
    )
    assert (
        explained(vector).reasons[0].says
        == f"{what} has capacity again; it is about to be unblocked"
    )


@pytest.mark.parametrize(
    ("quota", "facts", "says"),
    [
        (
            Quota(QUOTA_ID, 10, 2, 0, None, (NOW - 10_000, NOW - 9_000, NOW - 4_000), 9),
            UsedQuota(QUOTA_ID, "rate", 2, 2, 10, NOW + 1_000),
            "has admitted its 2 in 10 s; its window opens in 1 s",
        ),
        (
            Quota(QUOTA_ID, 0, 1, 0, None, (NOW - 59_000, NOW - 58_000), 0),
            UsedQuota(QUOTA_ID, "rate", 2, 1, 60, NOW + 2_000),
            "has admitted its 1 in 60 s",
        ),
        (
            Quota(QUOTA_ID, 10, 9, 2, None, (), 2),
            UsedQuota(QUOTA_ID, "concurrency", 2, 2, 10, None),
            "allows 2 executions at once, and 2 hold a slot",
        ),
        (
            Quota(QUOTA_ID, 10, 9, 2, NOW + MIN, (NOW,), 2),
            UsedQuota(QUOTA_ID, "closed", 1, 9, 10, NOW + MIN),
            "is closed for another 1 min",
        ),
        (
            Quota(QUOTA_ID, 10, 9, 1, NOW, (NOW,), 1),
            UsedQuota(QUOTA_ID, "concurrency", 1, 1, 10, None),
            "allows 1 execution at once",
        ),
    ],
)
def test_a_used_quota_its_cause_and_its_opening(quota: Quota, facts: UsedQuota, says: str) -> None:
    for vector in ("QUOTA", "READY"):
        (reason,) = explained(vector, quota=quota).reasons
        assert (reason.code, reason.facts, reason.until_ms) == (
            Why.WAITING_FOR_QUOTA,
            facts,
            facts.opens_at_ms,
        )
        assert says in reason.says


def test_no_limit_is_no_reason() -> None:
    assert codes(
        explained(quota=Quota(QUOTA_ID, 10, 0, 0, None, (NOW,), 9), workers=(worker(),))
    ) == ["waiting_for_worker"]
