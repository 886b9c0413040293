"""Lanes: registered at first use, paused, resumed, drained, disabled."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs, Duplicate
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    ClaimResumedArgs,
    NoWork,
    ReclaimExecutionArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.model.state import LaneState
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    claim,
    create,
    dump,
    grant_args,
    lost,
    new_id,
    refused,
    row,
    running,
    state,
    stored,
    worker,
)


async def test_a_lane_is_registered_by_its_first_create(engine: Engine, clock: ManualClock) -> None:
    assert await engine.read_lane("fresh") is None
    await create(engine, lane_id="fresh")
    registered = clock()
    clock.advance(5)
    await create(engine, lane_id="fresh")
    lane = await engine.read_lane("fresh")
    assert lane is not None
    assert (lane.registered_at_ms, lane.registered_by, lane.state) == (
        registered,
        "create_execution",
        "active",
    )


async def test_setting_a_state_registers_an_unknown_lane(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.pause_lane("new")
    lane = await engine.read_lane("new")
    assert lane is not None and (lane.state, lane.registered_by) == ("paused", "operator")
    clock.advance(3)
    await engine.set_lane_state("new", LaneState.DISABLED)
    lane = await engine.read_lane("new")
    assert lane is not None and (lane.state, lane.updated_at_ms) == ("disabled", clock())


@pytest.mark.parametrize(
    ("lane_state", "accepts", "grants"),
    [
        ("active", True, True),
        ("paused", True, False),
        ("draining", False, True),
        ("disabled", False, False),
    ],
)
async def test_what_each_state_accepts_and_grants(
    engine: Engine, lane_state: str, accepts: bool, grants: bool
) -> None:
    waiting = await create(engine, priority=1)
    await engine.set_lane_state(LANE, lane_state)
    args = CreateExecutionArgs(execution_id=new_id())
    before = await dump(engine)
    if accepts:
        await engine.create_execution(args)
        assert await state(engine, args.execution_id) == "READY"
    else:
        await refused(engine.create_execution(args), StateKind.LANE_CLOSED)
        await refused(engine.create_executions([args]), StateKind.LANE_CLOSED)
        await refused(
            engine.create_execution(
                CreateExecutionArgs(execution_id=new_id(), idempotency_key="k")
            ),
            StateKind.LANE_CLOSED,
        )
        assert await dump(engine) == before
    handle = await engine.claim(LANE, (), worker())
    assert (handle is not None) is grants
    assert await state(engine, waiting) == ("RUNNING" if grants else "READY")


async def test_a_resumed_lane_grants_what_waited(engine: Engine) -> None:
    ident = await create(engine)
    await engine.pause_lane(LANE)
    assert await engine.claim(LANE, (), worker()) is None
    await engine.resume_lane(LANE)
    await claim(engine)
    assert await state(engine, ident) == "RUNNING"


async def test_a_closed_lane_still_recognises_a_duplicate(engine: Engine) -> None:
    ident = await create(engine, idempotency_key="k")
    await engine.drain_lane(LANE)
    assert await engine.create_execution(CreateExecutionArgs(execution_id=ident)) == Duplicate(
        ident
    )
    keyed = CreateExecutionArgs(execution_id=new_id(), idempotency_key="k")
    assert await engine.create_execution(keyed) == Duplicate(ident)


async def test_pausing_does_not_touch_running_work_or_other_lanes(engine: Engine) -> None:
    ident, handle = await running(engine)
    await create(engine, lane_id="other")
    await engine.pause_lane(LANE)
    await engine.renew(handle)
    await engine.complete(handle)
    assert await state(engine, ident) == "ENDED(success)"
    assert await engine.claim("other", (), worker()) is not None


async def test_a_create_in_bulk_fails_on_a_closed_lane_and_names_it(engine: Engine) -> None:
    await engine.drain_lane("closed")
    many = [CreateExecutionArgs(execution_id=new_id(), lane_id="closed")]
    error = await refused(engine.create_executions(many), StateKind.LANE_CLOSED)
    assert "'closed' is draining" in str(error)


# ---- a paused lane grants nothing, by any kind of claim


async def by_grant(engine: Engine, ident: ExecutionId, clock: ManualClock) -> Any:
    args = ClaimExecutionArgs(
        execution_id=ident, worker_id="w1", worker_instance_id="i", lease_ttl_ms=9
    )
    return await refused(engine.claim_execution(args), ContentionKind.EXECUTION_NOT_LEASEABLE)


async def by_resume(engine: Engine, ident: ExecutionId, clock: ManualClock) -> Any:
    args = ClaimResumedArgs(
        execution_id=ident, worker_id="w1", worker_instance_id="i", lease_ttl_ms=9
    )
    return await refused(
        engine.claim_resumed_execution(args), ContentionKind.EXECUTION_NOT_LEASEABLE
    )


async def by_worker(engine: Engine, ident: ExecutionId, clock: ManualClock) -> Any:
    assert await engine.claim_for_worker(LANE, "w1", "i", (), 9) == NoWork()


async def by_token(engine: Engine, ident: ExecutionId, clock: ManualClock) -> Any:
    token = ResumeToken(ResumeGrant(ident, "{fp:0}", "k", clock() + 9, LANE), "w2", "i", 9)
    return await engine.claim_from_resume_grant(token)


async def by_reclaim(engine: Engine, ident: ExecutionId, clock: ManualClock) -> Any:
    args = ReclaimExecutionArgs(
        execution_id=ident, worker_id="w1", worker_instance_id="i", lease_ttl_ms=9
    )
    return await engine.reclaim_execution(args)


@pytest.mark.parametrize("lane_state", ["paused", "disabled"])
@pytest.mark.parametrize("way", [by_grant, by_resume, by_worker, by_token, by_reclaim])
async def test_a_held_lane_grants_no_lease_by_any_kind_of_claim(
    engine: Engine, clock: ManualClock, way: Any, lane_state: str
) -> None:
    if way is by_grant:
        ident = await create(engine)
        await engine.issue_claim_grant(grant_args(ident))
    elif way is by_resume:
        ident, _ = await running(engine)
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    elif way is by_worker:
        ident = await create(engine)
    else:
        ident, _ = await lost(engine, clock)
        if way is by_reclaim:
            await engine.issue_reclaim_grant(grant_args(ident))
    await engine.set_lane_state(LANE, lane_state)
    epoch = (await row(engine, ident)).lease_epoch
    await way(engine, ident, clock)
    assert (await row(engine, ident)).lease_epoch == epoch


# ---- lists


async def test_lanes_are_listed_in_order_and_paged(engine: Engine) -> None:
    for lane in ("b", "c", "a", "B"):
        await create(engine, lane_id=lane)
    assert (await engine.list_lanes()).items == ["B", "a", "b", "c"]
    first = await engine.list_lanes(limit=3)
    assert (first.items, first.next_cursor) == (["B", "a", "b"], "b")
    rest = await engine.list_lanes(first.next_cursor, 3)
    assert (rest.items, rest.next_cursor) == (["c"], None)
    assert (await engine.list_lanes(limit=4)).next_cursor is None
    assert (await engine.list_lanes(limit=0)).items == []
    assert (await engine.list_lanes("zzz")).items == []


def several(*lanes: str, **said: Any) -> list[CreateExecutionArgs]:
    return [CreateExecutionArgs(execution_id=new_id(), lane_id=lane, **said) for lane in lanes]


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
async def test_a_bulk_that_meets_a_closed_lane_writes_nothing(engine: Engine, keyed: bool) -> None:
    await create(engine, lane_id="shut")
    await create(engine, lane_id="open")
    other = Engine(engine.store)
    await other.drain_lane("shut")
    many = several("open", "open", "shut", "open", "unknown")
    if keyed:
        many = [structs.replace(args, idempotency_key=f"k{at}") for at, args in enumerate(many)]
    before = await dump(engine)
    error = await refused(engine.create_executions(many), StateKind.LANE_CLOSED)
    assert "'shut'" in str(error)
    assert await dump(engine) == before


async def test_what_a_bulk_created_before_its_lane_was_closed_is_a_duplicate(
    engine: Engine,
) -> None:
    many = several("open", "shut", "open")
    await engine.create_executions(many)
    await engine.drain_lane("shut")
    again = await engine.create_executions([*many, *several("open")])
    assert [type(each).__name__ for each in again] == ["Duplicate"] * 3 + ["Created"]


async def test_a_lane_that_closes_during_a_bulk_refuses_its_own(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other lanes may exist by then; created again, they are duplicates."""
    many = several("open", "shut")
    await create(engine, lane_id="shut")
    other, real = Engine(engine.store), engine.store.commit_many

    async def late(plans: Any) -> Any:
        monkeypatch.setattr(engine.store, "commit_many", real)
        await other.drain_lane("shut")
        return await real(plans)

    monkeypatch.setattr(engine.store, "commit_many", late)
    await refused(engine.create_executions(many), StateKind.LANE_CLOSED)
    assert await stored(engine, many[1].execution_id) is None
    assert await state(engine, many[0].execution_id) == "READY"
