"""Changed limits of budgets and quotas: released and blocked executions, and events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.errors import NotFound, ValidationError
from flowfabric.model.budget import (
    BudgetUnchanged,
    BudgetUpdated,
    HardLimitAction,
    UpdateBudgetArgs,
    UsageDimensions,
)
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.quota import (
    BlockForAdmissionArgs,
    QuotaPolicyUnchanged,
    QuotaPolicyUpdated,
    UpdateQuotaPolicyArgs,
)
from flowfabric.testing import ManualClock

from .budget_helpers import OK, budget, hard, report, rows, sound, spend, status, usage
from .helpers import create, dump, new_id, parked, requeued, row, running, state, two_stores
from .limit_helpers import WINDOW_MS, held, quota_lane, several, take

SUSPEND = HardLimitAction.SUSPEND_EXECUTION


async def change(engine: Engine, of: UUID, limit: int, **said: Any) -> Any:
    limits = {"dimensions": ["t"], "hard_limits": [limit], "soft_limits": [0]}
    return await engine.update_budget(UpdateBudgetArgs(budget_id=of, **{**limits, **said}))


async def change_quota(
    engine: Engine, of: UUID, cap: int = 0, rate: int = 0, window_s: int = 60, **said: Any
) -> Any:
    limits = {"window_seconds": window_s, "max_requests_per_window": rate, "max_concurrent": cap}
    return await engine.update_quota_policy(
        UpdateQuotaPolicyArgs(quota_policy_id=of, **limits, **said)
    )


# ---- budgets


async def test_a_raised_budget_lets_go_what_it_held(engine: Engine) -> None:
    """One held at its claim, and two held because of what they reported: one that ran and one that
    was ready.
    """
    ident = await budget(engine, {"t": 10}, on_hard_limit=SUSPEND)
    ready, (ran, handle) = await create(engine, lane_id="b"), await running(engine)
    await report(engine, ident, t=9)
    assert await engine.report_usage(handle, ident, UsageDimensions(custom={"t": 2})) == hard(
        "t", 9, 10, SUSPEND
    )
    assert await spend(engine, ident, ready, t=2) == hard("t", 9, 10, SUSPEND)
    await report(engine, ident, t=1)
    late = await create(engine, lane_id="c", policy={"budget_ids": [str(ident)]})
    assert await take(engine, lane="c") == []
    waiting = (ready, ran, late)
    assert [await state(engine, who) for who in waiting] == ["BUDGET"] * 3
    await change(engine, ident, 10, soft_limits=[5], on_hard_limit=SUSPEND)
    assert [await state(engine, who) for who in waiting] == [
        "BUDGET"
    ] * 3  # other limits, and still no room
    await change(engine, ident, 20, on_hard_limit=SUSPEND)
    assert [await state(engine, who) for who in waiting] == ["READY"] * 3
    await sound(engine)


@pytest.mark.parametrize("how", ["reset", "release", "raise"])
async def test_one_held_while_it_was_ready_waits_until_there_is_room(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    """What was refused asked for more than is left: that there is something left does not let it
    go.
    """
    ident, other = await budget(engine, {"t": 10}, on_hard_limit=SUSPEND), new_id()
    await spend(engine, ident, other, t=9)
    who = await create(engine)
    assert await spend(engine, ident, who, t=2) == hard("t", 9, 10, SUSPEND)
    for _ in range(3):
        clock.advance(5_000)
        assert (await engine.release_limited(), await engine.release_overlooked()) == (0, 0)
        assert await state(engine, who) == "BUDGET"
    if how == "reset":
        await engine.reset_budget(ident)
    elif how == "release":
        await engine.release_budget(ident, other)
    else:
        await change(engine, ident, 11, on_hard_limit=SUSPEND)
    assert await state(engine, who) == "READY"
    await sound(engine)


@pytest.mark.meets("budget_action", "reclaim")
async def test_a_lease_that_ran_out_stays_counted_where_a_budget_held_the_execution_since(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=SUSPEND)
    who, _ = await requeued(engine, clock)
    assert await spend(engine, ident, who, t=11) == hard("t", 0, 10, SUSPEND)
    await engine.reset_budget(ident)
    await take(engine)
    assert (await row(engine, who)).lease_reclaim_count == 1


async def test_a_lowered_budget_counts_from_the_next_report_and_claim(engine: Engine) -> None:
    ident = await budget(engine, {"t": 10})
    who = await create(engine, policy={"budget_ids": [str(ident)]})
    await report(engine, ident, t=6)
    await change(engine, ident, 5)
    assert await report(engine, ident, t=0) == hard("t", 6, 5)
    assert await take(engine) == [] and await state(engine, who) == "BUDGET"
    assert await usage(engine, ident) == {"t": 6}
    await sound(engine)
    await change(engine, ident, 8)
    assert (await report(engine, ident, t=2), await report(engine, ident, t=1)) == (
        OK,
        hard("t", 8, 8),
    )
    assert await state(engine, who) == "READY"
    await sound(engine)


async def test_equal_limits_write_nothing_and_tell_nothing(engine: Engine) -> None:
    ident = await budget(engine, {"t": 10}, {"t": 5}, reset_interval_ms=1_000)
    lane = await quota_lane(engine, cap=3, rate=4)
    before = await dump(engine)
    same = {"soft_limits": [5], "reset_interval_ms": 1_000}
    assert await change(engine, ident, 10, **same, by="ann") == BudgetUnchanged(ident)
    assert await change_quota(engine, lane, 3, 4, by="ann") == QuotaPolicyUnchanged(lane)
    assert await dump(engine) == before


async def test_an_event_tells_the_old_and_the_new_limits_and_who(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await budget(engine, {"t": 10}, namespace="mine")
    lane = await quota_lane(engine, cap=3, namespace="mine")
    feed = await engine.subscribe_operator_events()
    changed = await change(engine, ident, 20, by="ann")
    assert isinstance(changed, BudgetUpdated) and (
        changed.old.hard_limits,
        changed.new.hard_limits,
    ) == ({"t": 10}, {"t": 20})
    updated = await change_quota(engine, lane, 5)
    assert isinstance(updated, QuotaPolicyUpdated)
    events = [await anext(aiter(feed)) for _ in range(2)]
    assert [(event.kind, event.subject_id, event.at) for event in events] == [
        ("budget_updated", ident, clock()),
        ("quota_policy_updated", lane, clock()),
    ]
    first, second = (event.details for event in events)
    assert (first["old"]["hard_limits"], first["new"]["hard_limits"], first["by"]) == (
        {"t": 10},
        {"t": 20},
        "ann",
    )
    assert (second["old"]["active_concurrency_cap"], second["new"]["active_concurrency_cap"]) == (
        3,
        5,
    )
    assert "by" not in second
    assert {row["namespace"] for row in await rows(engine, "ff_operator_event")} == {"mine"}


async def test_another_interval_begins_now(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine, {"t": 10}, reset_interval_ms=1_000)
    clock.advance(400)
    await change(engine, ident, 10, reset_interval_ms=5_000)
    assert (await status(engine, ident)).next_reset_at == str(clock() + 5_000)
    await report(engine, ident, t=4)
    clock.advance(5_000)
    assert await engine.reset_due_budgets() == 1 and await usage(engine, ident) == {"t": 0}
    await change(engine, ident, 10)
    assert (await status(engine, ident)).next_reset_at is None


async def test_executions_not_released_at_a_change_of_limits_continue_later(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=SUSPEND)
    await report(engine, ident, t=9)
    who = await create(engine)
    await spend(engine, ident, who, t=2)
    clock.advance(1)

    async def dies(_: UUID) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.part(BudgetMaintenance), "release_waiters", dies)
        with pytest.raises(KeyboardInterrupt):
            await change(engine, ident, 20, on_hard_limit=SUSPEND)
    assert await state(engine, who) == "BUDGET"
    assert await engine.release_overlooked() == 1
    assert await state(engine, who) == "READY"
    clock.advance(1)
    await spend(engine, ident, who, t=50)
    assert (await engine.release_overlooked(), await state(engine, who)) == (
        0,
        "BUDGET",
    )  # held since


# ---- quotas


async def test_a_raised_quota_is_used_by_the_claim_that_waits(engine: Engine) -> None:
    ident = await quota_lane(engine, cap=1)
    await several(engine, 3)
    await take(engine)
    waiting = asyncio.create_task(
        engine.claim_many("default", (), ClaimPolicy("w", "w-2", 30_000, 60_000), 5)
    )
    await parked(engine, "quotas")
    await change_quota(engine, ident, 2)
    async with asyncio.timeout(4):
        assert len(await waiting) == 1
    await change_quota(engine, ident)
    assert len(await take(engine, 9)) == 1
    await sound(engine)


async def test_a_lowered_quota_counts_from_the_next_claim(engine: Engine) -> None:
    ident = await quota_lane(engine, cap=3)
    await several(engine, 6)
    first = await take(engine, 9)
    await change_quota(engine, ident, 1)
    for handle in first[:2]:
        await engine.complete(handle)
        assert await take(engine, 9) == []
        await sound(engine)
    await engine.complete(first[2])
    assert len(await take(engine, 9)) == 1
    await sound(engine)


async def test_executions_blocked_by_hand_continue_as_far_as_there_is_room(engine: Engine) -> None:
    ident = await quota_lane(engine, cap=1)
    made = await several(engine, 4)
    await take(engine)
    for who in made[1:]:
        await engine.block_execution_for_admission(
            BlockForAdmissionArgs(execution_id=who, reason="waiting_for_quota")
        )
    await change_quota(engine, ident, 3)
    assert sorted([await state(engine, who) for who in made]) == [
        "QUOTA",
        "READY",
        "READY",
        "RUNNING",
    ]


async def test_a_longer_window_counts_what_was_admitted_before(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await quota_lane(engine, rate=2, window_s=10)
    await several(engine, 9)
    assert len(await take(engine, 9)) == 2
    clock.advance(10_000)
    assert len(await take(engine, 9)) == 2
    await change_quota(engine, ident, rate=5, window_s=60)
    assert len(await take(engine, 9)) == 1
    clock.advance(WINDOW_MS - 10_000)
    assert len(await take(engine, 9)) == 2
    await sound(engine)


async def test_what_another_process_changed_is_counted_by_and_never_exceeded(
    engine: Engine,
) -> None:
    """The places one process remembers were read as far as the former limit went."""
    other = Engine(engine.store, seed=2)
    ident = await quota_lane(engine, cap=2)
    await several(engine, 12)
    assert len(await take(engine, 9)) == 2
    for cap in (5, 3, 8):
        await change_quota(other, ident, cap)
        await take(other, 2, number=2)
        await take(engine, 9)
        assert await held(engine) == max(cap, 5)
        await sound(engine)


async def test_limits_changed_in_the_middle_of_a_claim_are_not_exceeded(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, honest = Engine(engine.store, seed=2), engine.store.load
    ident = await quota_lane(engine, cap=4)
    await several(engine, 12)
    await take(engine, 3)
    changes = [change_quota(other, ident, cap) for cap in (2, 6, 5)]

    async def overtaken(reads: Any) -> Any:
        loaded = await honest(reads)
        if changes and any(getattr(read, "table", "") == "ff_quota_policy" for read in reads):
            with monkeypatch.context() as patch:
                patch.setattr(engine.store, "load", honest)
                await changes.pop(0)
                await take(other, 9, number=2)
        return loaded

    monkeypatch.setattr(engine.store, "load", overtaken)
    await take(engine, 9)
    assert changes == [] and await held(engine) <= 6
    await sound(engine)


# ---- what is refused


@two_stores
async def test_what_is_not_there_and_what_makes_no_sense(engine: Engine) -> None:
    ident, lane = await budget(engine, {"t": 1}), await quota_lane(engine, cap=1)
    before = await dump(engine)
    calls: list[tuple[Callable[[], Awaitable[Any]], type[Exception], str]] = [
        (lambda: change(engine, uuid4(), 5), NotFound, "budget"),
        (lambda: change_quota(engine, uuid4(), 5), NotFound, "quota_policy"),
        (
            lambda: change(engine, ident, 5, soft_limits=[]),
            ValidationError,
            "update_budget: dimensions",
        ),
        (lambda: change(engine, ident, -1), ValidationError, "hard_limits"),
        (
            lambda: change(engine, ident, 5, on_hard_limit="cancel_execution"),
            ValidationError,
            "reserved",
        ),
        (lambda: change(engine, ident, 5, by=7), ValidationError, "by"),
        (lambda: change_quota(engine, lane, -1), ValidationError, "max_concurrent"),
        (lambda: change_quota(engine, lane, 5, by=b"x"), ValidationError, "by"),
        (lambda: engine.update_budget({}), ValidationError, "args"),  # type: ignore[arg-type]
        (lambda: engine.update_quota_policy(None), ValidationError, "args"),  # type: ignore[arg-type]
    ]
    for call, kind, said in calls:
        with pytest.raises(kind, match=said):
            await call()
    assert await dump(engine) == before
    text = structs.replace(UpdateBudgetArgs(budget_id=ident), budget_id=str(ident))
    assert isinstance(await engine.update_budget(text), BudgetUpdated)
    assert (
        json.loads((await rows(engine, "ff_operator_event"))[0]["details"])["new"]["hard_limits"]
        == {}
    )
