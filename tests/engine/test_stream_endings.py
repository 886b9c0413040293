"""How a stream ended is how its attempt ended this time."""

from __future__ import annotations

from uuid import uuid4

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    Frame,
    FrameKind,
    FreshWaitpoint,
    ReasonCode,
    Single,
    SuspendArgs,
)
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.testing import ManualClock

POLICY = ClaimPolicy("w", "w-1", 60_000)


async def test_a_replayed_attempt_forgets_that_its_suspension_timed_out(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.seed_waitpoint_hmac_secret("k1", "2a" * 32)
    ident = ExecutionId.solo("default")
    await engine.create_execution(CreateExecutionArgs(execution_id=ident))
    (work,) = await engine.claim_many("default", (), POLICY, 1)
    await engine.append_frame(work.handle, Frame(b"a", FrameKind.Stdout))
    args = SuspendArgs(
        suspension_id=uuid4(),
        waitpoints=[FreshWaitpoint(uuid4(), "key")],
        resume_condition=Single("key"),
        reason_code=ReasonCode.WAITING_FOR_APPROVAL,
        timeout_at=clock() + 1_000,
    )
    await engine.suspend(work.handle, args)
    clock.advance(1_000)
    assert await engine.expire_suspension(ident) == "failed"
    assert (await engine.read_stream(ident, 0)).closed_reason == "suspension_timeout"
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    assert not (await engine.read_stream(ident, 0)).closed
    (again,) = await engine.claim_many("default", (), POLICY, 1)
    assert again.attempt_index == 0
    await engine.complete(again.handle)
    assert (await engine.read_stream(ident, 0)).closed_reason == "attempt_success"
