"""The overview of `flowfabric top` on every store."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec import structs

from flowfabric.cli.top import collect
from flowfabric.cli.top.collect import EXPLAINED_FOR_S, MAX_CALLS, Collector
from flowfabric.cli.top.model import FailingRow, LaneRow, Overview, WorkerRow
from flowfabric.connect import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.deployment import STALLED_MS
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.testing import ManualClock
from tests.engine.helpers import create, running, worker

BY = ClaimPolicy("w1", "w1-i1", 30_000)


class Deployment:
    """An engine, its clock, and a collector that reads it without the two seconds of a cache."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine, self.clock = engine, clock
        self.calls: Counter[str] = Counter()
        self.collector = self.collector_of(engine)

    def collector_of(self, engine: EngineProtocol, namespace: str | None = None) -> Collector:
        return Collector(wrapped(engine, self._counted), namespace, self.seconds)

    def _counted(self, name: str, operation: Operation) -> Operation:
        async def counted(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return await operation(*args, **named)

        return counted

    def seconds(self) -> float:
        return self.clock.now_ms / 1_000

    async def end(self, count: int, outcome: str) -> None:
        for _ in range(count):
            ident, handle = await running(self.engine, BY, lane_id=outcome)
            if outcome == "completed":
                await self.engine.complete(handle, b"1")
            elif outcome == "failed":
                await self.engine.fail(handle, "ValueError: no", FailureClass.PERMANENT)
            else:
                await self.engine.cancel_execution(CancelExecutionArgs(execution_id=ident))


async def test_an_empty_deployment(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)
    found = await deployment.collector.collect()
    assert found.as_of == deployment.clock.now_ms
    assert (found.rates.created, found.rates.ended_in_all) == (0.0, 0.0)
    assert found.states == {}
    assert [*found.lanes, *found.runs, *found.failing, *found.workers] == []
    assert [*found.stuck, *found.budgets, *found.timers] == []


async def test_rates_are_those_of_the_last_ten_seconds(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)
    await deployment.end(50, "completed")
    deployment.clock.advance(20_000)
    await deployment.collector.collect()
    await deployment.end(6, "completed")
    await deployment.end(2, "failed")
    await deployment.end(1, "cancelled")
    deployment.clock.advance(4_000)
    found = (await deployment.collector.collect()).rates
    assert found.created == pytest.approx(0.9)
    assert found.ended == pytest.approx(
        {"completed": 1.5, "failed": 0.5, "cancelled": 0.25, "other": 0.0}
    )
    assert not found.is_sampled
    deployment.clock.advance(10_000)
    last = await deployment.collector.collect()
    assert (last.rates.created, last.rates.ended_in_all) == (0.0, 0.0)
    assert [each.ended_in_all for each in last.history] == pytest.approx([0.0, 2.25, 0.0])


async def test_a_full_page_of_new_executions_is_a_rate_too(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(engine, clock)
    monkeypatch.setattr(collect, "MAX_CREATED", 5)
    for _ in range(10):
        await create(deployment.engine)
        deployment.clock.advance(100)
    assert (await deployment.collector.collect()).rates.created == pytest.approx(10)


async def test_events_beyond_the_last_page_make_the_rate_a_sample(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(engine, clock)
    monkeypatch.setattr(collect, "EVENT_PAGE", 2)
    monkeypatch.setattr(collect, "MAX_EVENT_PAGES", 3)
    await deployment.collector.collect()
    for _ in range(8):
        deployment.clock.advance(500)
        await deployment.end(1, "completed")
    found = (await deployment.collector.collect()).rates
    assert found.is_sampled
    assert found.ended["completed"] == pytest.approx(2)
    deployment.clock.advance(11_000)
    await deployment.end(1, "completed")
    later = (await deployment.collector.collect()).rates
    assert later.ended["completed"] == pytest.approx(1 / 11)
    assert not later.is_sampled


async def test_lanes_with_most_waiting_first(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)
    await create(engine, lane_id="quiet")
    await running(engine, BY, lane_id="busy")
    for _ in range(2):
        await create(engine, lane_id="busy")
    await create(engine, lane_id="busy", delay_until=clock.now_ms + 60_000)
    await engine.drain_lane("quiet")
    clock.advance(3_000)
    found = await deployment.collector.collect()
    assert found.lanes == (
        LaneRow("busy", "active", 2, 1, 1, 0, 0, 3_000),
        LaneRow("quiet", "draining", 1, 0, 0, 0, 0, 3_000),
    )
    assert found.states == {"waiting": 3, "delayed": 1, "active": 1}


async def test_what_is_running_and_who_holds_it(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)
    for number in (1, 2):
        await engine.register_worker(
            RegisterWorkerArgs(
                worker_id=f"w{number}",
                worker_instance_id=f"w{number}-i1",
                lanes=frozenset({"b", "a"}),
                liveness_ttl_ms=60_000,
            )
        )
    first, handle = await running(engine, worker(1), execution_kind="resize")
    clock.advance(4_000)
    second, _ = await running(engine, worker(1), execution_kind="resize")
    await engine.progress(handle, 40, "row 4")
    clock.advance(1_000)
    found = await deployment.collector.collect()
    assert [each.execution_id for each in found.runs] == [first, second]
    run = found.runs[0]
    assert (run.task, run.worker, run.since_ms, run.lease_left_ms) == (
        "resize",
        "w1-i1",
        5_000,
        25_000,
    )
    assert (run.attempts, run.progress_pct, run.progress) == (1, 40, "row 4")
    assert found.workers == (
        WorkerRow("w1-i1", "w1", "default", ("a", "b"), 2, {"resize": 2}, 5_000),
        WorkerRow("w2-i1", "w2", "default", ("a", "b"), 0, {}, 5_000),
    )


async def test_an_expired_lease_has_less_than_nothing_left(
    engine: Engine, clock: ManualClock
) -> None:
    deployment = Deployment(engine, clock)
    await running(deployment.engine, worker(1, ttl_ms=1_000))
    deployment.clock.advance(3_000)
    (run,) = (await deployment.collector.collect()).runs
    assert run.lease_left_ms == -2_000


async def test_failures_by_task_and_type_of_error(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)

    async def fail(task: str, error: str, kind: FailureClass, **more: Any) -> ExecutionId:
        ident, handle = await running(engine, BY, execution_kind=task, lane_id=task)
        await engine.fail(handle, error, kind, **more)
        return ident

    await fail("mail", "KeyError: old", FailureClass.PERMANENT)
    clock.advance(collect.FAILING_MS + 1)
    await fail("mail", "KeyError: 'x'", FailureClass.PERMANENT)
    clock.advance(1_000)
    last = await fail("mail", "KeyError: 'y'", FailureClass.PERMANENT)
    again = await fail("pay", "Timeout", FailureClass.TRANSIENT, retry_after_ms=60_000)
    await create(engine, execution_kind="later", delay_until=clock.now_ms + 60_000)
    found = await deployment.collector.collect()
    assert found.failing == (
        FailingRow("mail", "KeyError", 2, 0, clock.now_ms, last),
        FailingRow("pay", "Timeout", 0, 1, None, again),
    )


async def test_failures_are_read_again_after_some_seconds(
    engine: Engine, clock: ManualClock
) -> None:
    deployment = Deployment(engine, clock)
    assert (await deployment.collector.collect()).failing == ()
    await deployment.end(1, "failed")
    deployment.clock.advance(int(collect.FAILURES_FOR_S * 1_000) - 1)
    assert (await deployment.collector.collect()).failing == ()
    deployment.clock.advance(1)
    assert len((await deployment.collector.collect()).failing) == 1


async def test_a_stuck_run_has_its_reason(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)
    ident = await create(engine, lane_id="held", execution_kind="export")
    await engine.pause_lane("held")
    clock.advance(STALLED_MS)
    (row,) = (await deployment.collector.collect()).stuck
    assert (row.execution_id, row.task, row.lane, row.for_ms) == (ident, "export", "held", 30_000)
    assert row.code == "lane_paused" and "`held` is paused" in row.says
    await engine.resume_lane("held")
    assert (await deployment.collector.collect()).stuck[0].code == "lane_paused"
    clock.advance(int(EXPLAINED_FOR_S * 1_000))
    assert (await deployment.collector.collect()).stuck[0].code == "no_live_worker"


async def test_a_refresh_makes_a_bounded_number_of_calls(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(engine, clock)
    monkeypatch.setattr(collect, "EVENT_PAGE", 1)
    for lane in range(collect.MAX_EXPLAINED + 3):
        await create(deployment.engine, lane_id=f"lane-{lane}")
    deployment.clock.advance(STALLED_MS)
    first = await deployment.collector.collect()
    explained = [bool(each.code) for each in first.stuck]
    assert explained == [True] * collect.EXPLAINED_AT_ONCE + [False] * 8
    await deployment.end(20, "completed")
    deployment.clock.advance(10_000)
    deployment.calls.clear()
    second = await deployment.collector.collect()
    assert sum(deployment.calls.values()) == MAX_CALLS
    assert [bool(each.code) for each in second.stuck] == [True] * 10 + [False] * 3
    assert deployment.calls["read_events"] == collect.MAX_EVENT_PAGES


async def test_a_namespace_is_shown_alone(engine: Engine, clock: ManualClock) -> None:
    deployment = Deployment(engine, clock)
    ours = deployment.collector_of(engine, "ours")
    await ours.collect()
    for space in ("ours", "theirs"):
        said: dict[str, Any] = {"namespace": space, "lane_id": space, "execution_kind": space}
        await engine.register_worker(
            RegisterWorkerArgs(worker_id=space, worker_instance_id=space, namespace=space)
        )
        await running(engine, worker(1, namespace=space), **said)
        _, handle = await running(engine, worker(1, namespace=space), **said)
        await engine.complete(handle, b"")
        _, handle = await running(engine, worker(1, namespace=space), **said)
        await engine.fail(handle, "E: e", FailureClass.PERMANENT)
    clock.advance(5_000)
    found = await ours.collect()
    assert found.namespace == "ours"
    assert {each.task for each in [*found.runs, *found.failing]} == {"ours"}
    assert [each.instance for each in found.workers] == ["ours"]
    assert found.rates.created == pytest.approx(0.3)
    assert found.rates.ended == pytest.approx(
        {"completed": 0.2, "failed": 0.2, "cancelled": 0.0, "other": 0.0}
    )


async def test_an_unreachable_store_is_an_error_and_the_next_refresh_works() -> None:
    clock = ManualClock()
    engine = memory_engine(clock)
    is_gone = False

    def failing(name: str, operation: Operation) -> Operation:
        async def call(*args: Any, **named: Any) -> Any:
            if is_gone and name == "list_workers":
                raise TransportError("postgres", "gone")
            return await operation(*args, **named)

        return call

    collector = Collector(wrapped(engine, failing), clock=lambda: clock.now_ms / 1_000)
    before = await collector.collect()
    is_gone = True
    with pytest.raises(TransportError):
        await collector.collect()
    is_gone = False
    after: Overview = await collector.collect()
    assert structs.replace(after, history=()) == structs.replace(before, history=())
    await engine.close()
