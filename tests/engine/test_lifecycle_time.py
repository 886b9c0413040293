"""Time limits: attempt timeouts and deadlines, and the attempt's clock across interruptions."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, EngineError, StateKind
from flowfabric.model.attempt import FailureReason, RetryScheduled, TerminalFailed
from flowfabric.model.execution import AlreadyTerminal, Expired, ReplayExecutionArgs
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.testing import ManualClock

from .helpers import (
    GRACE_MS,
    LANE,
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
    new_id,
    refused,
    row,
    running,
    state,
    told,
    worker,
)

TIMEOUT, DEADLINE = ExpirePhase.ATTEMPT_TIMEOUT, ExpirePhase.EXECUTION_DEADLINE
ALLOWED_MS = 100_000


NEVER = RetryPolicy(max_retries=0, backoff={})


def limited(**said: Any) -> ExecutionPolicy:
    return ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=ALLOWED_MS, **said), retry_policy=NEVER
    )


# ---- expire_execution


async def test_a_timed_out_attempt_ends_the_execution(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(
        engine,
        policy=ExecutionPolicy(
            timeout_policy=TimeoutPolicy(attempt_timeout_ms=100), retry_policy=NEVER
        ),
    )
    clock.advance(99)
    before = await dump(engine)
    assert await engine.expire_execution(ident, TIMEOUT) is None
    assert await dump(engine) == before
    clock.advance(1)
    assert await engine.expire_execution(ident, "attempt_timeout") == Expired(ident)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "ENDED(expired)"
    assert (found.failure_reason, found.terminal_at_ms, found.lease_epoch) == (
        "attempt_timeout",
        clock(),
        1,
    )
    assert (found.closing_epoch, found.closing_attempt_index, found.current_lease_id) == (
        1,
        0,
        None,
    )
    assert (tried.attempt_state, tried.outcome, tried.failure_reason) == (
        "ended_failure",
        "expired",
        "attempt_timeout",
    )
    assert await told(engine, ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["expired"],
        "OPER": [],
    }
    assert await engine.expire_execution(ident, TIMEOUT) == AlreadyTerminal()
    await refused(engine.complete(handle), ContentionKind.EXECUTION_NOT_ACTIVE)


async def test_the_explicit_now_decides_and_is_recorded(engine: Engine, clock: ManualClock) -> None:
    limit = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=100), retry_policy=NEVER
    )
    ident, _ = await running(engine, policy=limit)
    assert await engine.expire_execution(ident, TIMEOUT, now=clock() + 100) == Expired(ident)
    assert (await row(engine, ident)).terminal_at_ms == clock() + 100


@pytest.mark.meets("timeout", "crash", "reclaim")
async def test_a_lost_attempt_never_times_out_and_gets_its_whole_time_again(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine, policy=limited())
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    clock.advance(ALLOWED_MS - TTL_MS)
    assert await engine.expire_execution(ident, TIMEOUT) is None
    assert await engine.requeue_lost(ident) == "requeued"
    await claim(engine)
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + ALLOWED_MS


@pytest.mark.meets("timeout", "crash")
async def test_a_lease_that_ran_out_unnoticed_is_lost_before_the_attempt_times_out(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine, policy=limited())
    clock.advance(10 * ALLOWED_MS)
    assert await engine.expire_execution(ident, TIMEOUT) is None
    await engine.mark_lease_expired_if_due(ident)
    assert await state(engine, ident) == "LOST"


@pytest.mark.meets("timeout", "retry", "crash")
async def test_a_crashed_worker_whose_attempt_timed_out_costs_a_retry(
    engine: Engine, clock: ManualClock
) -> None:
    policy = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=100),
        retry_policy=RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 0}),
    )
    ident, zombie = await running(engine, policy=policy)
    clock.advance(100)
    assert await engine.expire_execution(ident, TIMEOUT) == RetryScheduled(clock(), 1)
    assert await told(engine, ident) == {"LEASE": ["acquired", "revoked"], "DONE": [], "OPER": []}
    handle = await claim(engine)
    with pytest.raises(EngineError):
        await engine.complete(zombie)
    await engine.complete(handle)
    assert await state(engine, ident) == "ENDED(success)"


@pytest.mark.meets("timeout", "freeze")
@pytest.mark.parametrize("call", ["complete", "fail", "delay", "renew", "cancel"])
async def test_a_call_after_the_attempts_limit_is_refused(
    engine: Engine, clock: ManualClock, call: str
) -> None:
    ident, handle = await running(
        engine, policy=ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=100))
    )
    clock.advance(100)
    before = await dump(engine)
    late = {
        "complete": lambda: engine.complete(handle),
        "fail": lambda: engine.fail(handle, "boom"),
        "delay": lambda: engine.delay(handle, clock() + 5),
        "renew": lambda: engine.renew(handle),
        "cancel": lambda: engine.cancel(handle, "no"),
    }
    await refused(late[call](), StateKind.LEASE_EXPIRED)
    assert await dump(engine) == before
    assert isinstance(await engine.expire_execution(ident, TIMEOUT), RetryScheduled)


async def test_a_worker_that_reports_its_timeout_without_retries_left_expires_the_run(
    engine: Engine,
) -> None:
    ident, handle = await running(engine, policy=limited())
    reason = FailureReason("took too long", b"attempt_timeout")
    for _ in range(2):
        assert await engine.fail(handle, reason) == TerminalFailed()
    assert await state(engine, ident) == "ENDED(expired)"
    found = await row(engine, ident)
    assert (found.failure_reason, found.last_failure_message) == (
        "attempt_timeout",
        "took too long",
    )
    assert await told(engine, ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["expired"],
        "OPER": [],
    }


@pytest.mark.parametrize(
    "where", ["ready", "delayed", "blocked", "between attempts", "interrupted", "running", "lost"]
)
async def test_a_missed_deadline_ends_whatever_is_not_ended(
    engine: Engine, clock: ManualClock, where: str
) -> None:
    at = clock() + 200_000
    ident = await create(
        engine, execution_deadline_at=at, delay_until=at if where == "delayed" else None
    )
    leases: list[str] = []
    if where == "ready":
        await engine.issue_claim_grant(grant_args(ident))
    elif where == "blocked":
        await engine.block_route(ident, "paused_by_operator", "held")
    elif where != "delayed":
        handle = await claim(engine)
        leases = ["acquired", "revoked"]
        if where == "between attempts":
            await engine.fail(handle, "boom")
        elif where == "interrupted":
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
        elif where == "lost":
            clock.advance(TTL_MS)
            await engine.mark_lease_expired_if_due(ident)
            leases = ["acquired", "expired"]
    pending = (await row(engine, ident)).attempt_state
    assert await engine.expire_execution(ident, DEADLINE, now=at - 1) is None
    assert await engine.expire_execution(ident, DEADLINE, now=at) == Expired(ident)
    found, tried = await row(engine, ident), await attempts(engine, ident)
    assert (await state(engine, ident), found.failure_reason) == (
        "ENDED(expired)",
        "execution_deadline",
    )
    assert (found.delay_until_ms, found.blocking_detail) == (None, "")
    if where in ("ready", "delayed", "blocked"):
        assert (found.attempt_state, tried) == (pending, [])
    else:
        assert found.attempt_state == "attempt_terminal"
        assert tried[0].outcome == ("retry" if where == "between attempts" else "expired")
    assert await told(engine, ident) == {"LEASE": leases, "DONE": ["expired"], "OPER": []}
    assert await grant_count(engine) == 0


async def test_nothing_expires_that_has_no_limit(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await running(engine)
    far = clock() + 10**12
    for phase in (TIMEOUT, DEADLINE):
        assert await engine.expire_execution(ident, phase, now=far) is None
        assert await engine.expire_execution(new_id(), phase, now=far) is None
    assert await state(engine, ident) == "RUNNING"


async def test_an_attempt_timeout_counts_only_while_active(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await create(engine, policy=limited())
    assert await engine.expire_execution(ident, TIMEOUT, now=clock() + 10**9) is None
    handle = await claim(engine)
    await engine.delay(handle, clock() + 10)
    assert await engine.expire_execution(ident, TIMEOUT, now=clock() + 10**9) is None


async def test_what_ended_stays_ended(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await completed(engine, execution_deadline_at=clock() + 10)
    before = await dump(engine)
    assert await engine.expire_execution(ident, DEADLINE, now=clock() + 99) == AlreadyTerminal()
    assert await dump(engine) == before


# ---- the attempt's clock


@pytest.mark.meets("timeout", "delay")
@pytest.mark.meets("timeout", "revoke")
@pytest.mark.meets("timeout", "reclaim")
@pytest.mark.parametrize("how", ["delay", "revoke", "requeue"])
async def test_waiting_keeps_the_time_used_and_a_lost_lease_resets_it(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    ident, handle = await running(engine, policy=limited())
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + ALLOWED_MS
    left = ALLOWED_MS - 10_000
    clock.advance(10_000)
    if how == "delay":
        await engine.delay(handle, clock() + 50)
    elif how == "revoke":
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
        left = ALLOWED_MS
    else:
        clock.advance(TTL_MS - 10_000)
        await engine.mark_lease_expired_if_due(ident)
        clock.advance(GRACE_MS)
        await engine.requeue_lost(ident)
        left = ALLOWED_MS
    found = await row(engine, ident)
    assert (found.attempt_timeout_at_ms, found.attempt_timeout_remaining_ms) == (None, left)
    clock.advance(10**9)
    await engine.promote_delayed(ident)
    (work,) = await engine.claim_many(LANE, (), worker(), 1)
    assert work.time_used_ms == ALLOWED_MS - left
    found = await row(engine, ident)
    assert (found.attempt_timeout_at_ms, found.attempt_timeout_remaining_ms) == (
        clock() + left,
        None,
    )


async def test_renewing_a_lease_does_not_extend_the_attempt(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine, policy=limited())
    due = (await row(engine, ident)).attempt_timeout_at_ms
    clock.advance(1_000)
    await engine.renew(handle)
    assert (await row(engine, ident)).attempt_timeout_at_ms == due


@pytest.mark.parametrize("how", ["retry", "replay"])
async def test_a_new_or_replayed_attempt_gets_its_full_time(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    policy = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=ALLOWED_MS),
        retry_policy=RetryPolicy(backoff={"type": "fixed", "delay_ms": 0}),
    )
    ident, handle = await running(engine, policy=policy)
    clock.advance(20_000)
    if how == "retry":
        await engine.fail(handle, "boom")
    else:
        await engine.complete(handle)
        await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    clock.advance(3)
    await claim(engine)
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + ALLOWED_MS
    assert (await attempt(engine, ident)).attempt_timeout_at_ms == clock() + ALLOWED_MS


async def test_the_deadline_keeps_running_during_a_backoff(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine, execution_deadline_at=clock() + 500)
    await engine.fail(handle, "boom")
    clock.advance(500)
    assert await engine.expire_execution(ident, DEADLINE) == Expired(ident)
    assert await engine.promote_delayed(ident) == "not_runnable_cleaned"


async def test_the_handle_of_an_expired_execution_cannot_complete_it(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine, execution_deadline_at=clock() + 5)
    clock.advance(5)
    await engine.expire_execution(ident, DEADLINE)
    assert fields(handle).lease_epoch == (await row(engine, ident)).closing_epoch
    await refused(engine.complete(handle, b"late"), ContentionKind.EXECUTION_NOT_ACTIVE)
    assert await engine.get_execution_result(ident) is None
