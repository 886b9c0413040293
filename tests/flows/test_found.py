"""Regressions found by review and by the random graphs."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.flows import member_cancels
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CreateExecutionArgs, ReplayExecutionArgs
from flowfabric.model.flow import (
    AddExecutionToFlowArgs,
    ApplyDependencyArgs,
    CancelFlowPolicy,
    CreateFlowArgs,
    EdgePolicy,
    StageDependencyEdgeArgs,
)
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.store.port import GetAll, Read
from flowfabric.testing import ManualClock
from tests.engine.helpers import after_load

from .crashes import Dead, Halfway


class Graph:
    """A flow that is built one call at a time. Each member has a lane of its own."""

    def __init__(self, engine: Engine, flow: UUID | None = None) -> None:
        self.engine, self.flow, self.revision = engine, flow or uuid4(), 0
        self.made = 0

    async def start(self) -> Graph:
        await self.engine.create_flow(CreateFlowArgs(flow_id=self.flow))
        return self

    async def member(self) -> ExecutionId:
        self.made += 1
        ident = ExecutionId.of(
            partition_of(self.flow, FLOW_PARTITIONS), UUID(int=self.flow.int ^ self.made)
        )
        await self.engine.create_execution(
            CreateExecutionArgs(execution_id=ident, lane_id=str(self.made))
        )
        await self.engine.add_execution_to_flow(
            AddExecutionToFlowArgs(flow_id=self.flow, execution_id=ident)
        )
        self.revision += 1
        return ident

    async def stage(
        self, up: ExecutionId, down: ExecutionId, edge: UUID | None = None
    ) -> ApplyDependencyArgs:
        said = {
            "flow_id": self.flow,
            "edge_id": edge or uuid4(),
            "upstream_execution_id": up,
            "downstream_execution_id": down,
        }
        await self.engine.stage_dependency_edge(
            StageDependencyEdgeArgs(**said, expected_graph_revision=self.revision)
        )
        self.revision += 1
        return ApplyDependencyArgs(**said)

    async def claim(self, number: int) -> Handle:
        handle = await self.engine.claim(str(number), (), ClaimPolicy("w", "w-1", 600_000))
        assert handle is not None
        return handle

    async def complete(self, number: int) -> None:
        await self.engine.complete(await self.claim(number))

    async def state(self, ident: ExecutionId) -> str:
        return str(await self.engine.read_execution_state(ident))


async def quiet(engine: Engine, clock: ManualClock) -> None:
    loops = Supervisor(engine)
    for _ in range(4):
        clock.advance(20_000)
        await loops.run_once()


async def test_quorum_with_unapplied_edges_is_not_decided(
    engine: Engine, clock: ManualClock
) -> None:
    """With fewer edges than the quorum needs it cannot be met yet, but no end decides it."""
    graph = await Graph(engine).start()
    first, second, child = [await graph.member() for _ in range(3)]
    await engine.set_edge_group_policy(graph.flow, child, EdgePolicy.quorum(2))
    one, two = await graph.stage(first, child), await graph.stage(second, child)
    await engine.apply_dependency_to_child(one)
    await quiet(engine, clock)
    assert await graph.state(child) == "waiting_children"
    await engine.apply_dependency_to_child(two)
    await graph.complete(1)
    await graph.complete(2)
    assert await graph.state(child) == "waiting"


@pytest.mark.meets("flow", "crash")
async def test_last_of_many_edges_is_seen_after_a_crash(engine: Engine, clock: ManualClock) -> None:
    """An edge applied after the end of its upstream, by a process that died before it counted that
    end.
    """
    graph = await Graph(engine).start()
    ups = [await graph.member() for _ in range(22)]
    child = await graph.member()
    staged = [await graph.stage(up, child, UUID(int=at + 1)) for at, up in enumerate(ups)]
    for number in range(1, len(ups) + 1):
        await graph.complete(number)
    await quiet(engine, clock)
    for one in staged[:-1]:
        await engine.apply_dependency_to_child(one)
    honest, engine.parts.core.cascade = (
        engine.parts.core.cascade,
        Dead(engine.store, engine.parts.core.wake_parent, engine.parts.core.telemetry),
    )
    await engine.apply_dependency_to_child(staged[-1])
    engine.parts.core.cascade = honest
    await quiet(engine, clock)
    assert await graph.state(child) == "waiting"


async def quorum_of_three(engine: Engine) -> tuple[Graph, list[ExecutionId], list[Handle]]:
    """Two of three, all held by workers."""
    graph = await Graph(engine).start()
    members = [await graph.member() for _ in range(4)]
    await engine.set_edge_group_policy(graph.flow, members[3], EdgePolicy.quorum(2))
    for up in members[:3]:
        await engine.apply_dependency_to_child(await graph.stage(up, members[3]))
    return graph, members, [await graph.claim(number) for number in (1, 2, 3)]


async def test_more_losers_than_go_in_one_pass(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_cancels, "MAX_SIBLINGS", 2)
    graph = await Graph(engine).start()
    ups = [await graph.member() for _ in range(6)]
    child = await graph.member()
    await engine.set_edge_group_policy(graph.flow, child, EdgePolicy.any_of())
    for up in ups:
        await engine.apply_dependency_to_child(await graph.stage(up, child))
    await graph.complete(1)
    await quiet(engine, clock)
    assert [await graph.state(up) for up in ups] == ["completed", *["cancelled"] * 5]


def is_of_siblings(read: Read) -> bool:
    return isinstance(read, GetAll) and read.table == "ff_exec_core"


async def test_reconciler_leaves_a_group_that_fires_meanwhile_on_the_queue(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds no sibling to cancel; then the group fires in a process that dies at once."""
    graph, members, handles = await quorum_of_three(engine)
    await engine.cancel_flow(graph.flow, CancelFlowPolicy.CANCEL_PENDING)
    other = Engine(engine.store, seed=2)
    other.parts.core.cascade = Halfway(
        engine.store, other.parts.core.wake_parent, other.parts.core.telemetry
    )

    async def complete() -> None:
        for handle in handles[:2]:
            await other.complete(handle)

    with monkeypatch.context() as meanwhile:
        after_load(engine, meanwhile, is_of_siblings, complete)
        await engine.reconcile_sibling_cancel_group(graph.flow, members[3].uuid)
    await quiet(engine, clock)
    assert await graph.state(members[2]) == "cancelled"


