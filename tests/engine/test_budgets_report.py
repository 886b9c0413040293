"""Creating budgets and reporting against them, on every store."""

from __future__ import annotations

from uuid import uuid4

import pytest

from flowfabric import Engine
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.model.budget import (
    MAX_AMOUNT,
    BudgetAlreadySatisfied,
    BudgetCreated,
    BudgetStatus,
    CreateBudgetArgs,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    UsageAndLimits,
    UsageDimensions,
)
from flowfabric.testing import ManualClock

from .budget_helpers import (
    AGAIN,
    DAY_MS,
    KEYS,
    OK,
    USAGE,
    account,
    budget,
    hard,
    report,
    rows,
    soft,
    sound,
    spend,
    status,
    usage,
)
from .helpers import TTL_MS, create, dump, forged, new_id, running


async def test_created_and_again(engine: Engine, clock: ManualClock) -> None:
    ident = uuid4()
    one = {"dimensions": ["a", "b"], "hard_limits": [10, 0], "soft_limits": [0, 5]}
    args = CreateBudgetArgs(
        budget_id=ident, scope_type="tenant", scope_id="é", reset_interval_ms=1_000, **one
    )
    assert await engine.create_budget(args) == BudgetCreated(ident)
    before = await dump(engine)
    other = CreateBudgetArgs(
        budget_id=ident, scope_id="x", dimensions=["a"], hard_limits=[1], soft_limits=[1]
    )
    assert await engine.create_budget(other) == BudgetAlreadySatisfied(ident)
    assert await dump(engine) == before
    assert await status(engine, ident) == BudgetStatus(
        str(ident),
        "tenant",
        "é",
        "strict",
        {},
        {"a": 10, "b": 0},
        {"a": 0, "b": 5},
        0,
        0,
        None,
        None,
        str(clock() + 1_000),
        str(clock()),
    )
    assert (await rows(engine, USAGE), await rows(engine, "ff_operator_event")) == ([], [])


