"""Claims under quotas: the limits hold, the order is kept, and full quotas hide no other work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, TransportError
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.testing import ManualClock

from .helpers import TTL_MS, create, dump, fields, parked, row, state, worker
from .limit_helpers import (
    WINDOW_MS,
    budget,
    held,
    ids,
    quota,
    quota_lane,
    several,
    sound,
    take,
    window,
)

GPU = {"routing_requirements": {"required_capabilities": ["gpu"]}}


async def test_no_more_than_the_cap_run_at_once(engine: Engine) -> None:
    await quota_lane(engine, cap=2)
    made = await several(engine, 4)
    first = await take(engine, 10)
    assert ids(first) == made[:2]
    assert await take(engine, 10) == []
    await engine.complete(first[0])
    assert ids(await take(engine, 10)) == [made[2]]
    await sound(engine)


async def test_of_fifty_claims_at_once_exactly_the_cap_are_admitted(engine: Engine) -> None:
    await quota_lane(engine, cap=7)
    await several(engine, 50)
    handles = await asyncio.gather(*(engine.claim("default", (), worker(n)) for n in range(50)))
    assert sum(handle is not None for handle in handles) == 7
    assert await held(engine) == 7
    await sound(engine)


@pytest.mark.parametrize(
    "ending",
    ["complete", "fail", "fail for good", "delay", "cancel", "revoke", "cancelled", "expiry"],
)
@pytest.mark.meets("quota", "retry")
@pytest.mark.meets("quota", "delay")
@pytest.mark.meets("quota", "cancel")
@pytest.mark.meets("quota", "revoke")
@pytest.mark.meets("quota", "reclaim")
async def test_every_end_of_a_lease_frees_its_slot(
    engine: Engine, clock: ManualClock, ending: str
) -> None:
    await quota_lane(engine, cap=1)
    first, second = await several(engine, 2, priority=0)
    (handle,) = await take(engine)
    assert ids([handle]) == [first] and await take(engine) == []
    match ending:
        case "complete":
            await engine.complete(handle)
        case "fail":
            await engine.fail(handle, "x")
        case "fail for good":
            await engine.fail(handle, "x", FailureClass.PERMANENT)
        case "delay":
            await engine.delay(handle, clock.now_ms + 10_000)
        case "cancel":
            await engine.cancel(handle)
        case "revoke":
            await engine.revoke_lease(RevokeLeaseArgs(execution_id=first))
        case "cancelled":
            await engine.cancel_execution(CancelExecutionArgs(execution_id=first))
        case _:
            clock.advance(TTL_MS)
            assert await take(engine) == []
            await engine.mark_lease_expired_if_due(first)
    again = ids(await take(engine))
    assert again == ([first] if ending == "revoke" else [second])
    await sound(engine)


async def test_the_window_slides_to_the_millisecond(engine: Engine, clock: ManualClock) -> None:
    await quota_lane(engine, rate=2)
    await several(engine, 5)
    begun = clock.now_ms
    await take(engine)
    clock.advance(10_000)
    await take(engine)
    assert await take(engine) == []
    clock.advance(WINDOW_MS - 10_000 - 1)
    assert await take(engine) == [], "the first is one millisecond short of a window old"
    clock.advance(1)
    assert len(await take(engine, 5)) == 1
    clock.advance(9_999)
    assert await take(engine) == []
    clock.advance(1)
    assert len(await take(engine, 5)) == 1
    assert await window(engine) == [
        begun,
        begun + 10_000,
        begun + WINDOW_MS,
        begun + WINDOW_MS + 10_000,
    ]
    await sound(engine)


async def test_a_completion_frees_the_slot_but_not_the_window(
    engine: Engine, clock: ManualClock
) -> None:
    await quota_lane(engine, cap=5, rate=1)
    await several(engine, 2)
    (handle,) = await take(engine, 5)
    await engine.complete(handle)
    assert await take(engine) == []
    clock.advance(WINDOW_MS)
    assert len(await take(engine)) == 1


@pytest.mark.meets("quota", "retry")
async def test_a_retry_is_admitted_again(engine: Engine, clock: ManualClock) -> None:
    await quota_lane(engine, cap=1, rate=2)
    ident = await create(engine)
    (handle,) = await take(engine)
    clock.advance(1)
    await engine.fail(handle, "again")
    clock.advance(30_000)
    await engine.promote_delayed(ident)
    assert ids(await take(engine)) == [ident]
    assert len(await window(engine)) == 2


async def test_priority_order_spans_the_queues_of_a_lane(engine: Engine) -> None:
    one, two = await quota(engine, cap=10), await quota(engine, cap=10)
    made = {
        name: await create(
            engine,
            priority=priority,
            policy=None if limit is None else {"quota_policy_id": str(limit)},
        )
        for name, priority, limit in (
            ("c", 5, None),
            ("a", 9, one),
            ("e", 1, one),
            ("b", 7, two),
            ("d", 3, two),
        )
    }
    assert ids(await take(engine, 10)) == [made[name] for name in "abcde"]


async def test_a_full_quota_does_not_hide_other_work(engine: Engine) -> None:
    full, roomy = await quota(engine, cap=1), await quota(engine, cap=5)
    await several(engine, 30, priority=9, policy={"quota_policy_id": str(full)})
    behind = await create(engine, priority=5, policy={"quota_policy_id": str(roomy)})
    plain = await create(engine)
    assert len(await take(engine, 40)) == 3
    assert await state(engine, behind) == await state(engine, plain) == "RUNNING"


async def test_unrunnable_heads_do_not_hide_others_behind_their_gate(engine: Engine) -> None:
    await quota_lane(engine, cap=50)
    await several(engine, 40, priority=9, policy=GPU)
    able = await create(engine)
    assert ids(await take(engine, 2)) == [able]
    assert len(await take(engine, 5, capabilities=("gpu", "cpu"))) == 5


async def test_concurrent_claims_get_work_that_fits_their_capabilities(engine: Engine) -> None:
    await quota_lane(engine, cap=6)
    for n in range(12):
        await create(engine, policy=GPU if n % 2 else None)
    offers: list[tuple[str, ...]] = [("gpu",), (), ("gpu",), (), ("gpu",), ()]
    found = await asyncio.gather(
        *(engine.claim_many("default", o, worker(n), 2) for n, o in enumerate(offers))
    )
    assert sum(map(len, found)) == 6
    for offer, works in zip(offers, found, strict=True):
        for work in works:
            assert set((await row(engine, work.execution_id)).required_capabilities) <= set(offer)


async def test_a_reserved_execution_goes_only_to_its_worker(engine: Engine) -> None:
    await quota_lane(engine, cap=3)
    reserved = await create(engine, priority=9)
    other = await create(engine)
    granted = await engine.claim_for_worker("default", "w2", "w2-i1", (), 10_000)
    assert getattr(granted, "execution_id", None) == reserved
    found = await asyncio.gather(*(engine.claim("default", (), worker(n)) for n in (1, 2)))
    assert [fields(h).execution_id if h else None for h in found] == [other, reserved]


async def test_a_granted_execution_is_claimed_although_the_quota_is_full(
    engine: Engine,
) -> None:
    await quota_lane(engine, cap=1, rate=1)
    reserved, _ = await several(engine, 2)
    await engine.claim_for_worker("default", "w2", "w2-i1", (), 10_000)
    assert await take(engine) == []
    assert ids(await take(engine, 5, number=2)) == [reserved]
    assert len(await window(engine)) == 1
    await sound(engine)


async def test_hundreds_of_quotas_on_one_lane_are_all_served(engine: Engine) -> None:
    limits = [await quota(engine, cap=1) for _ in range(150)]
    made = set()
    for limit in limits:
        made |= set(await several(engine, 2, policy={"quota_policy_id": str(limit)}))
    taken: list[Any] = []
    while handles := await take(engine, 40):
        taken += handles
    assert len(taken) == 150
    assert len(await engine.scan_eligible_executions("default", limit=1_000)) == 150
    await sound(engine)


async def test_several_lanes_share_one_quota(engine: Engine) -> None:
    shared = await quota(engine, cap=5)
    for lane in ("a", "b", "c"):
        await engine.attach_limit("quota", shared, "lane", lane)
        await several(engine, 4, lane_id=lane)
    found = await asyncio.gather(
        *(engine.claim_many(lane, (), worker(n), 4) for n, lane in enumerate("abc"))
    )
    assert sum(map(len, found)) == 5
    await sound(engine)


async def test_a_paused_lane_claims_and_counts_nothing(engine: Engine) -> None:
    await quota_lane(engine, cap=5, rate=5)
    await several(engine, 2)
    await engine.pause_lane("default")
    assert await take(engine, 5) == [] and await window(engine) == []
    await engine.resume_lane("default")
    assert len(await take(engine, 5)) == 2


async def test_an_unknown_quota_is_refused_at_creation(engine: Engine) -> None:
    """It would limit nothing, and a mistyped id would not show."""
    before = await dump(engine)
    with pytest.raises(
        NotFound, match="quota_policy 00000000-0000-4000-8000-000000000009 not found"
    ):
        await create(engine, policy={"quota_policy_id": "00000000-0000-4000-8000-000000000009"})
    assert await dump(engine) == before


async def test_a_closed_quota_admits_nothing_until_its_time(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await quota_lane(engine)
    await several(engine, 3)
    await engine.close_quota(ident, clock.now_ms + 1_000)
    assert await take(engine) == []
    clock.advance(999)
    assert await take(engine) == []
    clock.advance(1)
    assert len(await take(engine)) == 1
    await engine.close_quota(ident, clock.now_ms + 1_000)
    assert await take(engine) == []
    await engine.open_quota(ident)
    assert len(await take(engine)) == 1


async def test_a_spent_budget_blocks_its_executions_and_hides_no_others(engine: Engine) -> None:
    spent, left = await budget(engine, used=10), await budget(engine, used=9)
    blocked = await several(engine, 6, priority=9, policy={"budget_ids": [str(spent), str(left)]})
    able = await create(engine, policy={"budget_ids": [str(left)]})
    plain = await create(engine)
    assert set(ids(await take(engine, 3))) == {able, plain}
    for ident in blocked:
        found = await row(engine, ident)
        assert (found.public_state, found.blocking_reason) == ("rate_limited", "waiting_for_budget")
        assert (found.blocked_on, found.blocking_detail) == (
            f"budget:{spent}",
            f"budget {spent}: tokens 10/10",
        )
    await sound(engine)


async def test_a_storage_error_during_the_read_denies(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quota_lane(engine, cap=5)
    await several(engine, 2)
    assert len(await take(engine)) == 1
    before = await dump(engine)

    def gone(reads: Any) -> Any:
        raise TransportError("test", "gone")

    with monkeypatch.context() as patched:
        patched.setattr(engine.store, "load", gone)
        with pytest.raises(TransportError):
            await take(engine)
    assert await dump(engine) == before
    assert len(await take(engine)) == 1


async def test_without_limits_claims_and_creates_read_no_limits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is attached is read once a second at the most, so one of three tries in a row meets
    nothing but its own work.
    """
    asked: list[str] = []
    for name in ("load", "commit", "commit_together", "sweep"):
        monkeypatch.setattr(engine.store, name, _noted(asked, name, getattr(engine.store, name)))
    tries: list[list[str]] = []
    for _ in range(4):
        asked.clear()
        await create(engine)
        assert len(await take(engine)) == 1
        tries.append(list(asked))
    assert ["commit", "sweep"] in tries


