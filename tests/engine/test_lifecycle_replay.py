"""Replays of ended executions."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, StateKind
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import (
    CancelExecutionArgs,
    Replayed,
    ReplayExecutionArgs,
)
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.model.state import ExpirePhase, PublicState
from flowfabric.testing import ManualClock

from .helpers import (
    attempt,
    attempts,
    claim,
    completed,
    create,
    dump,
    fields,
    lost,
    new_id,
    outbox,
    refused,
    row,
    running,
    state,
)


def cancelling(ident: Any, **said: Any) -> CancelExecutionArgs:
    return CancelExecutionArgs(execution_id=ident, **said)


async def end(engine: Engine, clock: ManualClock, outcome: str, **said: Any) -> Any:
    ident, handle = await running(engine, **said)
    match outcome:
        case "success":
            await engine.complete(handle, b"r")
        case "failed":
            await engine.fail(handle, "boom", FailureClass.PERMANENT)
        case "cancelled":
            await engine.cancel_execution(cancelling(ident, reason="stop"))
        case "expired":
            await engine.expire_execution(
                ident, ExpirePhase.EXECUTION_DEADLINE, now=clock() + 10**9
            )
    return ident


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled", "expired"])
async def test_every_ended_execution_is_replayable(
    engine: Engine, clock: ManualClock, outcome: str
) -> None:
    ident = await end(engine, clock, outcome, execution_deadline_at=clock() + 1_000)
    before = await row(engine, ident)
    assert before.terminal_outcome == outcome
    clock.advance(2_000)
    result = await engine.replay_execution(ReplayExecutionArgs(execution_id=ident, now=clock() + 1))
    assert result == Replayed(PublicState.WAITING)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "READY"
    assert (found.attempt_state, found.replay_count, found.terminal_outcome) == (
        "pending_replay_attempt",
        1,
        "none",
    )
    cleared = (
        found.terminal_at_ms,
        found.result,
        found.result_encoding,
        found.cancellation_reason,
        found.cancelled_by,
    )
    assert cleared == (None,) * 5
    assert (found.failure_reason, found.closing_epoch, found.closing_attempt_index) == (
        None,
        None,
        None,
    )
    assert (found.lease_epoch, found.attempt_index, found.total_attempt_count) == (
        before.lease_epoch + 1,
        0,
        1,
    )
    assert (found.pending_previous_attempt_index, found.last_mutation_at) == (0, clock() + 1)
    assert (tried.attempt_state, tried.outcome, tried.terminal_at_ms) == ("created", None, None)
    assert (tried.worker_id, tried.worker_instance_id, tried.lease_epoch) == (
        None,
        None,
        found.lease_epoch,
    )
    (event,) = await outbox(engine, "ff_operator_event", ident)
    assert (event["event_type"], event["details"]) == ("replayed", '{"branch":"normal"}')
    await engine.complete(await claim(engine), b"second")
    assert await engine.get_execution_result(ident) == b"second"


@pytest.mark.parametrize("delayed", [False, True])
async def test_one_that_was_never_claimed_is_replayed_into_a_first_attempt(
    engine: Engine, clock: ManualClock, delayed: bool
) -> None:
    ident = await create(engine, delay_until=clock() + 50 if delayed else None)
    await engine.cancel_execution(cancelling(ident))
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    handle = await claim(engine)
    (tried,) = await attempts(engine, ident)
    assert (fields(handle).attempt_index, tried.attempt_type) == (0, "replay")
    assert (await row(engine, ident)).total_attempt_count == 1
    await engine.complete(handle)


async def test_replay_of_one_cancelled_between_attempts_reopens_the_last_attempt(
    engine: Engine,
) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom")
    await engine.cancel_execution(cancelling(ident))
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    again = await claim(engine)
    assert fields(again).attempt_index == 0
    assert (await row(engine, ident)).retry_count == 1, "retries are not given back"
    await engine.complete(again)


@pytest.mark.parametrize(
    ("policy", "most"),
    [(None, 10), (ExecutionPolicy(max_replay_count=1), 1), (ExecutionPolicy(), 10)],
)
async def test_the_number_of_replays_is_capped(
    engine: Engine, policy: ExecutionPolicy | None, most: int
) -> None:
    ident, _ = await completed(engine, policy=policy)
    for _ in range(most):
        await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
        await engine.complete(await claim(engine))
    before = await dump(engine)
    await refused(
        engine.replay_execution(ReplayExecutionArgs(execution_id=ident)),
        StateKind.MAX_REPLAYS_EXHAUSTED,
    )
    assert await dump(engine) == before


async def test_replay_rearms_a_deadline_of_the_policy(engine: Engine, clock: ManualClock) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(execution_deadline_ms=1_000))
    ident, _ = await completed(engine, policy=policy)
    clock.advance(5_000)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    found = await row(engine, ident)
    assert (found.deadline_at_ms, found.deadline_origin) == (clock() + 1_000, "policy")


@pytest.mark.parametrize(("later_ms", "kept"), [(999, True), (1_000, False), (5_000, False)])
async def test_replay_drops_a_deadline_given_as_a_time_once_it_has_passed(
    engine: Engine, clock: ManualClock, later_ms: int, kept: bool
) -> None:
    at = clock() + 1_000
    ident, _ = await completed(engine, execution_deadline_at=at)
    clock.advance(later_ms)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    assert (await row(engine, ident)).deadline_at_ms == (at if kept else None)


async def test_replay_needs_an_ended_execution(engine: Engine, clock: ManualClock) -> None:
    with pytest.raises(NotFound):
        await engine.replay_execution(ReplayExecutionArgs(execution_id=new_id()))
    for ident in (
        (await running(engine, lane_id="a"))[0],
        (await lost(engine, clock, lane_id="b"))[0],
    ):
        await refused(
            engine.replay_execution(ReplayExecutionArgs(execution_id=ident)),
            StateKind.EXECUTION_NOT_TERMINAL,
        )
