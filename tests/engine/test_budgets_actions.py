"""What a refused report does to the execution that it names, in one transaction with the note of
the refusal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from flowfabric import Engine
from flowfabric.errors import ContentionKind, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.budget import HardBreach, UpdateBudgetArgs, UsageDimensions
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.lease import Handle, HandleKind
from flowfabric.plan import Answer, Plan
from flowfabric.testing import ManualClock

from .budget_helpers import OK, budget, hard, report, rows, sound, spend, status, usage
from .flow_helpers import hold, submit
from .helpers import (
    HOLDER_CALLS,
    HolderCall,
    attempt,
    claim,
    completed,
    create,
    dump,
    fields,
    grant_args,
    lost,
    new_id,
    outbox,
    refused,
    row,
    running,
    state,
    told,
    worker,
)
from .suspend_helpers import claim_resumed, park, seed

FAIL, SUSPEND, CANCEL = "fail_execution", "suspend_execution", "cancel_flow_pending"
actions = pytest.mark.parametrize("action", [FAIL, SUSPEND, CANCEL])


async def spent_out(engine: Engine, action: str, **said: Any) -> UUID:
    """A budget of 10 of which 9 are used."""
    ident = await budget(engine, {"t": 10}, on_hard_limit=action, **said)
    assert await report(engine, ident, t=9) == OK
    return ident


async def overspend(
    engine: Engine, of: UUID, who: ExecutionId, handle: Handle | None = None
) -> Any:
    if handle is None:
        return await spend(engine, of, who, t=2)
    return await engine.report_usage(handle, of, UsageDimensions(custom={"t": 2}))


async def noted(engine: Engine, of: UUID, times: int = 1) -> None:
    """The refusal is counted, and nothing else of it."""
    shown = await status(engine, of)
    assert (shown.usage, shown.breach_count, shown.last_breach_dim) == (
        {"t": 9},
        times,
        "t" if times else None,
    )
    assert (
        await rows(engine, "ff_budget_usage_by_exec"),
        await rows(engine, "ff_budget_usage_dedup"),
    ) == ([], [])
    await sound(engine)


@pytest.mark.parametrize("action", ["reject", "fail", "warn", ""])
async def test_any_other_word_only_refuses(engine: Engine, action: str) -> None:
    ident = await spent_out(engine, action)
    who, handle = await running(engine)
    assert await overspend(engine, ident, who, handle) == hard("t", 9, 10)
    assert await state(engine, who) == "RUNNING"
    await noted(engine, ident)


@actions
async def test_a_report_without_an_execution_has_no_consequences(
    engine: Engine, action: str
) -> None:
    ident = await spent_out(engine, action)
    await running(engine)
    assert await report(engine, ident, t=2) == hard("t", 9, 10)
    assert await outbox(engine, "ff_operator_event") == []
    await noted(engine, ident)


@actions
@pytest.mark.parametrize("by_handle", [True, False])
async def test_with_room_nothing_happens(engine: Engine, action: str, by_handle: bool) -> None:
    ident = await spent_out(engine, action)
    who, handle = await running(engine)
    used = (
        engine.report_usage(handle, ident, UsageDimensions(custom={"t": 1}))
        if by_handle
        else spend(engine, ident, who, t=1)
    )
    assert await used == OK
    assert await state(engine, who) == "RUNNING"


# ---- fail_execution


async def test_failing_a_running_execution(engine: Engine, clock: ManualClock) -> None:
    ident = await spent_out(engine, FAIL)
    who, handle = await running(engine)
    assert await overspend(engine, ident, who, handle) == hard("t", 9, 10, FAIL)
    assert await state(engine, who) == "ENDED(failed)"
    assert (await row(engine, who)).failure_reason == f"budget_exceeded:{ident}:t"
    assert await told(engine, who) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["failed"],
        "OPER": ["budget_breached"],
    }
    (event,) = await outbox(engine, "ff_operator_event", who)
    assert event["occurred_at_ms"] == clock()
    said = {
        "budget_id": str(ident),
        "dimension": "t",
        "current_usage": 9,
        "hard_limit": 10,
        "action": FAIL,
    }
    assert json.loads(event["details"]) == said
    await noted(engine, ident)
    await refused(engine.renew(handle), ContentionKind.EXECUTION_NOT_ACTIVE)
    await refused(engine.complete(handle), ContentionKind.EXECUTION_NOT_ACTIVE)
    assert await overspend(engine, ident, who, handle) == hard("t", 9, 10)
    await noted(engine, ident, 2)


@pytest.mark.parametrize("kind", ["ready", "delayed", "suspended", "lost", "held"])
async def test_failing_whatever_it_is_doing(engine: Engine, clock: ManualClock, kind: str) -> None:
    who = await one_that_is(engine, clock, kind)
    ident = await spent_out(engine, FAIL)
    assert await overspend(engine, ident, who) == hard("t", 9, 10, FAIL)
    assert await state(engine, who) == "ENDED(failed)"
    assert (await told(engine, who))["OPER"] == ["budget_breached"]
    await noted(engine, ident)


async def one_that_is(engine: Engine, clock: ManualClock, kind: str) -> ExecutionId:
    if kind == "ready":
        return await create(engine)
    if kind == "delayed":
        return await create(engine, delay_until=clock() + 1_000)
    if kind == "suspended":
        await seed(engine)
        return (await park(engine)).ident
    if kind == "lost":
        return (await lost(engine, clock))[0]
    who = await create(engine)
    await engine.block_route(who, "waiting_for_quota")
    return who


@actions
@pytest.mark.parametrize("kind", ["ended", "unknown"])
async def test_what_is_over_or_unknown_is_left_and_the_refusal_noted(
    engine: Engine, action: str, kind: str
) -> None:
    who = new_id() if kind == "unknown" else (await completed(engine))[0]
    ident = await spent_out(engine, action)
    assert await overspend(engine, ident, who) == hard("t", 9, 10)
    assert await outbox(engine, "ff_operator_event") == []
    await noted(engine, ident)


@pytest.mark.meets("budget_action", "flow")
async def test_dependents_of_a_failed_execution_are_skipped(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    ident = await spent_out(engine, FAIL)
    handle = await hold(engine, graph, "a")
    assert await overspend(engine, ident, graph["a"], handle) == hard("t", 9, 10, FAIL)
    assert (await state(engine, graph["a"]), await state(engine, graph["b"])) == (
        "ENDED(failed)",
        "ENDED(skipped)",
    )
    await sound(engine)


# ---- suspend_execution


async def test_a_suspended_execution_continues_after_the_reset(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await spent_out(engine, SUSPEND, reset_interval_ms=1_000)
    who, handle = await running(engine)
    assert await overspend(engine, ident, who, handle) == hard("t", 9, 10, SUSPEND)
    assert (await state(engine, who), (await row(engine, who)).blocked_on) == (
        "BUDGET",
        f"refused:{ident}",
    )
    assert await told(engine, who) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": [],
        "OPER": ["budget_breached"],
    }
    assert (await attempt(engine, who)).attempt_state == "suspended"
    assert await engine.claim("default", (), worker(2)) is None
    await noted(engine, ident)
    clock.advance(1_000)
    assert await engine.reset_due_budgets() == 1
    assert (await state(engine, who), (await row(engine, who)).blocked_on) == ("READY", None)
    again = await claim(engine, worker(2))
    held, before = fields(again), fields(handle)
    assert (again.kind, held.execution_id, held.attempt_index) == (
        HandleKind.RESUMED,
        who,
        before.attempt_index,
    )
    assert held.lease_epoch > before.lease_epoch
    assert held.attempt_id == before.attempt_id
    await refused(engine.complete(handle), ContentionKind.LEASE_CONFLICT)
    await engine.complete(again)
    await sound(engine)


@pytest.mark.parametrize("call", HOLDER_CALLS.values(), ids=HOLDER_CALLS.keys())
async def test_the_old_holder_is_refused_and_changes_nothing(
    engine: Engine, call: HolderCall
) -> None:
    ident = await spent_out(engine, SUSPEND)
    who, handle = await running(engine)
    await overspend(engine, ident, who, handle)
    before = await dump(engine)
    await refused(call(engine, handle), ContentionKind.LEASE_CONFLICT)
    assert await dump(engine) == before


async def test_one_that_waits_can_be_claimed_by_name_after_a_release(engine: Engine) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=SUSPEND)
    who, other = (await running(engine))[0], new_id()
    await spend(engine, ident, other, t=10)
    assert await spend(engine, ident, who, t=1) == hard("t", 10, 10, SUSPEND)
    await engine.release_budget(ident, who)
    assert await engine.release_waiters(ident) == 0
    assert await state(engine, who) == "BUDGET"
    await engine.release_budget(ident, other)
    assert await state(engine, who) == "READY"
    await engine.issue_claim_grant(grant_args(who, 2))
    assert (await claim_resumed(engine, who)).lease_epoch == 3


async def test_suspending_what_is_ready_or_reserved(engine: Engine) -> None:
    ident = await spent_out(engine, SUSPEND)
    plain, reserved = await create(engine), await create(engine)
    await engine.issue_claim_grant(grant_args(reserved))
    for who in (plain, reserved):
        assert await overspend(engine, ident, who) == hard("t", 9, 10, SUSPEND)
        assert await state(engine, who) == "BUDGET"
        assert (await told(engine, who))["OPER"] == ["budget_breached"]
    assert await rows(engine, "ff_claim_grant") == []
    await noted(engine, ident, 2)
    await engine.reset_budget(ident)
    assert {fields(await claim(engine, worker(2))).execution_id for _ in range(2)} == {
        plain,
        reserved,
    }


@pytest.mark.parametrize("kind", ["delayed", "suspended", "lost", "held"])
async def test_executions_with_another_reason_remain_blocked(
    engine: Engine, clock: ManualClock, kind: str
) -> None:
    who = await one_that_is(engine, clock, kind)
    ident, before = await spent_out(engine, SUSPEND), await row(engine, who)
    assert await overspend(engine, ident, who) == hard("t", 9, 10)
    assert await row(engine, who) == before
    await noted(engine, ident)


async def test_a_second_refusal_of_one_that_waits_is_only_noted(engine: Engine) -> None:
    ident = await spent_out(engine, SUSPEND)
    who, handle = await running(engine)
    await overspend(engine, ident, who, handle)
    assert await overspend(engine, ident, who, handle) == hard("t", 9, 10)
    assert (await told(engine, who))["OPER"] == ["budget_breached"]
    await noted(engine, ident, 2)


async def test_many_waiters_are_released_together(engine: Engine) -> None:
    ident, other = await spent_out(engine, SUSPEND), await spent_out(engine, SUSPEND)
    waiting = [await create(engine) for _ in range(7)]
    for who in waiting:
        await overspend(engine, ident, who)
    stays = await create(engine)
    await overspend(engine, other, stays)
    await engine.reset_budget(ident)
    assert {await state(engine, who) for who in waiting} == {"READY"}
    assert await state(engine, stays) == "BUDGET"


async def test_one_blocked_for_another_reason_since_is_no_waiter(engine: Engine) -> None:
    ident = await spent_out(engine, SUSPEND)
    who = await create(engine)
    await overspend(engine, ident, who)
    await engine.unblock_execution(who)
    await engine.block_route(who, "waiting_for_quota")
    await engine.reset_budget(ident)
    assert await state(engine, who) == "QUOTA"
    await engine.unblock_execution(who)
    await report(engine, ident, t=9)
    await overspend(engine, ident, who)
    await engine.block_route(who, "waiting_for_budget", "and still")
    await engine.reset_budget(ident)
    assert await state(engine, who) == "READY"


@pytest.mark.meets("budget_action", "replay")
async def test_one_that_was_replayed_since_waits_for_nothing(engine: Engine) -> None:
    ident = await spent_out(engine, SUSPEND)
    who = await create(engine)
    await overspend(engine, ident, who)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=who))
    await engine.replay_execution(ReplayExecutionArgs(execution_id=who))
    assert (await state(engine, who), (await row(engine, who)).blocked_on) == ("READY", None)
    await engine.block_route(who, "waiting_for_quota")
    await engine.reset_budget(ident)
    assert await state(engine, who) == "QUOTA"


# ---- cancel_flow_pending


@pytest.mark.meets("budget_action", "flow", "cancel")
async def test_the_pending_members_of_its_flow_are_cancelled(engine: Engine) -> None:
    graph = await submit(engine, "a>d b c")
    handle, other = await hold(engine, graph, "a"), await hold(engine, graph, "b")
    ident = await spent_out(engine, CANCEL)
    assert await overspend(engine, ident, graph["a"], handle) == hard("t", 9, 10, CANCEL)
    shown = {name: await state(engine, graph[name]) for name in "abcd"}
    assert shown == {
        "a": "RUNNING",
        "b": "RUNNING",
        "c": "ENDED(cancelled)",
        "d": "ENDED(cancelled)",
    }
    assert (await row(engine, graph["c"])).cancellation_reason == f"budget_exceeded:{ident}"
    (event,) = await outbox(engine, "ff_operator_event")
    assert (event["event_type"], event["execution_id"]) == ("flow_cancel_requested", graph.flow)
    assert json.loads(event["details"])["reason"] == f"budget_exceeded:{ident}"
    await noted(engine, ident)
    assert await overspend(engine, ident, graph["b"], other) == hard("t", 9, 10)
    assert len(await outbox(engine, "ff_operator_event")) == 1
    await noted(engine, ident, 2)
    await engine.complete(handle)
    await engine.complete(other)
    await sound(engine)


async def test_one_in_no_flow_is_left_alone(engine: Engine) -> None:
    ident = await spent_out(engine, CANCEL)
    who, handle = await running(engine)
    assert await overspend(engine, ident, who, handle) == hard("t", 9, 10)
    assert await state(engine, who) == "RUNNING"
    await noted(engine, ident)


# ---- one transaction


class Broken(Exception):
    """No error of ours."""


@actions
@pytest.mark.parametrize(
    "error", [TransportError("test", "gone"), Broken("gone")], ids=["ours", "other"]
)
async def test_neither_refusal_nor_consequence_without_the_commit(
    engine: Engine, action: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, (who, handle) = await spent_out(engine, action), await member(engine)
    before = await dump(engine)

    async def fails(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as broken:
        for name in ("commit", "commit_together", "commit_many"):
            broken.setattr(engine.store, name, fails)
        with pytest.raises(type(error)):
            await overspend(engine, ident, who, handle)
        with pytest.raises(type(error)):
            await report(engine, ident, "k", t=1)
    assert await dump(engine) == before
    assert (await overspend(engine, ident, who, handle)).action == action
    await noted(engine, ident)


async def member(engine: Engine) -> tuple[ExecutionId, Handle]:
    graph = await submit(engine, "a b")
    return graph["a"], await hold(engine, graph, "a")


@actions
async def test_refusal_and_consequence_are_one_commit(
    engine: Engine, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, (who, handle) = await spent_out(engine, action), await member(engine)
    seen: list[list[str]] = []
    honest = engine.store.commit_together

    async def watched(plans: Sequence[Plan]) -> Answer:
        seen.append([plan.form.name for plan in plans])
        return await honest(plans)

    monkeypatch.setattr(engine.store, "commit_together", watched)
    await overspend(engine, ident, who, handle)
    (together,) = [
        names for names in seen if {"note_hard_breaches", "note_hard_breach_as_read"} & set(names)
    ]
    assert {
        FAIL: "overspend_held_leased",
        SUSPEND: "hold_reporter_for_budget",
        CANCEL: "cancel_flow_and_owe",
    }[action] in together


@pytest.mark.parametrize("how", ["reset", "release", "raise"])
@pytest.mark.parametrize("action", [FAIL, SUSPEND])
async def test_room_made_just_before_the_consequence_is_used(
    engine: Engine, action: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would wait for a release that has happened already."""
    ident, other = await budget(engine, {"t": 10}, on_hard_limit=action), new_id()
    await spend(engine, ident, other, t=9)
    who, handle = await running(engine)
    honest, second, met = engine.store.commit_together, Engine(engine.store, seed=2), []

    async def overtaken(plans: Sequence[Plan]) -> Answer:
        if not met and any(
            plan.form.name in ("overspend_held_leased", "hold_reporter_for_budget")
            for plan in plans
        ):
            met.append(how)
            if how == "raise":
                new = UpdateBudgetArgs(
                    budget_id=ident,
                    dimensions=["t"],
                    hard_limits=[20],
                    soft_limits=[0],
                    on_hard_limit=action,
                )
                await second.update_budget(new)
            else:
                await (
                    second.reset_budget(ident)
                    if how == "reset"
                    else second.release_budget(ident, other)
                )
        return await honest(plans)

    monkeypatch.setattr(engine.store, "commit_together", overtaken)
    assert await overspend(engine, ident, who, handle) == OK
    assert (met, await state(engine, who), await usage(engine, ident)) == (
        [how],
        "RUNNING",
        {"t": 11 if how == "raise" else 2},
    )
    assert (await status(engine, ident)).breach_count == 0


async def test_reports_of_many_executions_are_answered_in_order_around_a_consequence(
    engine: Engine,
) -> None:
    ident = await budget(engine, {"t": 5}, on_hard_limit=SUSPEND)
    who, handle = await running(engine)
    some = [report(engine, ident, t=1) for _ in range(4)]
    done = await asyncio.gather(
        *some,
        overspend(engine, ident, who, handle),
        report(engine, ident, t=1),
        report(engine, ident, t=1),
    )
    assert done[:4] == [OK] * 4
    assert [type(d) for d in done[4:]] == [HardBreach, type(OK), HardBreach]
    assert (done[4].action, await usage(engine, ident)) == (SUSPEND, {"t": 5})
    assert await state(engine, who) == "BUDGET"
