"""Claim grants, claims with a grant, and executions that no worker can run."""

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
    RevokeLeaseArgs,
)
from flowfabric.testing import ManualClock

from .helpers import (
    LANE,
    TTL_MS,
    attempt,
    claim,
    completed,
    create,
    grant_args,
    grant_count,
    invalid,
    lost,
    new_id,
    refused,
    registration,
    resume_args,
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
        claim_args(
            ident,
            lease_id=lease,
            attempt_id=tried,
            attempt_policy_json='{"a":1}',
            attempt_timeout_ms=55,
            execution_deadline_at=clock() + 99,
            expected_attempt_index=7,
            worker_instance_id="another-process",
        )
    )
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


async def test_work_that_no_live_worker_can_run_waits_for_a_capable_worker(engine: Engine) -> None:
    ident = await create(engine, policy=GPU, priority=9)
    plain = await create(engine)
    got = await engine.claim_for_worker(LANE, "w1", "w1-i1", (), 1_000)
    assert isinstance(got, ClaimGrant) and got.execution_id == plain
    found = await row(engine, ident)
    assert await state(engine, ident) == "ROUTE"
    assert (found.blocking_reason, found.blocking_detail) == (
        "waiting_for_capable_worker",
        "no connected worker satisfies required_capabilities",
    )


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
