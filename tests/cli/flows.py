"""Flows for the tests of the flow commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    EdgePolicy,
    Engine,
    ExecutionId,
    GraphEdge,
    SubmitFlowArgs,
)

FLOW = UUID("6f1c1f0e-8f6b-4f7e-9a53-3c1e2f8f0d11")
NASTY = "<b>&\"quote'\\back\nline\x1b[31mred"


async def submit(
    engine: Engine,
    kinds: Iterable[str],
    edges: Iterable[tuple[str, str]],
    policies: Mapping[str, EdgePolicy] | None = None,
    *,
    flow: UUID = FLOW,
    namespace: str = "default",
    flow_kind: str = "dag",
) -> dict[str, ExecutionId]:
    """Nodes named by their kinds; what follows a # only tells two of a kind apart."""
    node = {kind: ExecutionId.for_flow(flow) for kind in kinds}
    await engine.submit_flow(
        SubmitFlowArgs(
            flow_id=flow,
            nodes=[
                CreateExecutionArgs(
                    execution_id=ident, execution_kind=kind.partition("#")[0], namespace=namespace
                )
                for kind, ident in node.items()
            ],
            edges=[GraphEdge(node[up], node[down], data_passing_ref="data") for up, down in edges],
            policies={node[kind]: policy for kind, policy in (policies or {}).items()},
            namespace=namespace,
            flow_kind=flow_kind,
        )
    )
    return node


async def complete(engine: Engine, count: int) -> None:
    for work in await engine.claim_many("default", (), ClaimPolicy("w", "w-1"), count):
        await engine.complete(work.handle, b"result")


async def race(engine: Engine, **more: str) -> dict[str, ExecutionId]:
    """The first of three has won."""
    ups = ("one", "two", "three")
    node = await submit(
        engine,
        [*ups, "after"],
        [(up, "after") for up in ups],
        {"after": EdgePolicy.any_of()},
        **more,
    )  # type: ignore[arg-type]
    await complete(engine, 1)
    return node
