"""What reading and the random graphs found, told as short plain stories."""

from __future__ import annotations

from uuid import UUID, uuid4

from flowfabric.engine.engine import Engine
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    AddExecutionToFlowArgs,
    ApplyDependencyArgs,
    Cascaded,
    CreateFlowArgs,
    EdgePolicy,
    StageDependencyEdgeArgs,
)
from flowfabric.model.lease import ClaimPolicy
from flowfabric.testing import ManualClock


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
        ident = ExecutionId.of(partition_of(self.flow, FLOW_PARTITIONS), UUID(int=self.flow.int ^ self.made))
        await self.engine.create_execution(CreateExecutionArgs(execution_id=ident, lane_id=str(self.made)))
        await self.engine.add_execution_to_flow(AddExecutionToFlowArgs(flow_id=self.flow, execution_id=ident))
        self.revision += 1
        return ident

    async def stage(self, up: ExecutionId, down: ExecutionId, edge: UUID | None = None) -> ApplyDependencyArgs:
        said = {"flow_id": self.flow, "edge_id": edge or uuid4(), "upstream_execution_id": up, "downstream_execution_id": down}
        await self.engine.stage_dependency_edge(StageDependencyEdgeArgs(**said, expected_graph_revision=self.revision))
        self.revision += 1
        return ApplyDependencyArgs(**said)

    async def complete(self, number: int) -> None:
        handle = await self.engine.claim(str(number), (), ClaimPolicy("w", "w-1"))
        assert handle is not None
        await self.engine.complete(handle)

    async def state(self, ident: ExecutionId) -> str:
        return str(await self.engine.read_execution_state(ident))


async def quiet(engine: Engine, clock: ManualClock) -> None:
    loops = Supervisor(engine)
    for _ in range(4):
        clock.advance(20_000)
        await loops.run_once()


async def test_quorum_whose_edges_are_not_all_applied_yet_is_left_alone(engine: Engine, clock: ManualClock) -> None:
    """With fewer edges than the quorum asks for it cannot be met yet, but nothing has ended that could decide it."""
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


async def test_last_of_many_edges_is_seen_after_a_crash(engine: Engine, clock: ManualClock) -> None:
    """An edge applied after its upstream was over, by a process that died before it could count that."""
    graph = await Graph(engine).start()
    ups = [await graph.member() for _ in range(22)]
    child = await graph.member()
    staged = [await graph.stage(up, child, UUID(int=at + 1)) for at, up in enumerate(ups)]
    for number in range(1, len(ups) + 1):
        await graph.complete(number)
    await quiet(engine, clock)
    for one in staged[:-1]:
        await engine.apply_dependency_to_child(one)
    honest, engine._cascade = engine._cascade, Dead()
    await engine.apply_dependency_to_child(staged[-1])
    engine._cascade = honest
    await quiet(engine, clock)
    assert await graph.state(child) == "waiting"


class Dead:
    """A cascade of a process that was killed before it began."""

    async def ended(self, idents: object) -> Cascaded:
        return Cascaded()

    async def finish(self) -> None:
        return None
