"""Claims that continue or take over one execution."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, NotFound, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import (
    HandleKind,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
)
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    SOON_MS,
    TTL_MS,
    attempts,
    completed,
    create,
    dump,
    fields,
    grant_args,
    grant_count,
    invalid,
    lost,
    new_id,
    refused,
    requeued,
    resume_args,
    row,
    running,
    state,
    told,
)

GPU: dict[str, Any] = {"routing_requirements": {"required_capabilities": ["gpu", "big"]}}


def token(ident: ExecutionId, expires_at_ms: int, number: int = 2) -> ResumeToken:
    grant = ResumeGrant(ident, "{fp:0}", "key", expires_at_ms, LANE)
    return ResumeToken(grant, f"w{number}", f"w{number}-i1", TTL_MS)


# ---- claim_resumed_execution


async def test_a_resumed_claim_continues_the_attempt_without_any_grant(
    engine: Engine, clock: ManualClock
) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=1_000))
    ident, before = await running(engine, policy=policy)
    clock.advance(400)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    clock.advance(5_000)
    got = await engine.claim_resumed_execution(resume_args(ident, 2))
    assert (got.attempt_id, got.attempt_index, got.lease_epoch) == (fields(before).attempt_id, 0, 3)
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + 1_000
    assert (await told(engine, ident))["LEASE"] == ["acquired", "revoked", "acquired"]


async def test_a_given_remaining_timeout_overrides_the_stored_one(
    engine: Engine, clock: ManualClock
) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=1_000))
    ident, _ = await running(engine, policy=policy)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    await engine.claim_resumed_execution(resume_args(ident, remaining_attempt_timeout_ms=7))
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + 7


async def test_a_live_grant_for_another_worker_refuses_a_resumed_claim(
    engine: Engine,
) -> None:
    ident, _ = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    await engine.issue_claim_grant(grant_args(ident, 2))
    await refused(
        engine.claim_resumed_execution(resume_args(ident, 1)), ContentionKind.INVALID_CLAIM_GRANT
    )
    await engine.claim_resumed_execution(resume_args(ident, 2))


async def test_an_expired_grant_for_another_worker_does_not_stand_in_the_way(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    await engine.issue_claim_grant(grant_args(ident, 2, 100))
    clock.advance(101)
    assert (await engine.claim_resumed_execution(resume_args(ident, 1))).lease_epoch == 3


async def test_what_has_no_interrupted_attempt_cannot_be_resumed(
    engine: Engine, clock: ManualClock
) -> None:
    with pytest.raises(NotFound):
        await engine.claim_resumed_execution(resume_args(new_id()))
    ready = await create(engine, lane_id="a")
    await refused(
        engine.claim_resumed_execution(resume_args(ready)), ContentionKind.NOT_A_RESUMED_EXECUTION
    )
    ended, _ = await completed(engine, lane_id="b")
    await refused(
        engine.claim_resumed_execution(resume_args(ended)), ContentionKind.EXECUTION_NOT_LEASEABLE
    )
    parked, handle = await running(engine, lane_id="c")
    await engine.delay(handle, clock() + 10)
    await refused(
        engine.claim_resumed_execution(resume_args(parked)), ContentionKind.EXECUTION_NOT_LEASEABLE
    )


# ---- claim_from_resume_grant


@pytest.mark.parametrize("how", ["requeued", "lost", "past its end"])
async def test_a_resume_grant_takes_the_same_attempt_over(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    if how == "past its end":
        ident, before = await running(engine)
        clock.advance(TTL_MS)
    else:
        ident, before = await (
            requeued(engine, clock) if how == "requeued" else lost(engine, clock)
        )
    handle = await engine.claim_from_resume_grant(token(ident, clock()))
    assert handle is not None and handle.kind is HandleKind.RESUMED
    assert (fields(handle).lease_epoch, fields(handle).attempt_id) == (2, fields(before).attempt_id)
    assert len(await attempts(engine, ident)) == 1
    assert (await row(engine, ident)).lease_reclaim_count == 1
    assert (await told(engine, ident))["LEASE"][-1] == "reclaimed"
    await refused(engine.complete(before), StateKind.LEASE_EXPIRED)
    await engine.complete(handle)


async def test_a_resume_grant_gives_none_while_there_is_nothing_to_take(
    engine: Engine, clock: ManualClock
) -> None:
    with pytest.raises(NotFound):
        await engine.claim_from_resume_grant(token(new_id(), clock()))
    never = await create(engine, lane_id="a")
    held, _ = await running(engine, lane_id="b")
    ended, _ = await completed(engine, lane_id="c")
    for ident in (never, held, ended):
        before = await dump(engine)
        assert await engine.claim_from_resume_grant(token(ident, clock() + 10)) is None
        assert await dump(engine) == before


async def test_a_grant_of_another_worker_refuses_a_resume_grant(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await lost(engine, clock)
    await engine.issue_reclaim_grant(grant_args(ident, 1))
    before = await dump(engine)
    await refused(
        engine.claim_from_resume_grant(token(ident, clock() + SOON_MS)),
        ContentionKind.INVALID_CLAIM_GRANT,
    )
    assert await dump(engine) == before
    clock.advance(SOON_MS + 1)
    assert await engine.claim_from_resume_grant(token(ident, clock())) is not None


async def test_ones_own_grant_does_not_stand_in_the_way_of_a_resume_grant(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await lost(engine, clock)
    await engine.issue_reclaim_grant(grant_args(ident, 2))
    assert await engine.claim_from_resume_grant(token(ident, clock())) is not None
    assert await grant_count(engine) == 0


async def test_an_outdated_resume_grant_is_expired(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await lost(engine, clock)
    await refused(
        engine.claim_from_resume_grant(token(ident, clock() - 1)),
        ContentionKind.CLAIM_GRANT_EXPIRED,
    )


async def test_a_resume_grant_obeys_the_cap_on_losses(engine: Engine, clock: ManualClock) -> None:
    """Taking a lost lease over counts as a loss; with a limit of 0 the first one is fatal."""
    ident, _ = await lost(engine, clock, policy=ExecutionPolicy(max_reclaim_count=0))
    await engine.claim_from_resume_grant(token(ident, clock() + 10))
    found = await row(engine, ident)
    assert (await state(engine, ident), found.failure_reason) == (
        "ENDED(failed)",
        "max_reclaims_exceeded",
    )


# ---- issue_grant_and_claim


async def test_an_operator_takes_one_in_a_single_step(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine, policy=GPU)
    got = await engine.issue_grant_and_claim(ident, LANE, 500)
    found = await row(engine, ident)
    assert (got.lease_epoch, got.attempt_index, got.lease_id) == (1, 0, found.current_lease_id)
    assert (found.current_worker_id, found.current_worker_instance_id) == ("operator", "operator")
    assert found.lease_expires_at_ms == clock() + 500
    assert await grant_count(engine) == 0
    assert (await told(engine, ident))["LEASE"] == ["acquired"]
    await engine.complete(got.handle)


async def test_an_operator_may_take_an_interrupted_one_held_back(engine: Engine) -> None:
    ident, _ = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    await engine.block_route(ident, "paused_by_operator")
    assert (await engine.issue_grant_and_claim(ident, LANE, 500)).lease_epoch == 3


async def test_what_an_operator_cannot_take(engine: Engine, clock: ManualClock) -> None:
    with pytest.raises(NotFound):
        await engine.issue_grant_and_claim(new_id(), LANE, 500)
    ident = await create(engine, lane_id="a")
    await invalid(
        engine.issue_grant_and_claim(ident, "b", 500),
        "lane_mismatch: args.lane_id=b exec_core.lane_id=a",
    )
    await engine.issue_claim_grant(grant_args(ident))
    await refused(engine.issue_grant_and_claim(ident, "a", 500), StateKind.GRANT_ALREADY_EXISTS)
    held, handle = await running(engine, lane_id="c")
    await refused(engine.issue_grant_and_claim(held, "c", 500), ContentionKind.LEASE_CONFLICT)
    await engine.delay(handle, clock() + 10)
    await refused(
        engine.issue_grant_and_claim(held, "c", 500), ContentionKind.EXECUTION_NOT_ELIGIBLE
    )
    blocked = await create(engine, lane_id="d")
    await engine.block_route(blocked, "paused_by_operator")
    await refused(
        engine.issue_grant_and_claim(blocked, "d", 500), ContentionKind.EXECUTION_NOT_ELIGIBLE
    )
    ended, _ = await completed(engine, lane_id="e")
    await refused(
        engine.issue_grant_and_claim(ended, "e", 500), ContentionKind.EXECUTION_NOT_ELIGIBLE
    )
