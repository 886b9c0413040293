"""Cancel, revoke and priority changes in every state."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, NotFound, StateKind, ValidationKind
from flowfabric.model.execution import (
    CancelExecutionArgs,
    Cancelled,
    ChangePriorityArgs,
)
from flowfabric.model.lease import AlreadySatisfied, Revoked, RevokeLeaseArgs
from flowfabric.testing import ManualClock

from .helpers import (
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
    lease_label,
    lost,
    new_id,
    outbox,
    refused,
    requeued,
    row,
    running,
    state,
    told,
)


def cancelling(ident: Any, **said: Any) -> CancelExecutionArgs:
    return CancelExecutionArgs(execution_id=ident, **said)


# ---- cancel


async def test_cancel_of_a_running_one_closes_its_attempt(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    assert await engine.cancel_execution(
        cancelling(ident, reason="stop", now=clock() + 3)
    ) == Cancelled(ident)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert (found.lifecycle_phase, found.terminal_at_ms, found.attempt_state) == (
        "cancelled",
        clock() + 3,
        "attempt_terminal",
    )
    assert (found.cancellation_reason, found.cancelled_by) == ("stop", "operator_override")
    assert (found.lease_epoch, found.current_lease_id, found.blocking_detail) == (2, None, "")
    assert (tried.attempt_state, tried.outcome, tried.failure_reason) == (
        "ended_cancelled",
        "cancelled",
        "cancelled: stop",
    )
    assert (tried.worker_instance_id, tried.worker_id, tried.lease_epoch) == (None, "w1", 2)
    assert (tried.lease_expires_at_ms, tried.terminal_at_ms) == (None, clock() + 3)
    await refused(engine.complete(handle), ContentionKind.LEASE_CONFLICT)


async def test_cancel_of_one_never_claimed_makes_no_attempt(
    engine: Engine, clock: ManualClock
) -> None:
    for said in ({}, {"delay_until": clock() + 99}):
        ident = await create(engine, **said)
        await engine.issue_claim_grant(grant_args(ident)) if not said else None
        await engine.cancel_execution(cancelling(ident))
        found = await row(engine, ident)
        assert (found.attempt_state, found.lease_epoch, found.delay_until_ms) == (
            "pending_first_attempt",
            0,
            None,
        )
        assert await attempts(engine, ident) == []
        assert await told(engine, ident) == {"LEASE": [], "DONE": ["cancelled"], "OPER": []}
    assert await grant_count(engine) == 0


@pytest.mark.parametrize("how", ["delayed", "revoked", "lost", "requeued"])
async def test_cancel_of_an_interrupted_one_closes_the_attempt_without_a_lease_event(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    if how in ("lost", "requeued"):
        ident, _ = await (lost(engine, clock) if how == "lost" else requeued(engine, clock))
    else:
        ident, handle = await running(engine)
        if how == "revoked":
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident))
        else:
            await engine.delay(handle, clock() + 99)
    leases, epoch = (await told(engine, ident))["LEASE"], (await row(engine, ident)).lease_epoch
    await engine.cancel_execution(cancelling(ident, reason="r"))
    assert (await told(engine, ident)) == {"LEASE": leases, "DONE": ["cancelled"], "OPER": []}
    assert (await row(engine, ident)).lease_epoch == epoch + 1
    tried = await attempt(engine, ident)
    assert (tried.attempt_state, tried.outcome, tried.lease_epoch) == (
        "ended_cancelled",
        "cancelled",
        epoch + 1,
    )


async def test_cancel_between_two_attempts_keeps_the_closed_one(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom")
    await engine.cancel_execution(cancelling(ident))
    assert (await row(engine, ident)).attempt_state == "attempt_terminal"
    assert (await attempt(engine, ident)).outcome == "retry"
    assert (await told(engine, ident))["DONE"] == ["cancelled"]


async def test_cancel_of_an_ended_execution_returns_its_outcome(engine: Engine) -> None:
    ident, _ = await completed(engine)
    before = await dump(engine)
    error = await invalid(
        engine.cancel_execution(cancelling(ident)),
        f"cancel_execution: execution_id={ident}: already terminal in state 'completed'",
    )
    assert error.kind is ValidationKind.INVALID_INPUT and error.already_terminal
    assert await dump(engine) == before
    with pytest.raises(NotFound):
        await engine.cancel_execution(cancelling(new_id()))


@pytest.mark.parametrize("source", ["lease_holder", "flow_cascade", "system_timeout", "anything"])
async def test_only_the_operator_override_bypasses_the_lease(engine: Engine, source: str) -> None:
    ident, handle = await running(engine)
    held = fields(handle)
    await invalid(engine.cancel_execution(cancelling(ident, source=source)), "lease_epoch required")
    wrong = cancelling(ident, source=source, lease_epoch=1, lease_id=uuid4())
    await refused(engine.cancel_execution(wrong), StateKind.STALE_LEASE)
    await engine.cancel_execution(
        cancelling(ident, source=source, lease_epoch=1, lease_id=held.lease_id)
    )
    assert (await row(engine, ident)).cancelled_by == source


async def test_an_unleased_one_needs_no_fence(engine: Engine) -> None:
    ident = await create(engine)
    assert await engine.cancel_execution(cancelling(ident, source="flow_cascade")) == Cancelled(
        ident
    )


# ---- revoke


async def test_revoke_hands_the_attempt_back_to_its_lane(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    clock.advance(5)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident, reason="slow"))
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "READY"
    assert (found.attempt_state, found.interrupt_cause) == ("attempt_interrupted", "lease_revoked")
    assert (found.blocking_detail, found.lease_epoch) == ("lease revoked: slow", 2)
    assert (found.current_lease_id, found.current_worker_id, found.lease_expires_at_ms) == (
        None,
        None,
        None,
    )
    assert (tried.attempt_state, tried.suspended_at_ms, tried.lease_epoch) == (
        "suspended",
        clock(),
        2,
    )
    assert (tried.worker_id, tried.worker_instance_id, tried.lease_expires_at_ms) == (
        "w1",
        None,
        None,
    )
    await refused(engine.complete(handle), ContentionKind.LEASE_CONFLICT)
    await claim(engine)
    assert (await row(engine, ident)).blocking_detail == ""


@pytest.mark.parametrize("form", ["uuid", "text", "composite", ""])
async def test_revoke_accepts_the_lease_by_any_of_its_names(engine: Engine, form: str) -> None:
    ident, handle = await running(engine)
    lease = fields(handle).lease_id
    composite = f"{lease_label(engine)}:{ident.uuid}:0:1"
    name = {"uuid": lease, "text": str(lease), "composite": composite, "": ""}[form]
    assert await engine.revoke_lease(
        RevokeLeaseArgs(execution_id=ident, expected_lease_id=name)
    ) == Revoked(composite, "2")


async def test_revoke_answers_why_there_is_nothing_to_do(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine)
    wrong = RevokeLeaseArgs(execution_id=ident, expected_lease_id=uuid4())
    assert await engine.revoke_lease(wrong) == AlreadySatisfied("lease_id_mismatch")
    stale = RevokeLeaseArgs(
        execution_id=ident, expected_lease_id=f"{lease_label(engine)}:{ident.uuid}:0:9"
    )
    assert await engine.revoke_lease(stale) == AlreadySatisfied("lease_id_mismatch")
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    assert await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident)) == AlreadySatisfied(
        "already_expired"
    )
    ended, _ = await completed(engine, lane_id="b")
    assert await engine.revoke_lease(RevokeLeaseArgs(execution_id=ended)) == AlreadySatisfied(
        "no_active_lease"
    )
    with pytest.raises(NotFound):
        await engine.revoke_lease(RevokeLeaseArgs(execution_id=new_id()))


async def test_a_lease_past_its_end_but_unmarked_is_still_revocable(
    engine: Engine, clock: ManualClock
) -> None:
    ident, _ = await running(engine)
    clock.advance(TTL_MS)
    assert isinstance(await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident)), Revoked)
    assert await state(engine, ident) == "READY"


# ---- priority


@pytest.mark.parametrize(("asked", "kept"), [(42, 42), (-1, 0), (99_999, 9_000), (7, 7)])
async def test_a_priority_is_clamped_and_has_an_event_even_when_unchanged(
    engine: Engine, clock: ManualClock, asked: int, kept: int
) -> None:
    ident = await create(engine, priority=7)
    await engine.change_priority(
        ChangePriorityArgs(execution_id=ident, new_priority=asked, now=clock() + 4)
    )
    found = await row(engine, ident)
    assert (found.priority, found.last_mutation_at) == (kept, clock() + 4)
    (event,) = await outbox(engine, "ff_operator_event", ident)
    assert event["details"] == f'{{"old_priority":7,"new_priority":{kept}}}'
    assert event["occurred_at_ms"] == clock() + 4


async def test_the_priority_of_what_is_not_ready_stays(engine: Engine, clock: ManualClock) -> None:
    blocked = await create(engine, lane_id="x")
    await engine.block_route(blocked, "paused_by_operator")
    found = [
        blocked,
        await create(engine, delay_until=clock() + 9),
        (await running(engine, lane_id="a"))[0],
        (await completed(engine, lane_id="b"))[0],
        (await lost(engine, clock, lane_id="c"))[0],
    ]
    before = await dump(engine)
    for ident in found:
        args = ChangePriorityArgs(execution_id=ident, new_priority=5)
        await refused(engine.change_priority(args), ContentionKind.EXECUTION_NOT_ELIGIBLE)
    assert await dump(engine) == before
    with pytest.raises(NotFound):
        await engine.change_priority(ChangePriorityArgs(execution_id=new_id(), new_priority=5))
