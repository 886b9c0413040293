"""Accounts of executions, releases, resets, and the report of contradicting counters."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID, uuid4

import pytest

from flowfabric import Engine
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.limits import budget_maintenance, budget_reads
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.errors import NotFound, TransportError
from flowfabric.loops.limits import BudgetReconciler, BudgetResets
from flowfabric.model.budget import BudgetReset, Reconciliation
from flowfabric.plan import Applied, Arg, Form, Update
from flowfabric.rules.limits.budget_forms import POLICY, THIS_BUDGET, THIS_DIMENSION, USAGE
from flowfabric.testing import ManualClock

from .budget_helpers import (
    AGAIN,
    DAY_MS,
    KEYS,
    LEDGER,
    OK,
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
from .helpers import LANE, completed, create, dump, new_id, state, two_stores

HOUR = 3_600_000


async def test_the_worked_example(engine: Engine) -> None:
    one, other, who = (
        await budget(engine, {"t": 100}, {"t": 50}),
        await budget(engine, {"t": 100}, {"t": 50}),
        new_id(5),
    )
    assert await spend(engine, one, who, t=40) == OK
    assert await spend(engine, one, who, t=80) == hard("t", 40, 100)
    assert await account(engine, who, one) == {"t": 40}
    assert await spend(engine, other, who, t=60) == soft("t", 60, 50)
    assert await engine.read_budget_ledger(who) == {one: {"t": 40}, other: {"t": 60}}


async def test_spend_spend_release_release(engine: Engine) -> None:
    ident, who, other = await budget(engine, {"a": 10}), new_id(1), new_id(2)
    await spend(engine, ident, who, "k", a=3, b=1)
    await spend(engine, ident, who, "l", a=2)
    await spend(engine, ident, other, "m", a=4)
    await report(engine, ident, a=1)
    assert await spend(engine, ident, other, a=1) == hard("a", 10, 10)
    await engine.release_budget(ident, who)
    assert await usage(engine, ident) == {"a": 5, "b": 0}
    assert (await account(engine, who, ident), await account(engine, other, ident)) == (
        {},
        {"a": 4},
    )
    before = await dump(engine)
    await engine.release_budget(ident, who)
    assert await dump(engine) == before
    assert await spend(engine, ident, who, "k", a=3) == AGAIN
    assert (await status(engine, ident)).breach_count == 1
    assert await engine.read_budget_ledger(who) == {}
    await sound(engine)


async def test_releasing_usage_that_was_never_created_or_spent(engine: Engine) -> None:
    await engine.release_budget(uuid4(), new_id())
    ident, who = await budget(engine), new_id()
    await spend(engine, ident, who, a=3)
    await engine.release_budget(ident, new_id())
    assert await usage(engine, ident) == {"a": 3}
    await engine.release_budget(ident, who)
    assert await usage(engine, ident) == {"a": 0}


async def test_a_release_after_a_reset_leaves_what_came_after(engine: Engine) -> None:
    ident, who = await budget(engine, {"a": 10}), new_id()
    await spend(engine, ident, who, a=7)
    await engine.reset_budget(ident)
    await engine.release_budget(ident, who)
    assert (await usage(engine, ident), await rows(engine, LEDGER)) == ({"a": 0}, [])
    await spend(engine, ident, who, a=5)
    await engine.reset_budget(ident)
    await report(engine, ident, a=4)
    await engine.release_budget(ident, who)
    assert await usage(engine, ident) == {"a": 4}


async def test_a_reset_of_one_budget_leaves_the_others(engine: Engine) -> None:
    one, other, who = await budget(engine), await budget(engine), new_id()
    await spend(engine, one, who, a=1)
    await spend(engine, other, who, a=2)
    await engine.reset_budget(one)
    assert await engine.read_budget_ledger(who) == {other: {"a": 2}}
    assert (await usage(engine, one), await usage(engine, other)) == ({"a": 0}, {"a": 2})


async def test_releases_among_spending(engine: Engine) -> None:
    """Whatever the order, what is used is what is on the account."""
    ident, who = await budget(engine, {"a": 10_000}), new_id()

    async def spending(of: int) -> None:
        for at in range(10):
            assert await spend(engine, ident, who, f"{of}-{at}", a=1) == OK

    async def releasing() -> None:
        for _ in range(5):
            await engine.release_budget(ident, who)

    await asyncio.gather(*(spending(n) for n in range(6)), releasing(), releasing())
    left = await usage(engine, ident)
    assert left == {"a": sum((await account(engine, who, ident)).values())}
    await engine.release_budget(ident, who)
    assert await usage(engine, ident) == {"a": 0}


# ---- reset


async def test_a_reset_by_hand(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine, {"a": 3}, {"a": 1}, reset_interval_ms=HOUR)
    await report(engine, ident, "k", a=3, b=1)
    await report(engine, ident, a=1)
    clock.advance(HOUR // 2)
    assert await engine.reset_budget(ident) == BudgetReset(clock() + HOUR)
    shown = await status(engine, ident)
    assert (shown.usage, shown.breach_count, shown.soft_breach_count) == ({"a": 0, "b": 0}, 1, 1)
    assert (shown.last_breach_at, shown.last_breach_dim, shown.next_reset_at) == (
        None,
        None,
        str(clock() + HOUR),
    )
    assert await report(engine, ident, "k", a=3) == AGAIN
    assert await engine.reset_budget(ident, 5) == BudgetReset(5 + HOUR)
    plain = await budget(engine)
    assert await engine.reset_budget(plain) == BudgetReset(0)
    with pytest.raises(NotFound, match="budget not found"):
        await engine.reset_budget(uuid4())


async def test_a_scheduled_reset_stays_on_its_hour(engine: Engine, clock: ManualClock) -> None:
    start = clock()
    ident = await budget(engine, {"a": 3}, reset_interval_ms=HOUR)
    await report(engine, ident, a=3)
    clock.advance(HOUR - 1)
    assert await engine.reset_due_budgets() == 0
    clock.advance(2)
    assert (await engine.reset_due_budgets(), await engine.reset_due_budgets()) == (1, 0)
    assert (await status(engine, ident)).next_reset_at == str(start + 2 * HOUR)
    assert await usage(engine, ident) == {"a": 0}
    clock.advance(5 * HOUR)
    assert (await engine.reset_due_budgets(), await engine.reset_due_budgets()) == (1, 0)
    assert (await status(engine, ident)).next_reset_at == str(start + 7 * HOUR)
    clock.now_ms = start + 7 * HOUR
    assert await engine.reset_due_budgets() == 1
    assert (await status(engine, ident)).next_reset_at == str(start + 8 * HOUR)


async def test_a_reset_by_hand_wins_over_the_schedule(engine: Engine, clock: ManualClock) -> None:
    ident = await budget(engine, {"a": 3}, reset_interval_ms=HOUR)
    clock.advance(HOUR + 5)
    done = await asyncio.gather(
        engine.reset_budget(ident), engine.reset_due_budgets(), engine.reset_due_budgets()
    )
    assert sum(done[1:]) <= 1
    assert int((await status(engine, ident)).next_reset_at or 0) in (
        clock() + HOUR,
        clock() - 5 + HOUR,
    )
    assert await engine.reset_due_budgets() == 0


async def test_the_loop_resets_all_that_are_due_in_turn(engine: Engine, clock: ManualClock) -> None:
    idents = [await budget(engine, {"a": 1}, reset_interval_ms=HOUR + n) for n in range(25)]
    loop = BudgetResets(LoopSettings())
    assert await loop.next_due(engine) == clock() + HOUR
    clock.advance(HOUR + 22)
    assert await engine.reset_due_budgets(0) == 0
    assert (await engine.reset_due_budgets(2), await loop.run(engine)) == (2, 21)
    assert int((await status(engine, idents[24])).next_reset_at or 0) == clock() + 2


async def test_a_budget_that_cannot_be_read_does_not_keep_others_from_their_reset(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    broken = await budget(engine, {"a": 1}, reset_interval_ms=HOUR)
    sound_one = await budget(engine, {"a": 1}, reset_interval_ms=HOUR + 1)
    await report(engine, sound_one, a=1)
    spoil = Form("spoil_policy", Update(POLICY, THIS_BUDGET, {"policy_json": Arg("text")}))
    assert isinstance(await engine.store.commit(spoil(budget_id=broken, text="[]")), Applied)
    clock.advance(HOUR + 1)
    assert await engine.reset_due_budgets() == 1
    assert await usage(engine, sound_one) == {"a": 0}
    assert [record.__dict__.get("budget") for record in caplog.records] == [str(broken)]


# ---- what goes with whom


async def test_an_account_goes_with_its_execution_and_the_counter_stays(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await budget(engine)
    who, _ = await completed(engine)
    await spend(engine, ident, who, a=3)
    await spend(engine, ident, new_id(), a=4)
    clock.advance(31 * DAY_MS)
    assert await engine.trim_retention(LANE) == 1
    assert await engine.read_budget_ledger(who) == {}
    assert await usage(engine, ident) == {"a": 7}
    assert [row["delta_total"] for row in await rows(engine, LEDGER)] == [4]
    await sound(engine)


async def test_a_healthy_database_is_left_as_it_is(engine: Engine, clock: ManualClock) -> None:
    ident, who = await budget(engine, {"a": 9}, reset_interval_ms=HOUR), new_id()
    await spend(engine, ident, who, "k", a=3, b=0)
    await report(engine, ident, a=99)
    before = await dump(engine)
    assert await engine.reconcile_budget_counters() == Reconciliation(0)
    assert await BudgetReconciler(LoopSettings()).run(engine) == 0
    assert await dump(engine) == before
    clock.advance(DAY_MS)
    assert await BudgetReconciler(LoopSettings()).run(engine) == 1
    assert await rows(engine, KEYS) == []


async def test_executions_that_an_interrupted_reset_did_not_release_continue(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident = await budget(engine, {"a": 5}, on_hard_limit="suspend_execution")
    before, after = await create(engine), await create(engine)
    await report(engine, ident, a=4)
    await spend(engine, ident, before, a=2)

    async def dies(_: UUID) -> int:
        raise TransportError("test", "the process is gone")

    clock.advance(1)
    with monkeypatch.context() as dying:
        dying.setattr(engine.parts.part(BudgetMaintenance), "release_waiters", dies)
        with pytest.raises(TransportError):
            await engine.reset_budget(ident)
    clock.advance(1)
    await report(engine, ident, a=4)
    await spend(engine, ident, after, a=2)
    assert [await state(engine, who) for who in (before, after)] == ["BUDGET", "BUDGET"]
    loop = BudgetReconciler(LoopSettings())
    assert (await loop.run(engine), await loop.run(engine)) == (1, 0)
    assert [await state(engine, who) for who in (before, after)] == ["READY", "BUDGET"]
    await sound(engine)


PLANT = Form(
    "plant_usage", Update(USAGE, (*THIS_BUDGET, THIS_DIMENSION), {"current_value": Arg("value")})
)


async def plant(engine: Engine, of: UUID, dimension: str, value: int) -> None:
    assert isinstance(
        await engine.store.commit(PLANT(budget_id=of, dimension=dimension, value=value)), Applied
    )


async def test_contradicting_counters_are_reported_and_kept(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    short, below, fine = await budget(engine), await budget(engine), await budget(engine)
    for ident in (short, below, fine):
        await spend(engine, ident, new_id(), a=5)
        await spend(engine, ident, new_id(), a=5)
    await plant(engine, short, "a", 9)
    await report(engine, below, b=1)
    await plant(engine, below, "b", -1)
    before = await dump(engine)
    assert await engine.reconcile_budget_counters() == Reconciliation(2)
    assert await BudgetReconciler(LoopSettings()).run(engine) == 2
    assert await dump(engine) == before
    errors = [record.__dict__ for record in caplog.records if record.levelno == logging.ERROR]
    fields = ("message", "budget", "dimension", "used", "charged")
    text = "usage of a budget contradicts the ledgers"
    assert {tuple(error[field] for field in fields) for error in errors} == {
        (text, str(short), "a", 9, 10),
        (text, str(below), "b", -1, 0),
    }
    assert (await status(engine, below)).usage == {"a": 10, "b": 0}


@two_stores
async def test_more_dimensions_and_accounts_than_fit_a_page(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_reads, "MAX_ROWS", 4)
    monkeypatch.setattr(budget_maintenance, "MAX_PAGE", 2)
    ident, who, others = (
        await budget(engine, {"d11": 1}),
        new_id(),
        [await budget(engine) for _ in range(4)],
    )
    names = [f"d{n:02}" for n in range(12)]
    for name in names:
        assert await spend(engine, ident, who, **{name: 1}) == OK
    for other in others:
        await spend(engine, other, who, d00=1)
    assert await spend(engine, ident, who, d11=1) == hard("d11", 1, 1)
    assert (await status(engine, ident)).usage == dict.fromkeys(names, 1)
    assert await account(engine, who, ident) == dict.fromkeys(names, 1)
    assert await engine.reconcile_budget_counters() == Reconciliation(0)
    await plant(engine, ident, "d11", 0)
    await plant(engine, others[3], "d00", 0)
    assert await engine.reconcile_budget_counters() == Reconciliation(2)
    await engine.release_budget(ident, who)
    assert await usage(engine, ident) == dict.fromkeys(names, 0)
    await report(engine, ident, **dict.fromkeys(names, 1))
    await engine.reset_budget(ident)
    assert await usage(engine, ident) == dict.fromkeys(names, 0)
    assert await engine.read_budget_ledger(who) == {other: {"d00": 1} for other in others}
