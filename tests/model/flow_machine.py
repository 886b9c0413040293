"""The machine of flows: a fan-in of two and a quorum of two out of three, with any operations in
between.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from flowfabric.engine.engine import Engine
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    AddExecutionToFlowArgs,
    ApplyDependencyArgs,
    EdgePolicy,
    GraphEdge,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
)
from tests.flows.crashes import Dead, Halfway

from . import ops
from .bench import LANES, Bench, RacingMemory
from .flow_spec import Flows
from .ops import Op
from .shapes import Held
from .spec import OVERRIDE

LANE = LANES[0]
NODES = 5
TO = {"both": ((0, 3), (1, 3), (3, 4)), "quorum": ((0, 3), (1, 3), (2, 3), (3, 4))}
CRASHES = {"unheard": Dead, "halfway": Halfway}
REPAIRS = ("dependency_reconciler", "edge_cancel_dispatcher", "edge_cancel_reconciler")


def submit(spec: Flows, flow: UUID, kind: str) -> Op:
    nodes = [
        ExecutionId.of(partition_of(flow, FLOW_PARTITIONS), UUID(int=flow.int + at + 1))
        for at in range(NODES)
    ]
    edges = {
        UUID(int=flow.int + 100 + at): (nodes[up], nodes[down])
        for at, (up, down) in enumerate(TO[kind])
    }
    args = SubmitFlowArgs(
        flow_id=flow,
        nodes=[CreateExecutionArgs(execution_id=ident, lane_id=LANE) for ident in nodes],
        edges=[GraphEdge(up, down, edge_id=name) for name, (up, down) in edges.items()],
        policies={nodes[3]: EdgePolicy.quorum(2)} if kind == "quorum" else {},
    )

    async def call(engine: Engine) -> None:
        await engine.submit_flow(args)

    return Op(
        "submit",
        call,
        lambda s: s.submit(flow, LANE, nodes, edges, {nodes[3]: 2} if kind == "quorum" else {}),
    )


def late_edge(flow: UUID, name: UUID, up: ExecutionId, down: ExecutionId) -> Op:
    ends = {
        "flow_id": flow,
        "edge_id": name,
        "upstream_execution_id": up,
        "downstream_execution_id": down,
    }

    async def call(engine: Engine) -> int:
        await engine.create_execution(CreateExecutionArgs(execution_id=up, lane_id=LANE))
        await engine.add_execution_to_flow(AddExecutionToFlowArgs(flow_id=flow, execution_id=up))
        shown = await engine.describe_flow(flow)
        await engine.stage_dependency_edge(
            StageDependencyEdgeArgs(**ends, expected_graph_revision=shown.graph_revision)
        )
        return (
            await engine.apply_dependency_to_child(ApplyDependencyArgs(**ends))
        ).unsatisfied_count

    return Op("late edge", call, lambda s: s.late_edge(flow, LANE, name, up, down))


def cancel_flow(flow: UUID) -> Op:
    async def call(engine: Engine) -> list[ExecutionId]:
        return sorted((await engine.cancel_flow(flow)).member_execution_ids)

    return Op("cancel flow", call, lambda s: sorted(s.cancel_flow(flow)))


def project(flow: UUID) -> Op:
    """Settles the flow if all its members have ended, and shows how it has ended."""

    async def call(engine: Engine) -> str | None:
        await engine.project_flow_summary(flow)
        found = await engine.read_flow_summary(flow)
        ended = found is not None and found.public_flow_state in ("completed", "failed")
        return found.public_flow_state if found is not None and ended else None

    return Op("project", call, lambda s: s.flow_state(flow))


def end_and_claim(*several: Held) -> Op:
    return ops.complete_and_claim([(h, b"ok") for h in several], LANE, frozenset(), "ann", 60_000)


def complete_both(one: Held, other: Held) -> Op:
    """By two processes at once, if their order can be repeated; else one after the other."""

    async def call(engine: Engine) -> None:
        store, second = engine.store, Engine(engine.store, seed=2)
        if not isinstance(store, RacingMemory):
            await engine.complete(one.handle)
            await second.complete(other.handle)
            await second.parts.core.cascade.finish()
            return
        store.racing = True
        try:
            await asyncio.gather(engine.complete(one.handle), second.complete(other.handle))
        finally:
            store.racing = False

    def expect(spec: Any) -> None:
        spec.complete(one, None)
        spec.complete(other, None)

    return Op("complete both", call, expect)


which = st.integers(0, NODES - 1)
sources = st.sampled_from((0, 0, 1, 1, 2, 3))
outcomes = st.sampled_from(("good", "next", "bad", "cancel"))
kinds = st.sampled_from(("both", "quorum", "quorum"))


class FlowMachine(RuleBasedStateMachine):
    kind: ClassVar[str] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.kind, Flows)
        self.bench.kept = 40
        self.names = itertools.count(1)
        self.flow = UUID(int=0)

    def teardown(self) -> None:
        self.bench.close()

    @property
    def spec(self) -> Flows:
        assert isinstance(self.bench.spec, Flows)
        return self.bench.spec

    def do(self, op: Op) -> object:
        """Each call has its own millisecond."""
        self.bench.to(self.bench.clock() + 1)
        return self.bench.do(op)

    def node(self, at: int) -> ExecutionId:
        return ExecutionId.of(
            partition_of(self.flow, FLOW_PARTITIONS), UUID(int=self.flow.int + at + 1)
        )

    def finish(self, at: int, outcome: str) -> None:
        """Ends one member as its worker or an operator would, if that is possible."""
        ident = self.node(at)
        if outcome == "cancel":
            self.do(ops.cancel(ident, OVERRIDE))
            return
        if self.spec.execs[ident].state == "READY":
            self.do(ops.claim(LANE, frozenset(), "ann", 60_000, 10))
        if self.spec.execs[ident].state == "RUNNING":
            held = next(h for h in reversed(self.bench.handles) if h.ident == ident)
            made = {"good": lambda: ops.complete(held), "next": lambda: end_and_claim(held)}
            self.do(made.get(outcome, lambda: ops.fail(held, "permanent"))())

    def die(self, how: str) -> None:
        """From now on ends are not handled, or without cancelling the losers, until the repair."""
        self.bench.engine.parts.core.cascade = CRASHES[how](
            self.bench.engine.store,
            self.bench.engine.parts.core.wake_parent,
            self.bench.engine.parts.core.telemetry,
        )
        self.spec.how = how

    def repair(self) -> None:
        self.spec.how = "heard"
        self.bench.reopen()
        self.bench.to(self.bench.clock() + 1_100)
        for name in REPAIRS:
            self.do(ops.loop(name))
        self.bench.quiet()

    # ---- rules

    @initialize(kind=kinds)
    def start(self, kind: str) -> None:
        self.submit(kind)

    @rule(kind=kinds)
    def another(self, kind: str) -> None:
        self.submit(kind)

    def submit(self, kind: str) -> None:
        """One flow at a time: cancels the old one."""
        if self.flow.int:
            self.repair()
            self.do(cancel_flow(self.flow))
        self.flow = UUID(int=next(self.names) << 64 | 4 << 12)
        self.do(submit(self.spec, self.flow, kind))

    @rule(at=which, outcome=outcomes)
    def end(self, at: int, outcome: str) -> None:
        self.finish(at, outcome)

    @rule(first=outcomes, second=outcomes, third=outcomes)
    def ends(self, first: str, second: str, third: str) -> None:
        """The upstreams in turn, then the node that waited for them."""
        for at, outcome in enumerate((first, second, third)):
            self.finish(at, outcome)
        self.finish(3, "good")

    @rule(kind=kinds, calls=st.sampled_from((1, 2)))
    def both_at_once(self, kind: str, calls: int) -> None:
        """Two upstreams succeed, in two processes or in one call, and neither of them alone
        decides.
        """
        self.submit(kind)
        for at in (0, 1):
            self.do(ops.grant_and_claim(self.node(at), LANE, 60_000))
        one, other = (
            next(h for h in reversed(self.bench.handles) if h.ident == self.node(at))
            for at in (0, 1)
        )
        self.do(complete_both(one, other) if calls == 2 else end_and_claim(one, other))

    @rule(at=st.sampled_from((3, 3, 4)), ready=st.booleans())
    def late_edge(self, at: int, ready: bool) -> None:
        """To a waiting node, or to one without upstreams."""
        for upstream in (0, 1) if ready else ():
            self.finish(upstream, "good")
        if self.flow not in self.spec.cancelled:
            new = next(self.names) << 32
            up = ExecutionId.of(self.node(at).partition_index, UUID(int=self.flow.int + new))
            self.do(late_edge(self.flow, UUID(int=self.flow.int + new + 1), up, self.node(at)))

    @rule()
    def cancel_flow(self) -> None:
        self.do(cancel_flow(self.flow))

    @rule(at=which)
    def replay(self, at: int) -> None:
        self.do(ops.replay(self.node(at)))

    @rule()
    def project(self) -> None:
        self.do(project(self.flow))

    @rule(at=which, outcome=outcomes)
    def replay_after_it_was_settled(self, at: int, outcome: str) -> None:
        """A replayed member of a settled flow opens the flow again."""
        for node in range(NODES):
            self.finish(node, outcome)
        self.do(project(self.flow))
        self.do(ops.replay(self.node(at)))

    @rule(at=sources, outcome=outcomes)
    def replay_after_skip(self, at: int, outcome: str) -> None:
        """A skipped member waits again; it continues when its upstream was replayed and
        succeeds.
        """
        self.finish(at, "bad")
        for node in (4, 3):
            if self.spec.execs[self.node(node)].outcome == "skipped":
                self.do(ops.replay(self.node(node)))
        self.do(ops.replay(self.node(at)))
        self.finish(at, outcome)

    @rule(
        how=st.sampled_from(sorted(CRASHES)),
        ends=st.lists(st.tuples(sources, outcomes), min_size=1, max_size=3),
    )
    def crash(self, how: str, ends: list[tuple[int, str]]) -> None:
        """The process that ends some of them dies before its cascade is done, and another repairs
        it.
        """
        self.die(how)
        for at, outcome in ends:
            self.finish(at, outcome)
        self.repair()

    @rule(name=st.sampled_from(REPAIRS))
    def loop(self, name: str) -> None:
        self.do(ops.loop(name))


def flow_machine_on(store: str) -> type[FlowMachine]:
    return type(f"{store.title().replace('-', '')}FlowMachine", (FlowMachine,), {"kind": store})
