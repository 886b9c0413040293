"""Quota policies and admission by hand."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Blocked
from flowfabric.model.quota import (
    Admitted,
    AlreadyAdmitted,
    BlockForAdmissionArgs,
    CheckAdmissionArgs,
    ConcurrencyExceeded,
    CreateQuotaPolicyArgs,
    QuotaLimits,
    QuotaPolicyAlreadySatisfied,
    QuotaPolicyCreated,
    RateExceeded,
    Rejected,
    Released,
)
from flowfabric.plan import Arg, Cond, Form, Update
from flowfabric.testing import ManualClock

from .helpers import create, dump, grant_args, new_id, row, running, state
from .limit_helpers import WINDOW_MS, quota, quota_lane, several, table, take, window

_SPOIL = Form(
    "t_spoil_quota",
    Update(
        "ff_quota_policy", (Cond("quota_policy_id", "=", Arg("q")),), {"active_concurrency_cap": -1}
    ),
)


async def check(engine: Engine, q: UUID, ident: ExecutionId | None = None, **said: Any) -> Any:
    return await engine.check_admission(
        CheckAdmissionArgs(quota_policy_id=q, execution_id=ident or new_id(), **said)
    )


async def test_the_first_definition_stands(engine: Engine) -> None:
    ident = uuid4()
    args = CreateQuotaPolicyArgs(
        quota_policy_id=ident,
        window_seconds=5,
        max_requests_per_window=6,
        max_concurrent=7,
        jitter_ms=8,
    )
    assert await engine.create_quota_policy(args) == QuotaPolicyCreated(ident)
    before = await dump(engine)
    again = CreateQuotaPolicyArgs(quota_policy_id=str(ident), max_concurrent=1)  # type: ignore[arg-type]
    assert await engine.create_quota_policy(again) == QuotaPolicyAlreadySatisfied(ident)
    assert await dump(engine) == before
    found = await engine.read_quota_policy_limits(ident)
    assert found == QuotaLimits(6, 5, 7, 8) and not found.unlimited
    assert await engine.read_quota_policy_limits(uuid4()) is None


async def test_a_stored_limit_that_makes_no_sense_is_not_taken_for_none(engine: Engine) -> None:
    ident = await quota(engine, cap=1)
    await engine.store.commit(_SPOIL(q=ident))
    with pytest.raises(ValidationError) as caught:
        await engine.read_quota_policy_limits(ident)
    assert caught.value.kind is ValidationKind.CORRUPTION


async def test_admissions_up_to_the_rate_then_the_exact_time_to_wait(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await quota(engine)
    for _ in range(3):
        assert await check(engine, ident, rate_limit=3) == Admitted()
        clock.advance(1_000)
    assert await check(engine, ident, rate_limit=3) == RateExceeded(WINDOW_MS - 3_000)
    clock.advance(WINDOW_MS - 3_001)
    assert await check(engine, ident, rate_limit=3) == RateExceeded(1)
    clock.advance(1)
    assert await check(engine, ident, rate_limit=3) == Admitted()


async def test_the_wait_is_spread_by_the_jitter(engine: Engine) -> None:
    ident = await quota(engine)
    await check(engine, ident, rate_limit=1)
    waits = [
        (await check(engine, ident, rate_limit=1, jitter_ms=100)).retry_after_ms for _ in range(20)
    ]
    assert all(WINDOW_MS <= wait <= WINDOW_MS + 100 for wait in waits) and len(set(waits)) > 1


async def test_the_rate_is_asked_before_the_cap_and_both_may_be_off(engine: Engine) -> None:
    ident = await quota(engine)
    assert await check(engine, ident) == Admitted()
    assert await check(engine, ident, rate_limit=1, concurrency_cap=1) == RateExceeded(WINDOW_MS)
    assert await check(engine, ident, rate_limit=2, concurrency_cap=1) == ConcurrencyExceeded()
    assert await check(engine, ident, rate_limit=2, concurrency_cap=2) == Admitted()
    assert len(await table(engine, "ff_quota_admitted")) == len(await window(engine)) == 2


async def test_each_dimension_has_a_window_and_a_window_of_nothing_is_a_minute(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await quota(engine)
    assert await check(engine, ident, rate_limit=1, dimension="a") == Admitted()
    assert await check(engine, ident, rate_limit=1, dimension="b") == Admitted()
    assert await check(engine, ident, rate_limit=1) == Admitted()
    assert await check(engine, ident, rate_limit=1, dimension="default") == RateExceeded(WINDOW_MS)
    assert await check(
        engine, ident, rate_limit=1, dimension="a", window_seconds=0
    ) == RateExceeded(WINDOW_MS)


async def test_who_holds_a_place_holds_it_once_and_a_second_release_is_nothing(
    engine: Engine,
) -> None:
    ident, own, other = await quota(engine), new_id(), new_id()
    assert await check(engine, ident, own, concurrency_cap=1) == Admitted()
    before = await dump(engine)
    assert await check(engine, ident, own, concurrency_cap=1) == AlreadyAdmitted()
    assert await check(engine, ident, other, concurrency_cap=1) == ConcurrencyExceeded()
    assert await engine.release_admission(ident, other) == Released(), (
        "it held nothing, and takes nothing from anybody"
    )
    assert await dump(engine) == before
    for _ in range(2):
        assert await engine.release_admission(ident, own) == Released()
    assert await check(engine, ident, other, concurrency_cap=1) == Admitted()
    assert await check(engine, ident, own, concurrency_cap=1) == ConcurrencyExceeded()


async def test_an_undefined_policy_is_counted(engine: Engine) -> None:
    ident = uuid4()
    assert await check(engine, ident, concurrency_cap=1) == Admitted()
    assert await check(engine, ident, concurrency_cap=1) == ConcurrencyExceeded()
    assert await table(engine, "ff_quota_policy") == []


async def test_those_that_run_count_as_well(engine: Engine) -> None:
    ident = await quota_lane(engine, cap=3)
    own, _ = await running(engine)
    assert await check(engine, ident, own, concurrency_cap=1) == AlreadyAdmitted()
    assert await check(engine, ident, concurrency_cap=1) == ConcurrencyExceeded()
    assert await check(engine, ident, concurrency_cap=2) == Admitted()
    await several(engine, 5)
    assert len(await take(engine, 5)) == 1, "one runs, one holds a place by hand"


async def test_an_admission_by_hand_is_the_admission_of_its_grant(engine: Engine) -> None:
    ident = await quota_lane(engine, cap=1, rate=1)
    own = await create(engine)
    assert await check(engine, ident, own, rate_limit=1, concurrency_cap=1) == Admitted()
    await engine.issue_claim_grant(grant_args(own))
    assert len(await window(engine)) == 1


async def test_of_fifty_at_once_exactly_the_cap_are_admitted(engine: Engine) -> None:
    ident = await quota(engine)
    said = await asyncio.gather(*(check(engine, ident, concurrency_cap=7) for _ in range(50)))
    assert said.count(Admitted()) == 7 and said.count(ConcurrencyExceeded()) == 43
    assert len(await table(engine, "ff_quota_admitted")) == 7


async def test_closing_what_is_not_there(engine: Engine) -> None:
    with pytest.raises(NotFound, match="quota_policy"):
        await engine.close_quota(uuid4(), 5)
    with pytest.raises(NotFound):
        await engine.open_quota(uuid4())


async def test_holding_back_for_a_limit(engine: Engine, clock: ManualClock) -> None:
    ident = await quota_lane(engine, cap=1)
    own = await create(engine)
    args = BlockForAdmissionArgs(
        execution_id=own, reason="waiting_for_quota", reason_detail="d", lane_id="default"
    )
    assert await engine.block_execution_for_admission(args) == Blocked(own, "waiting_for_quota")
    found = await row(engine, own)
    assert (found.blocked_on, found.public_state, found.blocking_detail) == (
        f"quota:{ident}",
        "rate_limited",
        "d",
    )
    await engine.unblock_execution(own, "waiting_for_quota")
    assert (await row(engine, own)).blocked_on is None
    later = await create(engine, delay_until=clock.now_ms + 5_000)
    budget = BlockForAdmissionArgs(
        execution_id=later, reason="waiting_for_budget", blocked_on=f"budget:{ident}"
    )
    assert isinstance(await engine.block_execution_for_admission(budget), Rejected)
    assert await state(engine, later) == "DELAYED"


async def test_a_window_read_in_part_is_not_taken_for_the_whole(
    engine: Engine, clock: ManualClock
) -> None:
    """A caller with looser limits of its own can put more into a window than a claim reads at
    once.
    """
    ident = await quota_lane(engine, rate=1)
    await several(engine, 1)
    for _ in range(3):
        assert await check(engine, ident) == Admitted()
        clock.advance(1_000)
    assert await take(engine) == []
    clock.advance(WINDOW_MS - 2_000)
    assert await take(engine) == [], "the last of the three still counts"
    clock.advance(1_000)
    assert len(await take(engine)) == 1
