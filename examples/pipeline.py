"""A pipeline: three shops price one order, two answers are enough, the cheapest is booked."""

import asyncio
import json
import tempfile
from pathlib import Path
from uuid import uuid4

from flowfabric import (
    ClaimPolicy,
    CreateExecutionArgs,
    EdgePolicy,
    Engine,
    ExecutionId,
    FailureClass,
    FailureReason,
    GraphEdge,
    OnSatisfied,
    SubmitFlowArgs,
    connect,
)
from flowfabric.cli.flow import draw

LANE = "orders"
PRICES = {"shop-a": 30, "shop-b": 25}


async def run_all(engine: Engine, node: dict[str, ExecutionId]) -> list[str]:
    """Runs executions until none is claimable; returns the order in which they ran."""
    ran = []
    while works := await engine.claim_many(LANE, (), ClaimPolicy("clerk", "clerk-1"), 10):
        for work in works:
            kind, given = work.execution_kind, work.input_payload
            ran.append(kind)
            print(f"{kind:<8} was given {given.decode() or 'nothing'}")
            if kind == "shop-c":
                reason = FailureReason("closed for today")
                await engine.fail(work.handle, reason, FailureClass.PERMANENT)
            elif kind in PRICES:
                order = json.loads(given)
                offer = {"shop": kind, "total": PRICES[kind] * order["pieces"]}
                await engine.complete(work.handle, json.dumps(offer).encode())
            elif kind == "choose":
                shops = [node[shop] for shop in PRICES]
                offers = [
                    json.loads(await engine.get_execution_result(shop) or b"{}") for shop in shops
                ]
                await engine.complete(
                    work.handle, json.dumps(min(offers, key=lambda offer: offer["total"])).encode()
                )
            elif kind == "order":
                await engine.complete(work.handle, json.dumps({"pieces": 4}).encode())
            else:
                await engine.complete(work.handle)
    return ran


async def main(path: str) -> None:
    async with await connect(f"sqlite:///{path}", dev=True) as engine:
        flow = uuid4()
        kinds = ("order", "shop-a", "shop-b", "shop-c", "choose", "book", "record", "done")
        node = {kind: ExecutionId.for_flow(flow) for kind in kinds}
        shops = ("shop-a", "shop-b", "shop-c")

        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=flow,
                nodes=[
                    CreateExecutionArgs(execution_id=node[kind], lane_id=LANE, execution_kind=kind)
                    for kind in kinds
                ],
                edges=[
                    *(
                        GraphEdge(node["order"], node[shop], data_passing_ref="order")
                        for shop in shops
                    ),
                    *(GraphEdge(node[shop], node["choose"]) for shop in shops),
                    *(
                        GraphEdge(node["choose"], node[after], data_passing_ref="offer")
                        for after in ("book", "record")
                    ),
                    *(GraphEdge(node[before], node["done"]) for before in ("book", "record")),
                ],
                policies={node["choose"]: EdgePolicy.quorum(2, OnSatisfied.LET_RUN)},
            )
        )

        ran = await run_all(engine, node)
        await draw(engine, flow)

        assert (
            ran[0] == "order"
            and set(ran[1:4]) == set(shops)
            and ran[4] == "choose"
            and ran[-1] == "done"
        )
        assert json.loads(await engine.get_execution_result(node["choose"]) or b"{}") == {
            "shop": "shop-b",
            "total": 100,
        }
        states = {kind: (await engine.read_execution_state(node[kind])) for kind in kinds}
        assert states.pop("shop-c") == "failed"
        assert set(states.values()) == {"completed"}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "pipeline.db")))