async def test_losers_of_a_second_firing_are_cancelled_too(
    engine: Engine, clock: ManualClock
) -> None:
    """Between the cancel of the losers and its record everything is replayed, and the group fires
    again.
    """
    graph, members, handles = await quorum_of_three(engine)
    other = Engine(engine.store, seed=2)
    other.parts.core.cascade = Halfway(
        engine.store, other.parts.core.wake_parent, other.parts.core.telemetry
    )
    honest = engine.parts.core.cascade.members.cancel
    again: list[Handle] = []

    async def slowly(*said: Any, **more: Any) -> Any:
        done = await honest(*said, **more)
        if not again:
            clock.advance(1)
            for member in (members[3], *members[:3]):
                await other.replay_execution(ReplayExecutionArgs(execution_id=member))
            again.extend([await graph.claim(number) for number in (1, 2, 3)])
            for handle in again[:2]:
                await other.complete(handle)
        return done

    engine.parts.core.cascade.members.cancel = slowly  # type: ignore[method-assign]
    for handle in handles[:2]:
        await engine.fail(handle, "no", FailureClass.PERMANENT)
    await quiet(engine, clock)
    assert [await graph.state(member) for member in members] == [
        "completed",
        "completed",
        "cancelled",
        "waiting",
    ]


@pytest.mark.parametrize("first", ["child", "upstream"])
@pytest.mark.meets("flow", "replay")
async def test_failure_in_the_millisecond_of_a_replay_counts(
    engine: Engine, clock: ManualClock, first: str
) -> None:
    """The old failure does not count again, a new one does, also within one millisecond."""
    graph = await Graph(engine).start()
    up, child = await graph.member(), await graph.member()
    await engine.apply_dependency_to_child(await graph.stage(up, child))
    await engine.fail(await graph.claim(1), "no", FailureClass.PERMANENT)
    assert await graph.state(child) == "skipped"
    for member in (child, up) if first == "child" else (up, child):
        await engine.replay_execution(ReplayExecutionArgs(execution_id=member))
    assert await graph.state(child) == "waiting_children"
    await engine.fail(await graph.claim(1), "no", FailureClass.PERMANENT)
    await quiet(engine, clock)
    assert await graph.state(child) == "skipped"
