"""Holding work back with a named reason, and letting it go."""

from __future__ import annotations

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, NotFound, ValidationKind
from flowfabric.model.execution import Blocked, LuaRejected
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    claim,
    completed,
    create,
    invalid,
    new_id,
    refused,
    row,
    running,
    state,
    worker,
)

BLOCKS = [
    ("waiting_for_budget", "BUDGET", "rate_limited"),
    ("waiting_for_quota", "QUOTA", "rate_limited"),
    ("waiting_for_capable_worker", "ROUTE", "waiting"),
    ("paused_by_operator", "OPBLOCK", "waiting"),
    ("paused_by_policy", "LANEBLOCK", "waiting"),
]


@pytest.mark.parametrize(("reason", "name", "shown"), BLOCKS)
async def test_a_blocked_execution_waits_with_its_reason_until_unblocked(
    engine: Engine, clock: ManualClock, reason: str, name: str, shown: str
) -> None:
    ident = await create(engine)
    clock.advance(5)
    assert await engine.block_route(ident, reason, "why") == Blocked(ident, reason)
    found = await row(engine, ident)
    assert (await state(engine, ident), found.public_state, found.blocking_detail) == (
        name,
        shown,
        "why",
    )
    assert (found.last_transition_at, found.attempt_state) == (clock(), "pending_first_attempt")
    assert await engine.claim(LANE, (), worker()) is None
    assert await engine.block_route(ident, reason, "still") == Blocked(ident, reason)
    assert (await row(engine, ident)).blocking_detail == "still"
    other = "waiting_for_quota" if reason == "waiting_for_budget" else "waiting_for_budget"
    assert await engine.block_route(ident, other) == LuaRejected("execution_not_eligible")
    await refused(engine.unblock_execution(ident, other), ContentionKind.EXECUTION_NOT_ELIGIBLE)
    await engine.unblock_execution(ident, reason)
    assert (await row(engine, ident)).blocking_detail == ""
    await claim(engine)


async def test_a_block_that_comes_too_late_is_an_answer_not_an_error(
    engine: Engine, clock: ManualClock
) -> None:
    ended, _ = await completed(engine, lane_id="a")
    assert await engine.block_route(ended, "paused_by_operator") == LuaRejected(
        "execution_not_active"
    )
    held, _ = await running(engine, lane_id="b")
    assert await engine.block_route(held, "paused_by_operator") == LuaRejected(
        "execution_not_eligible"
    )
    later = await create(engine, delay_until=clock() + 10)
    assert await engine.block_route(later, "paused_by_operator") == LuaRejected(
        "execution_not_eligible"
    )
    with pytest.raises(NotFound):
        await engine.block_route(new_id(), "paused_by_operator")


@pytest.mark.parametrize(
    "reason", ["", "none", "waiting_for_children", "paused_by_flow_cancel", "x"]
)
async def test_an_unknown_blocking_reason_is_refused(engine: Engine, reason: str) -> None:
    ident = await create(engine)
    error = await invalid(engine.block_route(ident, reason))
    assert error.kind is ValidationKind.INVALID_BLOCKING_REASON
    if reason:
        assert (
            await invalid(engine.unblock_execution(ident, reason))
        ).kind is ValidationKind.INVALID_BLOCKING_REASON


async def test_what_is_not_blocked_cannot_be_unblocked(engine: Engine, clock: ManualClock) -> None:
    for ident in (new_id(), await create(engine), await create(engine, delay_until=clock() + 5)):
        await refused(engine.unblock_execution(ident), ContentionKind.EXECUTION_NOT_ELIGIBLE)
