"""Calls that name the lease instead of passing a handle."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, NotFound, StateKind
from flowfabric.model.attempt import Delayed, RetryScheduled, TerminalFailed
from flowfabric.model.lease import (
    Completed,
    CompleteExecutionArgs,
    DelayExecutionArgs,
    FailExecutionArgs,
    UpdateProgressArgs,
)
from flowfabric.testing import ManualClock

from .helpers import (
    TTL_MS,
    attempt,
    create,
    dump,
    fence,
    fields,
    invalid,
    new_id,
    refused,
    row,
    running,
    state,
    told,
    two_stores,
    worker,
)

TYPED: dict[str, Any] = {
    "complete": lambda e, **said: e.complete_execution(CompleteExecutionArgs(**said)),
    "fail": lambda e, **said: e.fail_execution(
        FailExecutionArgs(**said, failure_reason="boom", failure_category="transient")
    ),
    "delay": lambda e, **said: e.delay_execution(
        DelayExecutionArgs(**said, delay_until=1_900_000_000_000)
    ),
}
typed = pytest.mark.parametrize("call", TYPED.values(), ids=TYPED.keys())


@two_stores
@typed
@pytest.mark.parametrize("wrong", ["lease_id", "lease_epoch", "attempt_id", "attempt_index"])
async def test_a_fence_wrong_in_one_part_is_a_stale_lease(
    engine: Engine, call: Any, wrong: str
) -> None:
    ident, handle = await running(engine)
    changed: dict[str, Any] = {"lease_id": uuid4(), "lease_epoch": 2, "attempt_id": uuid4()}
    shown = fence(handle) if wrong == "attempt_index" else fence(handle, **{wrong: changed[wrong]})
    before = await dump(engine)
    index = 1 if wrong == "attempt_index" else 0
    await refused(
        call(engine, execution_id=ident, fence=shown, attempt_index=index), StateKind.STALE_LEASE
    )
    assert await dump(engine) == before
    await call(engine, execution_id=ident, fence=fence(handle))
    assert await state(engine, ident) != "RUNNING"


@typed
async def test_only_an_operator_may_leave_the_fence_out(engine: Engine, call: Any) -> None:
    ident, _ = await running(engine)
    await invalid(call(engine, execution_id=ident, source="lease_holder"), "fence_required")
    await call(engine, execution_id=ident)
    assert await state(engine, ident) != "RUNNING"


@typed
async def test_an_operator_does_not_bypass_lifecycle_or_expiry(
    engine: Engine, clock: ManualClock, call: Any
) -> None:
    waiting = await create(engine, lane_id="other")
    await refused(call(engine, execution_id=waiting), ContentionKind.EXECUTION_NOT_ACTIVE)
    ident, _ = await running(engine)
    clock.advance(TTL_MS)
    await refused(call(engine, execution_id=ident), StateKind.LEASE_EXPIRED)
    assert await state(engine, ident) == "LOST"


@typed
async def test_a_typed_call_on_a_missing_execution_is_not_found(engine: Engine, call: Any) -> None:
    with pytest.raises(NotFound) as caught:
        await call(engine, execution_id=new_id())
    assert caught.value.code == "execution_not_found"


async def test_complete_execution_answers_and_repeats(engine: Engine) -> None:
    ident, handle = await running(engine)
    args = CompleteExecutionArgs(
        execution_id=ident, fence=fence(handle), result_payload=b"r", result_encoding="json"
    )
    assert await engine.complete_execution(args) == Completed(ident, "completed")
    before = await dump(engine)
    assert await engine.complete_execution(args) == Completed(ident, "completed")
    assert await dump(engine) == before
    assert (await row(engine, ident)).result_encoding == "json"


async def test_fail_execution_without_a_policy_is_final_and_repeats(engine: Engine) -> None:
    ident, handle = await running(engine)
    args = FailExecutionArgs(
        execution_id=ident, fence=fence(handle), failure_reason="boom", failure_category="odd"
    )
    assert await engine.fail_execution(args) == TerminalFailed()
    assert await engine.fail_execution(args) == TerminalFailed()
    assert (await attempt(engine, ident)).failure_category == "odd"
    assert (await told(engine, ident))["DONE"] == ["failed"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[1]",
        "{}",
        '{"max_retries": "x"}',
        '{"max_retries":1,"retryable_categories":["b"]}',
    ],
)
async def test_fail_execution_with_an_unusable_policy_is_final(engine: Engine, text: str) -> None:
    ident, _ = await running(engine)
    args = FailExecutionArgs(
        execution_id=ident, failure_reason="boom", failure_category="a", retry_policy_json=text
    )
    assert await engine.fail_execution(args) == TerminalFailed()


async def test_fail_execution_retries_by_the_policy_given(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    args = FailExecutionArgs(
        execution_id=ident,
        fence=fence(handle),
        failure_reason="boom",
        failure_category="a",
        retry_policy_json='{"max_retries":1,"backoff":{"type":"fixed","delay_ms":77}}',
        next_attempt_policy_json='{"model":"small"}',
    )
    scheduled = RetryScheduled(clock() + 77, 1)
    assert await engine.fail_execution(args) == scheduled
    assert await engine.fail_execution(args) == scheduled
    clock.advance(77)
    await engine.promote_delayed(ident)
    assert await engine.claim("default", (), worker()) is not None
    assert (await attempt(engine, ident)).policy == '{"model":"small"}'


async def test_delay_execution_answers_delayed(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    args = DelayExecutionArgs(execution_id=ident, fence=fence(handle), delay_until=clock() + 5)
    assert await engine.delay_execution(args) == Delayed(ident, "delayed")


async def test_update_progress_checks_the_state_first_and_then_the_lease(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    held = fields(handle)

    def args(**said: Any) -> UpdateProgressArgs:
        base = {
            "lease_id": held.lease_id,
            "lease_epoch": 1,
            "attempt_id": held.attempt_id,
            "progress_pct": 50,
        }
        return UpdateProgressArgs(execution_id=ident, **{**base, **said})

    await engine.update_progress(args())
    assert (await row(engine, ident)).progress_pct == 50
    await refused(engine.update_progress(args(lease_epoch=2)), StateKind.STALE_LEASE)
    await refused(engine.update_progress(args(lease_id=uuid4())), StateKind.STALE_LEASE)
    clock.advance(TTL_MS)
    await refused(engine.update_progress(args(lease_epoch=2)), StateKind.LEASE_EXPIRED)
    assert await state(engine, ident) == "RUNNING", "progress leaves no mark"
