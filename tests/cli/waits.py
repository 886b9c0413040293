"""Suspended executions for the tests of the commands."""

from __future__ import annotations

from uuid import UUID, uuid4

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    FreshWaitpoint,
    ReasonCode,
    SuspendArgs,
    Suspended,
)
from flowfabric.model.waitpoint import Condition, Single

SECRET = "2a" * 32
POLICY = ClaimPolicy("w", "w-1", 60_000)


class Wait:
    """One suspended execution and its only waitpoint."""

    def __init__(self, execution: ExecutionId, waitpoint: UUID, token: str) -> None:
        self.execution, self.waitpoint, self.token = execution, waitpoint, token


async def suspended(
    engine: Engine,
    condition: Condition | None = None,
    *,
    kind: str = "deploy",
    key: str = "go-live",
    **more: object,
) -> Wait:
    await engine.seed_waitpoint_hmac_secret("k1", SECRET)
    ident = ExecutionId.solo("releases")
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ident, lane_id="releases", execution_kind=kind)
    )
    (work,) = await engine.claim_many("releases", (), POLICY, 1)
    args = SuspendArgs(
        suspension_id=uuid4(),
        waitpoints=[FreshWaitpoint(uuid4(), key)],
        resume_condition=condition or Single(key, "approved"),
        reason_code=ReasonCode.WAITING_FOR_APPROVAL,
        **more,  # type: ignore[arg-type]
    )
    parked = await engine.suspend(work.handle, args)
    assert isinstance(parked, Suspended)
    return Wait(ident, parked.details.waitpoint_id, parked.details.waitpoint_token)
