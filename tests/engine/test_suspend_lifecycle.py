"""An attempt suspends, is signalled and resumes: the vectors, epochs and events of each step, and
the refusals meanwhile.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, NotFound, StateKind
from flowfabric.model.execution import ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.lease import ClaimExecutionArgs, HandleKind, RevokeLeaseArgs
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.model.state import PublicState
from flowfabric.model.waitpoint import (
    FreshWaitpoint,
    OperatorOnly,
    ReasonCode,
    Resumed,
    ResumePolicy,
    Single,
    Suspended,
)
from flowfabric.rules.states import vector_of
from flowfabric.testing import ManualClock

from .flow_helpers import change_row
from .helpers import (
    HolderCall,
    attempt,
    attempts,
    claim,
    dump,
    fence,
    fields,
    forged,
    grant_args,
    grant_count,
    holder_call,
    new_id,
    other_uuid,
    outbox,
    refused,
    row,
    running,
    state,
    told,
    worker,
)
from .suspend_helpers import (
    KEY,
    Parked,
    claim_resumed,
    closed_for,
    park,
    park_held,
    pending,
    seed,
    signal,
    signals,
    sound,
    suspend_args,
    suspension,
    waitpoint,
)

BLOCKED = {
    "waiting_for_signal": "waiting_for_signal",
    "waiting_for_approval": "waiting_for_approval",
    "waiting_for_callback": "waiting_for_callback",
    "waiting_for_tool_result": "waiting_for_tool_result",
    "waiting_for_operator_review": "paused_by_operator",
    "paused_by_policy": "paused_by_policy",
    "paused_by_budget": "waiting_for_budget",
    "step_boundary": "waiting_for_signal",
    "manual_pause": "paused_by_operator",
    "something else": "waiting_for_signal",
}


async def words(engine: Engine, parked: Parked) -> tuple[str, ...]:
    found = await row(engine, parked.ident)
    vector = vector_of(found)
    return (
        vector.lifecycle_phase,
        vector.ownership_state,
        vector.eligibility_state,
        vector.blocking_reason,
        vector.terminal_outcome,
        vector.attempt_state,
        found.public_state,
    )


async def test_suspend_signal_claim(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine)
    first = fields(parked.held)
    expected = (
        "suspended",
        "unowned",
        "not_applicable",
        "waiting_for_signal",
        "none",
        "attempt_interrupted",
        "suspended",
    )
    assert await words(engine, parked) == expected
    core, tried = await row(engine, parked.ident), await attempt(engine, parked.ident)
    assert core.lease_epoch == first.lease_epoch + 1 == 2
    assert (core.current_suspension_id, core.current_waitpoint_id) == (
        parked.suspension_id,
        parked.waitpoint.waitpoint_id,
    )
    assert (
        core.blocking_detail
        == f"suspended: waitpoint {parked.waitpoint.waitpoint_id} awaiting waiting_for_signal"
    )
    assert (core.current_lease_id, core.current_worker_instance_id, core.lease_expires_at_ms) == (
        None,
        None,
        None,
    )
    assert (tried.attempt_state, tried.outcome, tried.suspended_at_ms) == (
        "suspended",
        None,
        clock(),
    )
    assert tried.suspension_id == str(parked.suspension_id) and core.interrupt_cause == "suspended"
    assert parked.handle.kind is HandleKind.SUSPENDED and fields(parked.handle) == first
    assert await told(engine, parked.ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": [],
        "OPER": [],
    }

    clock.advance(10)
    assert await signal(engine, parked) == "resume_condition_satisfied"
    expected = (
        "runnable",
        "unowned",
        "eligible_now",
        "waiting_for_worker",
        "none",
        "attempt_interrupted",
        "waiting",
    )
    assert await words(engine, parked) == expected
    core = await row(engine, parked.ident)
    assert (core.lease_epoch, core.current_suspension_id, core.current_waitpoint_id) == (
        2,
        None,
        None,
    )
    assert await closed_for(engine, parked.ident) == ("resumed", {"resumed"})
    ended, mailbox = (
        await suspension(engine, parked.ident),
        await waitpoint(engine, parked.ident, parked.waitpoint),
    )
    (heard,) = await signals(engine, parked.ident)
    assert (ended.closed_at_ms, ended.closer_signal_id) == (clock(), heard.signal_id)
    assert (mailbox.satisfied_at_ms, mailbox.signal_count, mailbox.matched_signal_count) == (
        clock(),
        1,
        1,
    )
    assert (await told(engine, parked.ident))["DONE"] == ["resumable"]

    taken = await claim_resumed(engine, parked.ident)
    assert (await words(engine, parked))[:2] == ("active", "leased")
    assert (taken.attempt_index, taken.attempt_id, taken.lease_epoch) == (0, first.attempt_id, 3)
    assert taken.lease_id != first.lease_id and taken.handle.kind is HandleKind.RESUMED
    again = await attempt(engine, parked.ident)
    assert (again.attempt_state, again.started_at_ms, again.resumed_at_ms) == (
        "started",
        tried.started_at_ms,
        clock(),
    )
    assert len(await attempts(engine, parked.ident)) == 1
    assert (await told(engine, parked.ident))["LEASE"] == ["acquired", "revoked", "acquired"]
    await sound(engine)
    await engine.complete(taken.handle, b"done")
    assert await state(engine, parked.ident) == "ENDED(success)"
    await sound(engine)


async def test_a_plain_claim_continues_the_attempt(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    assert await engine.claim("default", (), worker(2)) is None
    await signal(engine, parked)
    await engine.issue_claim_grant(grant_args(parked.ident, 2))
    args = ClaimExecutionArgs(
        execution_id=parked.ident, worker_id="w2", worker_instance_id="w2-i1", lease_ttl_ms=1_000
    )
    await refused(engine.claim_execution(args), ContentionKind.USE_CLAIM_RESUMED_EXECUTION)
    await refused(claim_resumed(engine, parked.ident, 3), ContentionKind.INVALID_CLAIM_GRANT)
    assert await grant_count(engine) == 1
    taken = await claim_resumed(engine, parked.ident, 2)
    assert (taken.attempt_index, taken.lease_epoch, await grant_count(engine)) == (0, 3, 0)
    second = await park_held(engine, parked.ident, taken.handle)
    await signal(engine, second)
    handle = await claim(engine, worker(4))
    assert handle.kind is HandleKind.RESUMED
    assert (fields(handle).lease_epoch, fields(handle).attempt_index) == (5, 0)
    await sound(engine)


@pytest.mark.parametrize(("reason", "blocked"), BLOCKED.items())
async def test_a_reason_blocks_by_its_word(engine: Engine, reason: str, blocked: str) -> None:
    await seed(engine)
    parked = await park(engine, reason_code=reason)
    assert (await row(engine, parked.ident)).blocking_reason == blocked
    assert (await suspension(engine, parked.ident)).reason_code == reason


# ---- who is refused meanwhile


@holder_call
async def test_the_old_handle_is_of_no_use(engine: Engine, call: HolderCall) -> None:
    await seed(engine)
    parked = await park(engine)
    before = await dump(engine)
    await refused(call(engine, parked.held), ContentionKind.LEASE_CONFLICT)
    await refused(call(Engine(engine.store), parked.held), ContentionKind.LEASE_CONFLICT)
    assert await dump(engine) == before


async def test_suspending_again_needs_the_lease(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    before = await dump(engine)
    await refused(engine.suspend(parked.held, suspend_args()), ContentionKind.LEASE_CONFLICT)
    await refused(engine.create_waitpoint(parked.held, "x"), ContentionKind.LEASE_CONFLICT)
    await refused(engine.suspend(parked.handle, suspend_args()), StateKind.ALREADY_SUSPENDED)
    await refused(
        engine.suspend(parked.handle, suspend_args(waitpoints=[])), StateKind.ALREADY_SUSPENDED
    )
    assert await dump(engine) == before


async def test_there_is_no_lease_to_act_on(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    before = await dump(engine)
    await refused(claim_resumed(engine, parked.ident), ContentionKind.NOT_A_RESUMED_EXECUTION)
    await refused(
        engine.replay_execution(ReplayExecutionArgs(execution_id=parked.ident)),
        StateKind.EXECUTION_NOT_TERMINAL,
    )
    changed = ChangePriorityArgs(execution_id=parked.ident, new_priority=5)
    await refused(engine.change_priority(changed), ContentionKind.EXECUTION_NOT_ELIGIBLE)
    answer = await engine.revoke_lease(RevokeLeaseArgs(execution_id=parked.ident))
    assert type(answer).__name__ == "AlreadySatisfied"
    answer = await engine.issue_reclaim_grant(grant_args(parked.ident))
    assert type(answer).__name__ == "NotReclaimable"
    assert await dump(engine) == before


async def test_an_open_suspension_row_refuses_a_suspend(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    await signal(engine, parked)
    taken = await claim_resumed(engine, parked.ident)
    key = {"partition_key": parked.ident.partition_index, "execution_id": parked.ident.uuid}
    await change_row(engine, "ff_suspension_current", key, closed_at_ms=None, close_reason=None)
    await refused(engine.suspend(taken.handle, suspend_args()), StateKind.ALREADY_SUSPENDED)


# ---- by naming the lease


async def test_by_triple(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    for wrong in ({"lease_epoch": 9}, {"lease_id": other_uuid()}, {"attempt_id": other_uuid()}):
        before = await dump(engine)
        await refused(
            engine.suspend_by_triple(ident, fence(held, **wrong), suspend_args()),
            StateKind.STALE_LEASE,
        )
        assert await dump(engine) == before
    with pytest.raises(NotFound):
        await engine.suspend_by_triple(new_id(), fence(held), suspend_args())
    done = await engine.suspend_by_triple(ident, fence(held), suspend_args(idempotency_key="k"))
    assert isinstance(done, Suspended) and done.handle.kind is HandleKind.SUSPENDED
    assert fields(done.handle).lease_id == fields(held).lease_id
    assert await state(engine, ident) == "SUSPENDED"
    await refused(
        engine.suspend_by_triple(ident, fence(held), suspend_args()),
        ContentionKind.EXECUTION_NOT_ACTIVE,
    )
    assert (
        await engine.suspend_by_triple(ident, fence(held), suspend_args(idempotency_key="k"))
        == done
    )
    await sound(engine)


async def test_a_late_suspend_is_refused(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    await refused(
        engine.suspend(forged(held, lease_id=other_uuid()), suspend_args()),
        ContentionKind.LEASE_CONFLICT,
    )
    clock.advance(30_000)
    await refused(engine.suspend(held, suspend_args()), StateKind.LEASE_EXPIRED)
    assert await state(engine, ident) == "LOST"
    await refused(engine.suspend(held, suspend_args()), StateKind.LEASE_EXPIRED)
    assert (await engine.store.dump(["ff_waitpoint_pending"]))["ff_waitpoint_pending"] == []


# ---- delays, clocks and operators


@pytest.mark.parametrize(
    ("policy", "said", "expected"),
    [(None, 500, 500), (700, None, 700), (700, 500, 500), (700, 0, 0), (None, None, 0)],
    ids=["args", "policy", "args first", "none by args", "none"],
)
async def test_resume_delays(
    engine: Engine, clock: ManualClock, policy: int | None, said: int | None, expected: int
) -> None:
    await seed(engine)
    parked = await park(engine, resume_policy=ResumePolicy(resume_delay_ms=policy))
    assert await signal(engine, parked, resume_delay_ms=said) == "resume_condition_satisfied"
    if not expected:
        assert await state(engine, parked.ident) == "READY"
        return
    core = await row(engine, parked.ident)
    assert (core.blocking_reason, core.delay_until_ms) == (
        "waiting_for_resume_delay",
        clock() + expected,
    )
    assert core.blocking_detail == f"resume delay {expected}ms after signal go"
    assert (await words(engine, parked))[2:] == (
        "not_eligible_until_time",
        "waiting_for_resume_delay",
        "none",
        "attempt_interrupted",
        "delayed",
    )
    clock.advance(expected - 1)
    await engine.promote_delayed(parked.ident)
    await refused(claim_resumed(engine, parked.ident), ContentionKind.EXECUTION_NOT_LEASEABLE)
    assert await engine.claim("default", (), worker(2)) is None
    clock.advance(1)
    await engine.promote_delayed(parked.ident)
    core = await row(engine, parked.ident)
    assert (core.attempt_state, core.delay_until_ms) == ("attempt_interrupted", None)
    assert (await claim_resumed(engine, parked.ident)).lease_epoch == 3
    await sound(engine)


@pytest.mark.parametrize("delay", [0, 400])
async def test_an_operator_resumes_whatever_it_waits_for(
    engine: Engine, clock: ManualClock, delay: int
) -> None:
    await seed(engine)
    parked = await park(
        engine, resume_condition=OperatorOnly(), reason_code=ReasonCode.MANUAL_PAUSE
    )
    assert await signal(engine, parked) == "appended_to_waitpoint"
    shown = PublicState.DELAYED if delay else PublicState.WAITING
    assert await engine.resume_execution(parked.ident, "operator", delay) == Resumed(shown)
    await refused(engine.resume_execution(parked.ident), StateKind.EXECUTION_NOT_SUSPENDED)
    assert await closed_for(engine, parked.ident) == ("resumed", {"resumed"})
    assert (await suspension(engine, parked.ident)).closer_signal_id is None
    core = await row(engine, parked.ident)
    assert (core.current_suspension_id, core.current_waitpoint_id) == (None, None)
    assert (await told(engine, parked.ident))["DONE"] == []
    assert core.blocking_detail == (f"resume delay {delay}ms" if delay else "")
    clock.advance(delay)
    if delay:
        await engine.promote_delayed(parked.ident)
    taken = await claim_resumed(engine, parked.ident)
    assert (taken.lease_epoch, taken.attempt_index) == (3, 0)
    assert await engine.observe_signals(taken.handle) == []
    await sound(engine)


async def test_an_operator_leaves_mailboxes_made_ahead_open(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "later")
    await park_held(engine, ident, held)
    await engine.resume_execution(ident)
    assert (await waitpoint(engine, ident, ahead)).state == "pending"


async def test_who_cannot_be_resumed(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.resume_execution(new_id())
    ident, _ = await running(engine)
    await refused(engine.resume_execution(ident), StateKind.EXECUTION_NOT_SUSPENDED)


@pytest.mark.parametrize(("given", "left"), [(None, 600), (250, 250), (0, 600)])
async def test_the_attempt_clock_stops_meanwhile(
    engine: Engine, clock: ManualClock, given: int | None, left: int
) -> None:
    await seed(engine)
    limited: dict[str, Any] = {
        "policy": ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=1_000))
    }
    ident, held = await running(engine, **limited)
    clock.advance(400)
    parked = await park_held(engine, ident, held)
    core = await row(engine, ident)
    assert (core.attempt_timeout_at_ms, core.attempt_timeout_remaining_ms) == (None, 600)
    clock.advance(50_000)
    await signal(engine, parked)
    await claim_resumed(engine, ident, remaining_attempt_timeout_ms=given)
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + left


async def test_a_waitpoint_id_may_be_used_again_once_closed(engine: Engine) -> None:
    await seed(engine)
    again = FreshWaitpoint(other_uuid(), KEY)
    parked = await park(engine, waitpoints=[again])
    await signal(engine, parked)
    taken = await claim_resumed(engine, parked.ident)
    second = await park_held(
        engine, parked.ident, taken.handle, waitpoints=[again], resume_condition=Single(KEY, "stop")
    )
    assert second.waitpoint.waitpoint_token == parked.waitpoint.waitpoint_token
    assert await engine.observe_signals(second.handle) == []
    assert await signal(engine, second, "other") == "appended_to_waitpoint"
    assert await signal(engine, second, "stop") == "resume_condition_satisfied"
    assert len(await engine.observe_signals(second.handle)) == 2
    assert len(await outbox(engine, "ff_signal_event", parked.ident)) == 3
    await sound(engine)
