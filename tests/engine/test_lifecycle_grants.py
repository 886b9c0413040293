"""Grants, the claims of a particular execution, and holding work back."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, NotFound, StateKind, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    ClaimGrant,
    ClaimResumedArgs,
    Granted,
    HandleKind,
    NoWork,
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
    attempt,
    attempts,
    claim,
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
    registration,
    requeued,
    row,
    running,
    state,
    told,
)

GPU: dict[str, Any] = {"routing_requirements": {"required_capabilities": ["gpu", "big"]}}


def claim_args(ident: ExecutionId, number: int = 1, **said: Any) -> ClaimExecutionArgs:
    base: dict[str, Any] = {
        "worker_id": f"w{number}",
        "worker_instance_id": f"w{number}-i1",
        "lease_ttl_ms": TTL_MS,
    }
    return ClaimExecutionArgs(execution_id=ident, **{**base, **said})


def resume_args(ident: ExecutionId, number: int = 1, **said: Any) -> ClaimResumedArgs:
    worker_id = f"w{number}"
    return ClaimResumedArgs(
        execution_id=ident,
        worker_id=worker_id,
        worker_instance_id=f"{worker_id}-i1",
        lease_ttl_ms=TTL_MS,
        **said,
    )


def token(ident: ExecutionId, expires_at_ms: int, number: int = 2) -> ResumeToken:
    grant = ResumeGrant(ident, "{fp:0}", "key", expires_at_ms, LANE)
    return ResumeToken(grant, f"w{number}", f"w{number}-i1", TTL_MS)


# ---- issue_claim_grant


async def test_a_grant_reserves_without_changing_the_state(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    assert await engine.issue_claim_grant(grant_args(ident, route_snapshot_json="{}")) == Granted(
        ident
    )
    assert await state(engine, ident) == "READY"
    names = (await engine.store.dump(["ff_claim_grant"]))["ff_claim_grant"]
    assert len(names) == 1 and names[0][3] == "claim" and names[0][-1] == clock() + 10_000
    assert await told(engine, ident) == {"LEASE": [], "DONE": [], "OPER": []}


async def test_a_second_grant_waits_for_the_first_to_run_out(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident, 1, 100))
    await refused(engine.issue_claim_grant(grant_args(ident, 1)), StateKind.GRANT_ALREADY_EXISTS)
    clock.advance(101)
    await engine.issue_claim_grant(grant_args(ident, 2))
    assert await grant_count(engine) == 1
    await engine.claim_execution(claim_args(ident, 2))


async def test_a_grant_needs_a_ready_execution(engine: Engine, clock: ManualClock) -> None:
    with pytest.raises(NotFound):
        await engine.issue_claim_grant(grant_args(new_id()))
    for ident in (
        await create(engine, lane_id="a", delay_until=clock() + 10),
        (await running(engine, lane_id="b"))[0],
        (await completed(engine, lane_id="c"))[0],
    ):
        await refused(
            engine.issue_claim_grant(grant_args(ident)), ContentionKind.EXECUTION_NOT_ELIGIBLE
        )


async def test_a_grant_for_a_worker_that_lacks_something_names_it(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, policy=GPU)
    error = await invalid(
        engine.issue_claim_grant(grant_args(ident, worker_capabilities=frozenset({"cpu"})))
    )
    assert (error.kind, error.detail) == (ValidationKind.CAPABILITY_MISMATCH, "big,gpu")
    assert (await row(engine, ident)).last_capability_mismatch_at == clock()
    assert await grant_count(engine) == 0


@pytest.mark.parametrize(
    ("tokens", "detail"),
    [
        (frozenset(f"t{n}" for n in range(257)), "worker:too_many_tokens"),
        (frozenset({"x" * 4_097}), "worker:too_many_bytes"),
    ],
)
async def test_an_oversize_worker_list_is_refused_while_granting(
    engine: Engine, tokens: frozenset[str], detail: str
) -> None:
    ident = await create(engine)
    error = await invalid(engine.issue_claim_grant(grant_args(ident, worker_capabilities=tokens)))
    assert (error.kind, error.detail) == (ValidationKind.INVALID_CAPABILITIES, detail)


# ---- claim_execution


async def test_a_grant_becomes_a_lease_with_the_ids_given(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident))
    lease, tried = uuid4(), uuid4()
    got = await engine.claim_execution(
        claim_args(ident, lease_id=lease, attempt_id=tried, attempt_policy_json='{"a":1}', attempt_timeout_ms=55,
                   execution_deadline_at=clock() + 99, expected_attempt_index=7, worker_instance_id="another-process")
    )  # fmt: skip
    assert (got.lease_id, got.attempt_id, got.attempt_index, got.lease_epoch) == (
        lease,
        tried,
        0,
        1,
    )
    assert (got.attempt_type, got.lease_expires_at) == ("initial", clock() + TTL_MS)
    found = await row(engine, ident)
    assert (found.deadline_at_ms, found.deadline_origin) == (clock() + 99, "argument")
    assert found.attempt_timeout_at_ms == clock() + 55
    assert (await attempt(engine, ident)).policy == '{"a":1}'
    assert await grant_count(engine) == 0
    await engine.complete(got.handle)
    assert await state(engine, ident) == "ENDED(success)"


async def test_a_claim_needs_its_own_live_grant(engine: Engine, clock: ManualClock) -> None:
    ident = await create(engine)
    await refused(engine.claim_execution(claim_args(ident)), ContentionKind.INVALID_CLAIM_GRANT)
    await engine.issue_claim_grant(grant_args(ident, 2, 100))
    await refused(engine.claim_execution(claim_args(ident, 1)), ContentionKind.INVALID_CLAIM_GRANT)
    clock.advance(101)
    await refused(engine.claim_execution(claim_args(ident, 2)), ContentionKind.CLAIM_GRANT_EXPIRED)
    assert await grant_count(engine) == 1
    assert await state(engine, ident) == "READY"


async def test_a_second_claimant_meets_a_lease_conflict(engine: Engine) -> None:
    ident = await create(engine)
    await engine.issue_claim_grant(grant_args(ident))
    await engine.claim_execution(claim_args(ident))
    await refused(engine.claim_execution(claim_args(ident)), ContentionKind.LEASE_CONFLICT)


@pytest.mark.parametrize("where", ["delayed", "ended", "lost"])
async def test_what_is_not_runnable_is_not_leaseable(
    engine: Engine, clock: ManualClock, where: str
) -> None:
    if where == "delayed":
        ident = await create(engine, delay_until=clock() + 9)
    else:
        ident = (await (completed(engine) if where == "ended" else lost(engine, clock)))[0]
    await refused(engine.claim_execution(claim_args(ident)), ContentionKind.EXECUTION_NOT_LEASEABLE)


async def test_an_interrupted_attempt_redirects_to_the_resumed_claim(engine: Engine) -> None:
    ident, _ = await running(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    await engine.issue_claim_grant(grant_args(ident))
    await refused(
        engine.claim_execution(claim_args(ident)), ContentionKind.USE_CLAIM_RESUMED_EXECUTION
    )
    got = await engine.claim_resumed_execution(resume_args(ident))
    assert got.handle.kind is HandleKind.RESUMED
    assert await grant_count(engine) == 0


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


async def test_a_live_grant_for_another_worker_stands_in_the_way_of_a_resumed_claim(
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


async def test_a_grant_of_another_worker_stands_in_the_way_of_a_resume_grant(
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


# ---- claim_for_worker


async def test_claim_for_worker_reserves_the_best_and_the_worker_claims_it(
    engine: Engine, clock: ManualClock
) -> None:
    await create(engine)
    best = await create(engine, priority=5, execution_id=new_id(3))
    got = await engine.claim_for_worker(LANE, "w1", "w1-i1", (), 1_000)
    assert isinstance(got, ClaimGrant)
    assert (got.execution_id, got.partition_key, got.expires_at_ms) == (
        best,
        "{fp:3}",
        clock() + 1_000,
    )
    next_one = await engine.claim_for_worker(LANE, "w1", "w1-i1", (), 1_000)
    assert (
        isinstance(next_one, ClaimGrant)
        and next_one.execution_id != best
        and next_one.grant_key != got.grant_key
    )
    assert await engine.claim_for_worker(LANE, "w2", "w2-i1", (), 1_000) == NoWork()
    assert (await engine.claim_execution(claim_args(best))).lease_epoch == 1


async def test_work_nobody_alive_can_run_waits_for_a_capable_worker(engine: Engine) -> None:
    ident = await create(engine, policy=GPU, priority=9)
    plain = await create(engine)
    got = await engine.claim_for_worker(LANE, "w1", "w1-i1", (), 1_000)
    assert isinstance(got, ClaimGrant) and got.execution_id == plain
    found = await row(engine, ident)
    assert await state(engine, ident) == "ROUTE"
    assert (found.blocking_reason, found.blocking_detail) == (
        "waiting_for_capable_worker", "no connected worker satisfies required_capabilities",
    )  # fmt: skip


async def test_work_a_live_specialist_can_run_is_only_skipped(engine: Engine) -> None:
    ident = await create(engine, policy=GPU)
    await engine.register_worker(registration(capabilities=frozenset({"gpu", "big"})))
    assert await engine.claim_for_worker(LANE, "w2", "w2-i1", (), 1_000) == NoWork()
    assert await state(engine, ident) == "READY"


async def test_claim_for_worker_can_be_kept_to_a_namespace(engine: Engine) -> None:
    await create(engine, namespace="a", priority=9)
    mine = await create(engine, namespace="b")
    got = await engine.claim_for_worker(LANE, "w1", "w1-i1", (), 1_000, namespace="b")
    assert isinstance(got, ClaimGrant) and got.execution_id == mine


async def test_expired_grants_are_dropped_and_live_ones_kept(
    engine: Engine, clock: ManualClock
) -> None:
    for ttl in (100, 200):
        await engine.issue_claim_grant(grant_args(await create(engine), 1, ttl))
    clock.advance(100)
    assert await engine.drop_expired_grants() == 0
    clock.advance(1)
    assert await engine.drop_expired_grants() == 1
    assert await grant_count(engine) == 1


@pytest.mark.parametrize("way", ["initial", "retry", "replay"])
async def test_a_resumed_attempt_keeps_its_type(
    engine: Engine, clock: ManualClock, way: str
) -> None:
    ident, handle = await running(engine)
    if way == "retry":
        await engine.fail(handle, "again")
        clock.advance(1_000)
        await engine.promote_delayed(ident)
    elif way == "replay":
        await engine.complete(handle)
        await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    if way != "initial":
        await claim(engine)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
    args = ClaimResumedArgs(
        execution_id=ident, worker_id="w", worker_instance_id="i", lease_ttl_ms=9
    )
    assert (await engine.claim_resumed_execution(args)).attempt_type == way
