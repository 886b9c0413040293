"""The loops of flows: due items once, filtered."""

from __future__ import annotations

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.flows import (
    CancelReconciler,
    DependencyReconciler,
    EdgeCancelDispatcher,
    EdgeCancelReconciler,
    FlowProjector,
)
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import CancelFlowArgs, EdgePolicy
from flowfabric.testing import ManualClock
from tests.engine.flow_helpers import (
    crashing,
    finish,
    group_key,
    put_row,
    rows_of,
    siblings_left,
    still,
    submit,
)
from tests.engine.helpers import state


async def test_the_dependency_reconciler_dispatches_completions_and_rechecks_members(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    loop = DependencyReconciler(LoopSettings())
    assert await loop.run(engine) == 0
    with crashing(engine):
        await finish(engine, graph, "a")
    clock.advance(1_000)
    assert await loop.run(engine) >= 1
    assert await state(engine, graph["b"]) == "READY"
    settled = await still(engine)
    assert await loop.run(engine) == 0
    assert await still(engine) == settled
    assert await loop.next_due(engine) is None


FILTERS: dict[str, ScannerFilter] = {
    "namespace": ScannerFilter(namespace="mine"),
    "instance": ScannerFilter(instance_tag=("cairn.instance_id", "blue")),
    "tag": ScannerFilter(instance_tag=("app.x", "1")),
}


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS.keys())
async def test_undispatched_completions_are_filtered(
    engine: Engine, clock: ManualClock, wanted: ScannerFilter
) -> None:
    tags = {
        "mine": {"cairn.instance_id": "blue", "app.x": "1"},
        "other": {"cairn.instance_id": "1", "app.x": "blue"},
    }
    graphs = {
        name: await submit(engine, "a>b", namespace=name, nodes={"a": {"tags": said}})
        for name, said in tags.items()
    }
    with crashing(engine):
        for graph in graphs.values():
            await finish(engine, graph, "a")
    clock.advance(1_000)
    assert await engine.dispatch_completions(wanted) == 1
    assert {name: await state(engine, graph["b"]) for name, graph in graphs.items()} == {
        "mine": "READY",
        "other": "DEPS",
    }


async def test_the_dispatcher_cancels_siblings_after_a_crash(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>c b>c", policies={"c": EdgePolicy.any_of()})
    loop = EdgeCancelDispatcher(LoopSettings())
    assert (await loop.next_due(engine), await loop.run(engine)) == (None, 0)
    with siblings_left(engine):
        await finish(engine, graph, "a")
    assert await loop.next_due(engine) == clock()
    assert await loop.run(engine) == 1
    assert await state(engine, graph["b"]) == "ENDED(cancelled)"
    assert (await loop.next_due(engine), await loop.run(engine)) == (None, 0)


async def test_the_edge_reconciler_removes_groups_without_siblings(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a>b")
    loop = EdgeCancelReconciler(LoopSettings())
    assert await loop.run(engine) == 0
    await put_row(engine, "ff_pending_cancel_groups", **group_key(graph, "b"), enqueued_at_ms=1)
    assert await loop.run(engine) == 1
    assert await rows_of(engine, "ff_pending_cancel_groups") == []
    assert await loop.next_due(engine) is None


async def test_the_cancel_reconciler_finishes_a_flow_cancel(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b")
    await engine.cancel_flow_header(CancelFlowArgs(flow_id=graph.flow, reason="r"))
    loop = CancelReconciler(LoopSettings())
    clock.advance(29_999)
    assert await loop.run(engine) == 0
    clock.advance(1)
    assert await loop.run(engine) == 2
    assert await rows_of(engine, "ff_cancel_backlog") == []
    assert (await loop.run(engine), await loop.next_due(engine)) == (0, None)


async def test_the_projector_updates_a_flow_until_it_has_ended(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    loop = FlowProjector(LoopSettings())
    for name, word in (("a", "blocked"), ("b", "open"), ("", "completed")):
        clock.advance(10)
        assert await loop.run(engine) == 1
        found = await engine.read_flow_summary(graph.flow)
        assert found is not None and (found.public_flow_state, found.last_summary_update_at) == (
            word,
            clock(),
        )
        if name:
            await finish(engine, graph, name)
    settled = await still(engine)
    assert await loop.run(engine) == 0
    assert await still(engine) == settled
    assert await loop.next_due(engine) is None


async def test_the_projector_pages_through_flows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.loops.flows.MAX_PROJECTED", 2)
    graphs = [await submit(engine, "a") for _ in range(5)]
    loop = FlowProjector(LoopSettings())
    assert [await loop.run(engine) for _ in range(3)] == [2, 2, 1]
    for graph in graphs:
        assert await engine.read_flow_summary(graph.flow) is not None