def _noted(asked: list[str], name: str, call: Any) -> Any:
    def noted(*args: Any) -> Any:
        asked.append(name)
        return call(*args)

    return noted


@pytest.mark.parametrize("how", ["complete", "release", "open", "window", "gate"])
async def test_a_waiting_claim_wakes_when_a_slot_is_free(
    engine: Engine, clock: ManualClock, how: str
) -> None:
    ident = await quota_lane(engine, cap=1, rate=0 if how != "window" else 1, window_s=1)
    first, second = await several(engine, 2)
    handle = None
    if how == "open":
        await engine.close_quota(ident, clock.now_ms + 60_000)
    elif how == "gate":
        waiting = asyncio.create_task(engine.claim("other", (), worker(2, max_wait_ms=20_000)))
        await parked(engine, "gates", "other")
        made = await create(engine, lane_id="other", policy={"quota_policy_id": str(ident)})
        async with asyncio.timeout(3):
            found = await waiting
        assert found is not None and fields(found).execution_id == made
        return
    else:
        (handle,) = await take(engine)
    waiting = asyncio.create_task(engine.claim("default", (), worker(2, max_wait_ms=20_000)))
    await parked(engine, "quotas")
    async with asyncio.timeout(4):
        if how == "open":
            await engine.open_quota(ident)
        elif handle is not None:
            clock.advance(1_000 if how == "window" else 0)
            await engine.complete(handle)
        found = await waiting
    assert found is not None and fields(found).execution_id == (first if how == "open" else second)
