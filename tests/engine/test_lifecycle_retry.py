"""Whether a failure is tried again, when, and what is written about it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.connect import memory_engine
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.model.attempt import FailureClass, FailureReason, RetryScheduled, TerminalFailed
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.testing import ManualClock

from .helpers import LANE, attempt, attempts, claim, row, running, state, told, two_stores, worker


def policy(
    max_retries: int = 3, categories: tuple[str, ...] = (), **backoff: Any
) -> ExecutionPolicy:
    return ExecutionPolicy(
        retry_policy=RetryPolicy(
            max_retries=max_retries, backoff=backoff, retryable_categories=categories
        )
    )


@two_stores
@pytest.mark.parametrize(
    ("failure", "retried"),
    [
        (FailureClass.TRANSIENT, True),
        (FailureClass.INFRA_CRASH, True),
        (FailureClass.PERMANENT, False),
        (FailureClass.TIMEOUT, False),
        (FailureClass.CANCELLED, False),
    ],
)
@pytest.mark.parametrize("said", [None, policy()], ids=["no policy", "policy"])
async def test_the_class_decides_first(
    engine: Engine, failure: FailureClass, retried: bool, said: ExecutionPolicy | None
) -> None:
    ident, handle = await running(engine, policy=said)
    outcome = await engine.fail(handle, "boom", failure)
    assert isinstance(outcome, RetryScheduled) is retried
    assert (await attempt(engine, ident)).failure_category == failure.value


@two_stores
@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        ({}, [1_000, 2_000, 4_000]),
        ({"type": "fixed", "delay_ms": 70}, [70, 70, 70]),
        ({"type": "fixed"}, [1_000, 1_000, 1_000]),
        (
            {"type": "exponential", "initial_delay_ms": 10, "multiplier": 3.0, "max_delay_ms": 50},
            [10, 30, 50],
        ),
        ({"type": "exponential", "initial_delay_ms": 10, "multiplier": 1.5}, [10, 15, 22]),
        ({"type": "unheard of"}, [1_000, 1_000, 1_000]),
        ({"delay_ms": 5}, [1_000, 1_000, 1_000]),
    ],
)
async def test_the_backoff_follows_the_policy(
    engine: Engine, clock: ManualClock, backoff: dict[str, Any], delays: list[int]
) -> None:
    ident, handle = await running(engine, policy=policy(**backoff))
    seen = []
    for _ in delays:
        outcome = await engine.fail(handle, "boom")
        assert isinstance(outcome, RetryScheduled)
        seen.append(outcome.delay_until - clock())
        clock.now_ms = outcome.delay_until
        await engine.promote_delayed(ident)
        handle = await claim(engine)
    assert seen == delays
    assert await engine.fail(handle, "boom") == TerminalFailed()


async def test_jitter_shortens_the_delay_by_at_most_half(
    engine: Engine, clock: ManualClock
) -> None:
    seen = set()
    for _ in range(20):
        said = policy(type="exponential", initial_delay_ms=1_000, jitter=True)
        _, handle = await running(engine, policy=said)
        outcome = await engine.fail(handle, "boom")
        assert isinstance(outcome, RetryScheduled)
        seen.add(outcome.delay_until - clock())
    assert all(500 <= delay < 1_000 for delay in seen)
    assert len(seen) > 5


@pytest.mark.parametrize(("most", "tries"), [(0, 1), (1, 2), (3, 4)])
async def test_max_retries_bounds_the_attempts(engine: Engine, most: int, tries: int) -> None:
    ident, handle = await running(engine, policy=policy(most, type="fixed", delay_ms=0))
    for _ in range(tries - 1):
        assert isinstance(await engine.fail(handle, "boom"), RetryScheduled)
        handle = await claim(engine)
    assert await engine.fail(handle, "last") == TerminalFailed()
    found = await attempts(engine, ident)
    assert [a.attempt_index for a in found] == list(range(tries))
    assert [a.outcome for a in found] == ["retry"] * most + ["failed"]
    assert await state(engine, ident) == "ENDED(failed)"
    assert (await row(engine, ident)).retry_count == most


@pytest.mark.parametrize(
    ("reason", "retried"),
    [
        (FailureReason("x"), False),
        (FailureReason("x", b"net"), True),
        (FailureReason("x", b"\xff"), False),
        ("plain", False),
    ],
)
async def test_only_the_named_categories_are_retried(
    engine: Engine, reason: Any, retried: bool
) -> None:
    _, handle = await running(engine, policy=policy(3, ("net",)))
    assert isinstance(await engine.fail(handle, reason), RetryScheduled) is retried


async def test_what_is_written_when_a_retry_waits(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine, policy=policy(3, type="fixed", delay_ms=500))
    clock.advance(5)
    at = clock() + 500
    assert await engine.fail(handle, "boom") == RetryScheduled(at, 1)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert await state(engine, ident) == "DELAYED"
    assert (found.blocking_reason, found.delay_until_ms) == ("waiting_for_retry_backoff", at)
    assert found.blocking_detail == f"retry backoff until {at} (attempt 0 failed: boom)"
    assert (
        found.retry_count,
        found.pending_retry_reason,
        found.pending_previous_attempt_index,
    ) == (1, "boom", 0)
    assert (found.current_attempt_id, found.attempt_state) == (None, "pending_retry_attempt")
    assert (found.failure_reason, found.last_failure_message) == ("boom", "boom")
    assert (found.attempt_index, found.total_attempt_count, found.lease_epoch) == (0, 1, 1)
    assert (found.current_lease_id, found.terminal_at_ms) == (None, None)
    assert (tried.attempt_state, tried.outcome, tried.failure_reason) == (
        "ended_failure",
        "retry",
        "boom",
    )
    assert (tried.terminal_at_ms, tried.failure_category) == (clock(), "transient")
    assert await told(engine, ident) == {"LEASE": ["acquired", "revoked"], "DONE": [], "OPER": []}


async def test_what_is_written_when_a_retry_goes_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine, policy=policy(1, type="fixed", delay_ms=0))
    assert await engine.fail(handle, "boom") == RetryScheduled(clock(), 1)
    found = await row(engine, ident)
    assert await state(engine, ident) == "READY"
    assert (found.attempt_state, found.blocking_detail, found.retry_count) == (
        "pending_retry_attempt",
        "",
        1,
    )
    await claim(engine)


async def test_what_is_written_when_it_is_over(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom", FailureClass.PERMANENT)
    found, tried = await row(engine, ident), await attempt(engine, ident)
    assert (found.public_state, found.attempt_state, found.terminal_at_ms) == (
        "failed",
        "attempt_terminal",
        clock(),
    )
    assert (found.failure_reason, found.last_failure_message) == ("boom", "boom")
    assert (found.closing_epoch, found.closing_attempt_index, found.lease_epoch) == (1, 0, 1)
    assert (tried.attempt_state, tried.outcome) == ("ended_failure", "failed")
    assert await told(engine, ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["failed"],
        "OPER": [],
    }


async def test_the_deployments_default_policy_replaces_the_engines(clock: ManualClock) -> None:
    settings = Settings(
        default_retry_policy=RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 9})
    )
    engine = memory_engine(clock, settings)
    ident, handle = await running(engine)
    assert await engine.fail(handle, "boom") == RetryScheduled(clock() + 9, 1)
    clock.advance(9)
    await engine.promote_delayed(ident)
    assert await engine.fail(await claim(engine), "boom") == TerminalFailed()


async def test_a_delayed_retry_is_not_claimable_before_its_time(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom")
    clock.advance(999)
    assert await engine.promote_delayed(ident) == "not_yet_due"
    assert await engine.claim(LANE, (), worker()) is None
    clock.advance(1)
    assert await engine.promote_delayed(ident) == "promoted"
    await claim(engine)