async def test_a_budget_without_an_interval_never_resets_by_itself(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await budget(engine, {"a": 1}, now=7)
    shown = await status(engine, ident)
    assert (shown.next_reset_at, shown.created_at) == (None, "7")
    clock.advance(10 * DAY_MS)
    assert await engine.reset_due_budgets() == 0


async def test_limits_as_large_as_they_get(engine: Engine) -> None:
    ident = await budget(engine, {"a": MAX_AMOUNT}, {"a": MAX_AMOUNT - 1})
    assert await report(engine, ident, a=MAX_AMOUNT - 1) == OK
    assert await report(engine, ident, a=1) == soft("a", MAX_AMOUNT, MAX_AMOUNT - 1)
    assert await report(engine, ident, a=1) == hard("a", MAX_AMOUNT, MAX_AMOUNT)
    assert (await status(engine, ident)).usage == {"a": MAX_AMOUNT}


async def test_on_the_limit_above_it_and_in_between(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine, {"a": 10}, {"a": 5})
    assert await report(engine, ident, a=5) == OK
    assert await report(engine, ident, a=1) == soft("a", 6, 5)
    assert await report(engine, ident, a=5) == hard("a", 6, 10)
    assert await usage(engine, ident) == {"a": 6}
    assert await report(engine, ident, a=4) == soft("a", 10, 5)
    assert await report(engine, ident, a=1) == hard("a", 10, 10)
    assert await report(engine, ident, a=0) == soft("a", 10, 5)
    shown = await status(engine, ident)
    assert (shown.usage, shown.breach_count, shown.soft_breach_count) == ({"a": 10}, 2, 3)
    assert (shown.last_breach_at, shown.last_breach_dim) == (str(clock()), "a")
    await sound(engine)


async def test_of_two_dimensions_one_breaching_neither_is_applied(engine: Engine) -> None:
    ident = await budget(engine, {"a": 10, "b": 10})
    assert await report(engine, ident, a=3, b=9) == OK
    assert await report(engine, ident, a=3, b=2) == hard("b", 9, 10)
    assert await report(engine, ident, b=2, a=8) == hard("a", 3, 10)
    assert await report(engine, ident, new=3, b=2) == hard("b", 9, 10)
    assert await usage(engine, ident) == {"a": 3, "b": 9}


async def test_a_limit_of_zero_is_none(engine: Engine) -> None:
    ident = await budget(engine, {"a": 0}, {"a": 0})
    assert await report(engine, ident, a=10**15) == OK
    assert await usage(engine, ident) == {"a": 10**15}


async def test_zero_creates_the_row_only(engine: Engine) -> None:
    ident = await budget(engine, {"a": 1})
    assert await report(engine, ident, a=0) == OK
    assert await report(engine, ident, a=0) == OK
    assert await usage(engine, ident) == {"a": 0}
    assert await report(engine, ident) == OK


async def test_a_budget_that_was_never_made_is_not_found_and_counts_nothing(engine: Engine) -> None:
    """A mistyped id would otherwise accept every report and limit nothing."""
    ident = uuid4()
    who, handle = await running(engine)
    before = await dump(engine)
    for call in (
        lambda: report(engine, ident, "k", a=10**15),
        lambda: engine.report_usage(handle, ident, UsageDimensions(custom={"a": 1})),
        lambda: spend(engine, ident, who, a=1),
        lambda: status(engine, ident),
    ):
        with pytest.raises(NotFound, match=f"budget {ident} not found") as caught:
            await call()
        assert caught.value.code == "budget_not_found"
    assert await dump(engine) == before
    assert await engine.read_budget_usage_and_limits(ident) == UsageAndLimits({}, {})
    assert await budget(engine, {"a": 5}, budget_id=ident) == ident
    assert await report(engine, ident, "k", a=5) == OK


async def test_more_than_can_be_stored_is_refused_by_name(engine: Engine) -> None:
    ident = await budget(engine)
    await report(engine, ident, a=MAX_AMOUNT)
    before = await dump(engine)
    with pytest.raises(ValidationError, match="a: ") as caught:
        await report(engine, ident, "k", a=1)
    assert caught.value.kind is ValidationKind.INVALID_INPUT
    assert await dump(engine) == before
    two = ReportUsageAdminArgs(dimensions=["b", "b"], deltas=[MAX_AMOUNT, 1])
    with pytest.raises(ValidationError, match="deltas: b"):
        await engine.report_usage_admin(ident, two)


async def test_two_amounts_for_one_dimension_are_added_before_they_are_checked(
    engine: Engine,
) -> None:
    ident = await budget(engine, {"a": 10})
    args = ReportUsageAdminArgs(dimensions=["a", "b", "a"], deltas=[6, 1, 5])
    assert await engine.report_usage_admin(ident, args) == hard("a", 0, 10)
    args = ReportUsageAdminArgs(dimensions=["a", "b", "a"], deltas=[6, 1, 4], now=5)
    assert await engine.report_usage_admin(ident, args) == OK
    assert await usage(engine, ident) == {"a": 10, "b": 1}


async def test_the_clock_of_the_store_counts(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine, {"a": 1})
    await engine.report_usage_admin(
        ident, ReportUsageAdminArgs(dimensions=["a"], deltas=[1], dedup_key="k", now=5)
    )
    await engine.report_usage_admin(
        ident, ReportUsageAdminArgs(dimensions=["a"], deltas=[1], now=5)
    )
    assert [row["applied_at_ms"] for row in await rows(engine, KEYS)] == [clock()]
    assert (await status(engine, ident)).last_breach_at == str(clock())


# ---- the worker's form


async def test_a_worker_reports_tokens_and_time_by_their_names(engine: Engine) -> None:
    ident = await budget(engine, {"input_tokens": 10})
    _, handle = await running(engine)
    said = UsageDimensions(
        custom={"cents": 3}, input_tokens=7, output_tokens=0, wall_ms=0, dedup_key="k"
    )
    assert await engine.report_usage(handle, ident, said) == OK
    assert await engine.report_usage(handle, ident, said) == AGAIN
    assert await engine.report_usage(handle, ident, UsageDimensions(input_tokens=4)) == hard(
        "input_tokens", 7, 10
    )
    assert await usage(engine, ident) == {"cents": 3, "input_tokens": 7, "wall_ms": 0}


async def test_usage_is_recorded_after_the_lease_ended(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine)
    who, handle = await running(engine)
    clock.advance(2 * TTL_MS)
    assert await engine.report_usage(handle, ident, UsageDimensions(custom={"a": 1})) == OK
    await engine.mark_lease_expired_if_due(who)
    assert (
        await engine.report_usage(
            forged(handle, lease_epoch=99), ident, UsageDimensions(custom={"a": 1})
        )
        == OK
    )
    assert await usage(engine, ident) == {"a": 2}
    assert await account(engine, who, ident) == {}


# ---- keys


async def test_a_key_on_two_budgets_counts_on_both(engine: Engine) -> None:
    one, other = await budget(engine, {"a": 9}), await budget(engine, {"a": 9})
    assert [await report(engine, to, "k", a=1) for to in (one, other, one, other)] == [
        OK,
        OK,
        AGAIN,
        AGAIN,
    ]
    assert (await usage(engine, one), await usage(engine, other)) == ({"a": 1}, {"a": 1})


async def test_a_key_after_a_refusal_is_looked_at_afresh(engine: Engine) -> None:
    ident = await budget(engine, {"a": 10})
    await report(engine, ident, a=8)
    assert await report(engine, ident, "k", a=3) == hard("a", 8, 10)
    assert await rows(engine, KEYS) == []
    assert await report(engine, ident, "k", a=3) == hard("a", 8, 10)
    await engine.reset_budget(ident)
    assert await report(engine, ident, "k", a=3) == OK
    assert await report(engine, ident, "k", a=3) == AGAIN
    assert (await status(engine, ident)).breach_count == 2


async def test_a_key_lives_for_a_day(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine)
    assert await report(engine, ident, "k", a=1) == OK
    clock.advance(DAY_MS - 1)
    assert await report(engine, ident, "k", a=1) == AGAIN
    clock.advance(1)
    assert await report(engine, ident, "k", a=1) == OK
    assert await report(engine, ident, "k", a=1) == AGAIN
    assert await usage(engine, ident) == {"a": 2}
    assert [row["expires_at_ms"] for row in await rows(engine, KEYS)] == [clock() + DAY_MS]


async def test_keys_past_their_time_are_forgotten_and_no_others(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await budget(engine)
    await report(engine, ident, "old", a=1)
    clock.advance(1)
    await report(engine, ident, "young", a=1)
    assert await engine.forget_usage_keys() == 0
    clock.advance(DAY_MS - 1)
    assert await engine.forget_usage_keys() == 1
    assert [row["dedup_key"] for row in await rows(engine, KEYS)] == ["young"]
    assert await report(engine, ident, "old", a=1) == OK


async def test_an_empty_key_is_none(engine: Engine) -> None:
    ident, who = await budget(engine), new_id()
    assert [await report(engine, ident, "", a=1), await report(engine, ident, "", a=1)] == [OK, OK]
    assert [await spend(engine, ident, who, "", a=1), await spend(engine, ident, who, "", a=1)] == [
        OK,
        OK,
    ]
    assert (await usage(engine, ident), await rows(engine, KEYS)) == ({"a": 4}, [])


async def test_reports_and_spending_share_the_keys_of_a_budget(engine: Engine) -> None:
    ident, who = await budget(engine), new_id()
    assert await report(engine, ident, "k", a=1) == OK
    assert await spend(engine, ident, who, "k", a=1) == AGAIN
    assert await account(engine, who, ident) == {}


# ---- reads


async def test_usage_and_limits(engine: Engine) -> None:
    ident = await budget(engine, {"a": 10, "b": 0}, {"c": 4})
    await report(engine, ident, a=3, d=9)
    shown = await engine.read_budget_usage_and_limits(ident)
    limits = {
        "hard:a": "10",
        "hard:b": "0",
        "hard:c": "0",
        "soft:a": "0",
        "soft:b": "0",
        "soft:c": "4",
    }
    assert shown.limits == limits
    assert shown.hard() == [("a", 3, 10)]
    assert (await status(engine, ident)).usage == {"a": 3, "d": 9}


async def test_an_id_may_be_given_as_text(engine: Engine) -> None:
    ident = await budget(engine, {"a": 1})
    assert (await engine.get_budget_status(str(ident))).budget_id == str(ident)  # type: ignore[arg-type]
    text: str = str(ident).upper()
    args = CreateBudgetArgs(budget_id=text)  # type: ignore[arg-type]
    assert await engine.create_budget(args) == BudgetAlreadySatisfied(ident)
    assert await engine.create_budget(CreateBudgetArgs(budget_id=str(uuid4()))) is not None  # type: ignore[arg-type]
    spent = RecordSpendArgs(budget_id=text, execution_id=await create(engine), deltas={"a": 2})  # type: ignore[arg-type]
    assert await engine.record_spend(spent) == hard("a", 0, 1)
