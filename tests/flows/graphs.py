"""Random graphs: nodes in topological order, policies of their edges, and behaviour of their
workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from hypothesis import strategies as st

from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, partition_of
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import (
    ENDED,
    SUCCESS_ONLY,
    EdgePolicy,
    GraphEdge,
    OnSatisfied,
    SubmitFlowArgs,
)

LANE = "work"
DEADLINE_MS = 9_000
RETRY = {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 500}}
POLICIES = {
    "overdue": {"timeout_policy": {"execution_deadline_ms": DEADLINE_MS}},
    "retried": {"retry_policy": RETRY},
    "given up": {"retry_policy": RETRY},
    "lost for good": {"max_reclaim_count": 0},
}
FATES = {
    "good": 60,
    "bad": 12,
    "retried": 6,
    "given up": 3,
    "cancelled": 5,
    "lost": 5,
    "lost for good": 2,
    "overdue": 4,
    "postponed": 3,
}


@dataclass(frozen=True)
class Shape:
    """`span` is the distance to the upstreams of a node, `width` their maximal number."""

    seed: int
    size: int
    span: int
    width: int
    luck: float

    @property
    def rng(self) -> Random:
        return Random(self.seed)


def shapes(most: int) -> st.SearchStrategy[Shape]:
    sizes = st.one_of(st.integers(1, 12), st.integers(1, 40), st.integers(1, most))
    return st.builds(
        Shape,
        seed=st.integers(0, 2**32),
        size=sizes,
        span=st.sampled_from((1, 3, 8, 30, most)),
        width=st.sampled_from((1, 2, 3, 5)),
        luck=st.sampled_from((0.5, 0.9, 1.0)),
    )


@dataclass
class Graph:
    flow: UUID
    nodes: list[ExecutionId]
    edges: list[tuple[int, int]] = field(default_factory=list)
    policies: dict[int, tuple[int, bool]] = field(default_factory=dict)
    fates: list[str] = field(default_factory=list)
    content: set[int] = field(default_factory=set)
    """Edges for which any end will do."""

    def args(self) -> SubmitFlowArgs:
        nodes = [
            CreateExecutionArgs(
                execution_id=ident, lane_id=LANE, policy=POLICIES.get(self.fates[at])
            )
            for at, ident in enumerate(self.nodes)
        ]
        edges = [
            GraphEdge(
                self.nodes[up],
                self.nodes[down],
                "x" if (up + down) % 5 == 0 else None,
                ENDED if at in self.content else SUCCESS_ONLY,
                UUID(int=at + 1),
            )
            for at, (up, down) in enumerate(self.edges)
        ]
        policies = {
            self.nodes[node]: _policy(k, cancels) for node, (k, cancels) in self.policies.items()
        }
        return SubmitFlowArgs(flow_id=self.flow, nodes=nodes, edges=edges, policies=policies)


def _policy(k: int, cancels: bool) -> EdgePolicy:
    then = OnSatisfied.CANCEL_REMAINING if cancels else OnSatisfied.LET_RUN
    return EdgePolicy.any_of(then) if k == 1 else EdgePolicy.quorum(k, then)


def grow(shape: Shape) -> Graph:
    rng = shape.rng
    flow = UUID(int=rng.getrandbits(128), version=4)
    partition = partition_of(flow, FLOW_PARTITIONS)
    made = Graph(
        flow,
        [
            ExecutionId.of(partition, UUID(int=rng.getrandbits(128), version=4))
            for _ in range(shape.size)
        ],
    )
    for node in range(1, shape.size):
        reach = range(max(0, node - shape.span), node)
        width = node if node == shape.size - 1 and rng.random() < 0.3 else shape.width
        ups = rng.sample(reach, min(len(reach), rng.randint(0 if rng.random() < 0.2 else 1, width)))
        if ups and rng.random() < 0.05:
            ups.append(ups[0])
        made.edges += [(up, node) for up in ups]
        if ups and rng.random() < 0.5:
            made.policies[node] = (rng.randint(1, len(ups)), rng.random() < 0.6)
    weights = [
        weight * (1 if fate == "good" else 2 * (1 - shape.luck)) for fate, weight in FATES.items()
    ]
    made.fates = rng.choices(list(FATES), weights, k=shape.size)
    made.content = {at for at in range(len(made.edges)) if rng.random() < 0.1}
    return made
