"""Each loop, on a manual clock: due items once, nothing early, filtered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.connect import memory_engine
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.limits import LimitReleaser
from flowfabric.loops.loop import BATCH, MAX_FAILURES, SKIPPED_CYCLES, Loop
from flowfabric.loops.supervisor import Supervisor, all_loops
from flowfabric.loops.timers import AttemptTimeout, DelayedPromoter, ExecutionDeadline, LeaseExpiry
from flowfabric.loops.upkeep import RetentionTrimmer, RouteReleaser, WorkerReaper
from flowfabric.model.event import ScannerFilter
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.model.quota import BlockForAdmissionArgs
from flowfabric.testing import ManualClock
from tests.engine.helpers import (
    GRACE_MS,
    LANE,
    TTL_MS,
    completed,
    create,
    dump,
    grant_args,
    grant_count,
    registration,
    running,
    state,
    stored,
    two_stores,
)
from tests.engine.limit_helpers import quota_lane
from tests.patience import patient

DAY_MS = 86_400_000
GPU: dict[str, Any] = {"routing_requirements": {"required_capabilities": ["gpu"]}}


async def delayed(engine: Engine, clock: ManualClock, **said: Any) -> ExecutionId:
    return await create(engine, delay_until=clock() + 100, **said)


async def leased(engine: Engine, clock: ManualClock, **said: Any) -> ExecutionId:
    return (await running(engine, lane_id=f"l{len((await dump(engine))['ff_exec_core'])}", **said))[
        0
    ]


async def limited(engine: Engine, clock: ManualClock, **said: Any) -> ExecutionId:
    return await leased(
        engine,
        clock,
        policy=ExecutionPolicy(
            timeout_policy=TimeoutPolicy(attempt_timeout_ms=100),
            retry_policy=RetryPolicy(max_retries=0, backoff={}),
        ),
        **said,
    )


async def deadlined(engine: Engine, clock: ManualClock, **said: Any) -> ExecutionId:
    return await create(engine, execution_deadline_at=clock() + 100, **said)


async def ended(engine: Engine, clock: ManualClock, **said: Any) -> ExecutionId:
    return (await completed(engine, **said))[0]


async def shown(engine: Engine, ident: ExecutionId) -> str:
    return "gone" if await stored(engine, ident) is None else await state(engine, ident)


Make = Callable[..., Awaitable[ExecutionId]]
# the loop, what it works on, after how long that is due, and what it is before and after
DUE: dict[str, tuple[type[Any], Make, int, str, str]] = {
    "delayed_promoter": (DelayedPromoter, delayed, 100, "DELAYED", "READY"),
    "lease_expiry": (LeaseExpiry, leased, TTL_MS, "RUNNING", "LOST"),
    "attempt_timeout": (AttemptTimeout, limited, 100, "RUNNING", "ENDED(expired)"),
    "execution_deadline": (ExecutionDeadline, deadlined, 100, "READY", "ENDED(expired)"),
    "retention_trimmer": (RetentionTrimmer, ended, DAY_MS, "ENDED(success)", "gone"),
}
due = pytest.mark.parametrize(
    ("kind", "make", "after_ms", "before", "after"), DUE.values(), ids=DUE.keys()
)


@due
async def test_a_loop_processes_due_items_once(
    engine: Engine,
    clock: ManualClock,
    kind: Any,
    make: Make,
    after_ms: int,
    before: str,
    after: str,
) -> None:
    loop: Loop = kind(LoopSettings())
    ident = await make(engine, clock)
    clock.advance(after_ms - 1)
    untouched = await dump(engine)
    assert await loop.run(engine) == 0
    assert await dump(engine) == untouched
    assert await shown(engine, ident) == before
    clock.advance(1)
    assert await loop.run(engine) == 1
    assert await shown(engine, ident) == after
    settled = await dump(engine)
    assert await loop.run(engine) == 0
    assert await dump(engine) == settled


@due
async def test_next_due_is_the_first_due_time(
    engine: Engine,
    clock: ManualClock,
    kind: Any,
    make: Make,
    after_ms: int,
    before: str,
    after: str,
) -> None:
    loop: Loop = kind(LoopSettings())
    assert await loop.next_due(engine) is None
    await make(engine, clock)
    expected = None if kind is RetentionTrimmer else clock() + after_ms
    assert await loop.next_due(engine) == expected


@two_stores
@due
@pytest.mark.parametrize(
    "wanted",
    [
        ScannerFilter(namespace="mine"),
        ScannerFilter(instance_tag=("cairn.instance_id", "blue")),
        ScannerFilter(instance_tag=("app.x", "1")),
    ],
    ids=["namespace", "instance", "tag"],
)
async def test_a_loop_applies_its_filter(
    engine: Engine,
    clock: ManualClock,
    wanted: ScannerFilter,
    kind: Any,
    make: Make,
    after_ms: int,
    before: str,
    after: str,
) -> None:
    loop: Loop = kind(LoopSettings(wanted=wanted))
    mine = await make(
        engine, clock, namespace="mine", tags={"cairn.instance_id": "blue", "app.x": "1"}
    )
    other = await make(engine, clock, namespace="other", tags={"cairn.instance_id": "red"})
    clock.advance(after_ms)
    assert await loop.run(engine) == 1
    assert (await shown(engine, mine), await shown(engine, other)) == (after, before)


@due
async def test_a_loop_works_through_more_than_one_batch(
    clock: ManualClock, kind: Any, make: Make, after_ms: int, before: str, after: str
) -> None:
    engine = memory_engine(clock)
    idents = [await make(engine, clock) for _ in range(BATCH + 5)]
    clock.advance(after_ms)
    assert await kind(LoopSettings()).run(engine) == BATCH + 5
    assert {await shown(engine, i) for i in idents} == {after}


# ---- what each loop does besides


async def test_lease_expiry_requeues_after_the_grace_and_drops_old_grants(
    engine: Engine, clock: ManualClock
) -> None:
    loop = LeaseExpiry(LoopSettings())
    ident, _ = await running(engine)
    await engine.issue_claim_grant(grant_args(await create(engine, lane_id="x"), 1, 100))
    clock.advance(TTL_MS)
    assert await loop.run(engine) == 1
    assert await grant_count(engine) == 0
    clock.advance(GRACE_MS - 1)
    assert await loop.run(engine) == 0
    assert await loop.next_due(engine) == clock() + 1
    clock.advance(1)
    assert await loop.run(engine) == 1
    assert await state(engine, ident) == "READY"
    assert await loop.next_due(engine) is None


@pytest.mark.parametrize("why", ["marked late", "granted"])
async def test_executions_left_lost_are_not_counted(
    engine: Engine, clock: ManualClock, why: str
) -> None:
    """Else a clock that is moved by hand would never find the loop at rest."""
    loop = LeaseExpiry(LoopSettings())
    ident, _ = await running(engine)
    clock.advance(TTL_MS + (1_000 if why == "marked late" else 0))
    assert await loop.run(engine) == 1
    if why == "granted":
        await engine.issue_reclaim_grant(grant_args(ident, 2, 10 * GRACE_MS))
    clock.advance(GRACE_MS - (1_000 if why == "marked late" else 0))
    assert (await loop.next_due(engine), await loop.run(engine)) == (clock(), 0)
    assert await state(engine, ident) == "LOST"
    clock.advance(1_000 if why == "marked late" else 10 * GRACE_MS)
    assert await loop.run(engine) == 1
    assert await state(engine, ident) == "READY"


async def test_the_trimmer_forgets_keys_and_walks_every_lane(
    engine: Engine, clock: ManualClock
) -> None:
    for lane in ("a", "b", "c"):
        await completed(engine, lane_id=lane, idempotency_key=lane)
    clock.advance(DAY_MS)
    assert await RetentionTrimmer(LoopSettings()).run(engine) == 3
    after = await dump(engine)
    assert after["ff_exec_core"] == after["ff_idempotency"] == []


async def routed(engine: Engine, **said: Any) -> ExecutionId:
    ident = await create(engine, policy=GPU, **said)
    await engine.block_route(ident, "waiting_for_capable_worker")
    return ident


async def test_the_route_releaser_releases_when_a_capable_worker_registers(engine: Engine) -> None:
    loop = RouteReleaser(LoopSettings())
    ident = await routed(engine)
    assert await loop.run(engine) == 0
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    assert await state(engine, ident) == "READY"
    later = await routed(engine)
    assert await loop.run(engine) == 1
    assert await loop.run(engine) == 0
    assert await state(engine, later) == "READY"


async def test_the_route_releaser_applies_its_filter(engine: Engine) -> None:
    for namespace in ("mine", "other"):
        await engine.register_worker(
            registration(capabilities=frozenset({"gpu"}), namespace=namespace)
        )
    mine, other = await routed(engine, namespace="mine"), await routed(engine, namespace="other")
    loop = RouteReleaser(LoopSettings(wanted=ScannerFilter(namespace="mine")))
    assert await loop.run(engine) == 1
    assert (await state(engine, mine), await state(engine, other)) == ("READY", "ROUTE")


async def test_the_route_releaser_is_due_while_executions_are_blocked(engine: Engine) -> None:
    loop = RouteReleaser(LoopSettings())
    assert await loop.next_due(engine) is None
    await routed(engine)
    assert await loop.next_due(engine) == 0
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    assert await loop.next_due(engine) is None


async def test_an_idle_route_releaser_restarts_at_the_first_page(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.claims.routing.ROUTE_PAGE", 1)
    monkeypatch.setattr("flowfabric.loops.upkeep.PAGES", 1)
    loop = RouteReleaser(LoopSettings())
    for _ in range(2):
        clock.advance(1)
        await routed(engine)
    assert await loop.run(engine) == 0 and loop._after is not None
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    assert await loop.next_due(engine) is None and loop._after is None


async def test_the_limit_releaser_is_due_while_executions_are_blocked(engine: Engine) -> None:
    loop = LimitReleaser(LoopSettings())
    assert await loop.next_due(engine) is None
    await quota_lane(engine, cap=1)
    ident = await create(engine)
    await engine.block_execution_for_admission(
        BlockForAdmissionArgs(execution_id=ident, reason="waiting_for_quota")
    )
    assert await loop.next_due(engine) == 0
    assert await loop.run(engine) == 1
    assert await loop.next_due(engine) is None


async def test_missed_wake_ups_are_recovered_within_an_interval(clock: ManualClock) -> None:
    """Neither bell rings when one is parked although a worker is there, or held back although there
    is room.
    """
    engine = memory_engine(clock)
    loops = Supervisor(engine, LoopSettings(route_ms=100, unblock_ms=100))
    loops.loops = [
        loop for loop in loops.loops if loop.name in ("route_releaser", "limit_releaser")
    ]
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    await quota_lane(engine, cap=1)
    loops.start()
    for _ in range(2):
        parked = await routed(engine, lane_id="other")
        held = await create(engine)
        await engine.block_execution_for_admission(
            BlockForAdmissionArgs(execution_id=held, reason="waiting_for_quota")
        )
        async with patient(10):
            while [await state(engine, ident) for ident in (parked, held)] != ["READY"] * 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    await loops.stop(5)


async def test_the_reaper_drops_silent_workers_of_many_batches(
    engine: Engine, clock: ManualClock
) -> None:
    loop = WorkerReaper(LoopSettings())
    assert await loop.next_due(engine) is None
    for n in range(BATCH + 3):
        await engine.register_worker(registration(f"i{n}", liveness_ttl_ms=50))
    await engine.register_worker(registration("lasting", liveness_ttl_ms=5_000))
    assert await loop.next_due(engine) == clock() + 51
    clock.advance(50)
    assert await loop.run(engine) == 0
    clock.advance(1)
    assert await loop.run(engine) == BATCH + 3
    assert [w.worker_instance_id for w in (await engine.list_workers()).items] == ["lasting"]


# ---- a candidate that keeps failing


@pytest.mark.parametrize(
    ("kind", "make", "after_ms", "operation"),
    [
        (AttemptTimeout, limited, 100, "expire_execution"),
        (ExecutionDeadline, deadlined, 100, "expire_execution"),
        (DelayedPromoter, delayed, 100, "promote_delayed"),
        (LeaseExpiry, leased, TTL_MS, "mark_lease_expired_if_due"),
    ],
    ids=["attempt_timeout", "execution_deadline", "delayed_promoter", "lease_expiry"],
)
async def test_an_execution_that_fails_three_times_is_skipped_for_ten_cycles(
    engine: Engine,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: Any,
    make: Make,
    after_ms: int,
    operation: str,
) -> None:
    """Its neighbour is served in every cycle."""
    bad = await make(engine, clock, namespace="ns")
    tried: list[ExecutionId] = []
    real = getattr(engine, operation)

    async def sometimes(ident: ExecutionId, *said: Any, **more: Any) -> Any:
        tried.append(ident)
        if ident == bad:
            raise RuntimeError("injected")
        return await real(ident, *said, **more)

    monkeypatch.setattr(engine, operation, sometimes)
    good = await make(engine, clock, namespace="ns")
    clock.advance(after_ms)
    loop: Loop = kind(LoopSettings(wanted=ScannerFilter(namespace="ns")))
    with caplog.at_level(logging.WARNING, "flowfabric.loops"):
        cycles = []
        for _ in range(MAX_FAILURES + SKIPPED_CYCLES + 1):
            tried.clear()
            await loop.run(engine)
            cycles.append(bad in tried)
    assert cycles == [True] * MAX_FAILURES + [False] * SKIPPED_CYCLES + [True]
    (record,) = caplog.records
    assert vars(record)["execution_id"] == str(bad)
    assert await state(engine, good) not in ("RUNNING", "DELAYED")


async def test_a_success_resets_the_failure_count(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deadlined(engine, clock)
    clock.advance(100)
    outcomes = iter([True, True, False, True, True, False])
    calls = 0

    async def scripted(ident: ExecutionId, phase: Any) -> None:
        nonlocal calls
        calls += 1
        if next(outcomes):
            raise RuntimeError("injected")

    monkeypatch.setattr(engine, "expire_execution", scripted)
    loop = ExecutionDeadline(LoopSettings())
    for _ in range(6):
        await loop.run(engine)
    assert calls == 6


# ---- all of them


def test_every_loop_has_a_name_a_topic_and_an_interval_of_its_own() -> None:
    loops = all_loops(LoopSettings())
    assert len({loop.name for loop in loops}) == len(loops) == 20
    assert all(loop.topic and loop.interval_ms >= 100 for loop in loops)


async def test_one_cycle_of_all_loops_processes_everything_due(
    engine: Engine, clock: ManualClock
) -> None:
    promoted = await delayed(engine, clock)
    lost_one, _ = await running(engine, lane_id="a")
    late = await deadlined(engine, clock, lane_id="b")
    clock.advance(TTL_MS)
    assert await Supervisor(engine).run_once() == 3
    assert [await state(engine, i) for i in (promoted, lost_one, late)] == [
        "READY",
        "LOST",
        "ENDED(expired)",
    ]
    assert await Supervisor(engine).run_once() == 0


async def test_two_supervisors_process_each_item_once(engine: Engine, clock: ManualClock) -> None:
    for _ in range(20):
        await delayed(engine, clock)
        await leased(engine, clock)
        await deadlined(engine, clock, lane_id="d")
    clock.advance(TTL_MS)
    await asyncio.gather(Supervisor(engine).run_once(), Supervisor(engine).run_once())
    after = await dump(engine)
    assert len(after["ff_completion_event"]) == 20
    assert sum(e[5] == "expired" for e in after["ff_lease_event"]) == 20
    assert len(await engine.scan_eligible_executions(LANE)) == 20
