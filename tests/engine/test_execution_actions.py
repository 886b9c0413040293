"""Moves, releases, deletes and restarts of one execution."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, StateKind
from flowfabric.model.attempt import FailureClass
from flowfabric.model.bulk import Deleted, Restarted
from flowfabric.model.execution import Changed
from flowfabric.testing import ManualClock

from .bulk_helpers import operations, sound
from .flow_helpers import finish, submit
from .helpers import (
    LANE,
    claim,
    completed,
    create,
    dump,
    grant_args,
    invalid,
    new_id,
    outbox,
    refused,
    row,
    running,
    state,
    stored,
    told,
    worker,
)
from .stream_helpers import frame
from .suspend_helpers import KID, SECRET, park_held, signal

BY = ("ada", "because")
RETRYING: dict[str, Any] = {
    "retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 60_000}}
}
ASKED = {"by": "ada", "reason": "because"}


async def test_a_moved_execution_is_claimed_in_its_new_lane(engine: Engine) -> None:
    ident = await create(engine)
    assert await engine.move_execution(ident, "other", *BY) == Changed(ident)
    assert await engine.claim_many(LANE, (), worker(), 1) == []
    assert (await claim(engine, lane="other")) is not None
    event = ("moved", {"from_lane": LANE, "to_lane": "other", **ASKED})
    assert await operations(engine, ident) == [event]
    assert "other" in (await engine.list_lanes()).items
    await sound(engine)


async def test_a_move_to_its_own_lane_changes_nothing(engine: Engine) -> None:
    ident = await create(engine)
    before = await row(engine, ident)
    await engine.move_execution(ident, LANE)
    assert await row(engine, ident) == before


async def test_a_delayed_execution_is_moved_and_keeps_its_time(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, delay_until=clock() + 1_000)
    await engine.move_execution(ident, "other")
    found = await row(engine, ident)
    assert (found.lane_id, found.delay_until_ms) == ("other", clock() + 1_000)
    clock.advance(1_000)
    assert await engine.promote_delayed(ident) == "promoted"
    assert (await claim(engine, lane="other")) is not None


@pytest.mark.meets("suspend", "delay")
async def test_a_suspended_execution_resumes_in_its_new_lane(engine: Engine) -> None:
    await engine.seed_waitpoint_hmac_secret(KID, SECRET)
    ident, handle = await running(engine)
    parked = await park_held(engine, ident, handle)
    await engine.move_execution(ident, "other")
    await signal(engine, parked)
    assert await state(engine, ident) == "READY"
    assert (await row(engine, ident)).lane_id == "other"
    await sound(engine)


async def test_an_execution_that_a_worker_holds_is_not_moved(engine: Engine) -> None:
    ident, _ = await running(engine)
    await refused(engine.move_execution(ident, "other"), StateKind.NOT_MOVABLE)
    await refused(engine.release_execution(ident), StateKind.NOT_HELD)
    await refused(engine.delete_execution(ident), StateKind.NOT_ENDED)
    assert (await told(engine, ident))["OPER"] == []


async def test_an_execution_that_is_granted_to_a_worker_is_not_moved(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident))
    await refused(engine.move_execution(ident, "other"), StateKind.GRANT_ALREADY_EXISTS)
    clock.advance(60_000)
    await engine.move_execution(ident, "other")
    assert (await dump(engine))["ff_claim_grant"] == []
    await sound(engine)


async def test_a_release_ends_the_pause_before_a_retry(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine, policy=RETRYING)
    await engine.fail(handle, "boom")
    assert await state(engine, ident) == "DELAYED"
    assert await engine.release_execution(ident, *BY) == Changed(ident)
    assert await state(engine, ident) == "READY"
    assert (await row(engine, ident)).delay_until_ms is None
    ((kind, details),) = await operations(engine, ident)
    assert (kind, details["held"]) == ("released", "waiting_for_retry_backoff")
    await sound(engine)


@pytest.mark.parametrize("reason", ["waiting_for_quota", "waiting_for_budget"])
async def test_a_release_does_not_lift_a_limit(engine: Engine, reason: str) -> None:
    ident = await create(engine)
    await engine.block_route(ident, reason)
    before = await row(engine, ident)
    await refused(engine.release_execution(ident), StateKind.NOT_HELD)
    assert await row(engine, ident) == before


async def test_a_deleted_execution_leaves_no_row_but_its_event(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.record_step(handle, 0, "build", b"1")
    await engine.append_frame(handle, frame())
    await engine.complete(handle, b"done")
    assert await engine.delete_execution(ident, *BY) == Deleted(ident)
    assert await stored(engine, ident) is None
    left = {table: rows for table, rows in (await dump(engine)).items() if rows}
    assert set(left) == {"ff_operator_event", "ff_lane_registry", "ff_outbox_trim"}
    (event,) = await outbox(engine, "ff_operator_event")
    assert event["event_type"] == "deleted"
    with pytest.raises(NotFound, match="execution"):
        await engine.delete_execution(ident)
    await sound(engine)


@pytest.mark.meets("retention", "flow")
async def test_a_member_of_an_unfinished_flow_is_not_deleted(engine: Engine) -> None:
    graph = await submit(engine, "a b")
    await finish(engine, graph, "a")
    await refused(engine.delete_execution(graph["a"]), StateKind.STILL_NEEDED)
    await finish(engine, graph, "b")
    await engine.parts.core.cascade.finish()
    await engine.delete_execution(graph["a"])
    assert len((await dump(engine))["ff_flow_core"]) == 1
    await engine.delete_execution(graph["b"])
    assert (await dump(engine))["ff_flow_core"] == []


# ---- restarts


async def _with_steps(engine: Engine, *names: str) -> Any:
    ident, handle = await running(engine)
    for position, name in enumerate(names):
        await engine.record_step(handle, position, name, name.encode())
    await engine.fail(handle, "boom", FailureClass.PERMANENT)
    return ident


@pytest.mark.parametrize("step", ["test", 1])
@pytest.mark.meets("step", "replay")
async def test_a_restart_drops_the_steps_from_one_on(engine: Engine, step: str | int) -> None:
    ident = await _with_steps(engine, "build", "test", "ship")
    assert await engine.restart_from_step(ident, step, *BY) == Restarted(ident, 1, 2)
    assert [each.name for each in await engine.read_steps(ident)] == ["build"]
    assert await state(engine, ident) == "READY"
    ((kind, details),) = await operations(engine, ident)
    assert kind == "replayed"
    facts = {"from_step": "test", "from_position": 1, "dropped_steps": 2}
    assert details == {"branch": "restart", **facts, **ASKED}
    last = (await engine.history(ident)).items[-1]
    assert (last.what, last.details["dropped_steps"]) == ("replayed", 2)
    handle = await claim(engine)
    await engine.record_step(handle, 1, "test", b"again")
    await engine.complete(handle, b"")
    assert [each.value for each in await engine.read_steps(ident)] == [b"build", b"again"]
    await sound(engine)


async def test_the_name_of_several_steps_is_ambiguous(engine: Engine) -> None:
    ident = await _with_steps(engine, "a", "b", "a")
    before = await dump(engine)
    await invalid(engine.restart_from_step(ident, "a"), "one of the positions of 'a': 0, 2")
    with pytest.raises(NotFound, match="step 'c' not found"):
        await engine.restart_from_step(ident, "c")
    with pytest.raises(NotFound, match="step 7 not found"):
        await engine.restart_from_step(ident, 7)
    await invalid(engine.restart_from_step(ident, True), "step")
    await invalid(engine.restart_from_step(ident, "\0"), "step")
    assert await dump(engine) == before


async def test_only_an_ended_execution_is_restarted(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.record_step(handle, 0, "build")
    await refused(engine.restart_from_step(ident, "build"), StateKind.EXECUTION_NOT_TERMINAL)
    assert len(await engine.read_steps(ident)) == 1


async def test_unknown_executions(engine: Engine) -> None:
    ident = new_id()
    calls = (
        engine.move_execution(ident, "other"),
        engine.release_execution(ident),
        engine.delete_execution(ident),
        engine.restart_from_step(ident, 0),
    )
    for call in calls:
        with pytest.raises(NotFound, match="execution"):
            await call


@pytest.mark.parametrize("lane", ["", "\n", "x" * 65])
async def test_a_lane_must_have_a_name(engine: Engine, lane: str) -> None:
    ident = await create(engine)
    await invalid(engine.move_execution(ident, lane), "lane")


async def test_an_ended_execution_is_neither_moved_nor_released(engine: Engine) -> None:
    ident, _ = await completed(engine)
    await refused(engine.release_execution(ident), StateKind.NOT_HELD)
    await refused(engine.move_execution(ident, "other"), StateKind.NOT_MOVABLE)
    assert await state(engine, ident) == "ENDED(success)"
