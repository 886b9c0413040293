"""Flows: chains by many workers, a fan-out and its join, a race whose losers are cancelled, the
cost per node of a large graph.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from uuid import UUID, uuid4

from benchmarks.engines import LANE, opened
from benchmarks.raw import PAYLOAD
from benchmarks.report import Measured, percentile
from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId
from flowfabric.model.flow import EdgePolicy, GraphEdge, SubmitFlowArgs
from flowfabric.model.lease import Work

CHAIN, FAN_OUT, QUORUM, GRAPH = "flow-chain", "fan-out", "quorum-cancel", "graph-cost"
LENGTH = 10
WIDTH = 100
SIBLINGS = ((10, 400), (100, 120), (1_000, 20))
"""And how many rounds of each: a 99th percentile of a hundred would be the one hiccup among them.
"""
SMALL, LARGE = 100, 10_000
LAYER = 10
WARM_UP = 6
"""Postgres settles on a plan with the sixth call."""
ROUNDS = 3


def _node(ident: ExecutionId) -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ident, lane_id=LANE, execution_kind="bench", input_payload=PAYLOAD
    )


def graph_of(
    nodes: int, edges: list[tuple[int, int]], policies: dict[int, EdgePolicy] | None = None
) -> SubmitFlowArgs:
    flow = uuid4()
    idents = [ExecutionId.for_flow(flow) for _ in range(nodes)]
    return SubmitFlowArgs(
        flow_id=flow,
        nodes=[_node(ident) for ident in idents],
        edges=[GraphEdge(idents[up], idents[down]) for up, down in edges],
        policies={idents[at]: policy for at, policy in (policies or {}).items()},
    )


class Crew:
    """Workers that complete whatever comes until so many executions are done. As `Worker` does,
    each says in one call that it is done and asks for the next.
    """

    def __init__(self, engine: Engine, workers: int) -> None:
        self._engine, self._workers = engine, workers
        self._left = 0

    async def finish(self, count: int) -> None:
        self._left = count
        await asyncio.gather(*(self._work(number) for number in range(self._workers)))

    async def _work(self, number: int) -> None:
        policy = ClaimPolicy("bench", f"bench-{number}", 30_000, max_wait_ms=20)
        works: list[Work] = []
        while self._left > 0:
            if not works:
                works = await self._engine.claim_many(LANE, (), policy, 1)
                continue
            ends = [(work.handle, b"ok") for work in works]
            answers, works = await self._engine.complete_and_claim(ends, LANE, (), policy, 1)
            assert answers == [None]
            self._left -= 1


async def run_chain(store: str, n: int, workers: int) -> list[Measured]:
    """`n` flows of ten nodes in a line."""
    line = [(at, at + 1) for at in range(LENGTH - 1)]
    rates = []
    async with opened(store) as (engine, _):
        for _ in range(ROUNDS):
            graphs = [graph_of(LENGTH, line) for _ in range(n)]
            began = time.perf_counter()
            await asyncio.gather(*(engine.submit_flow(graph) for graph in graphs))
            await Crew(engine, workers).finish(n * LENGTH)
            rates.append(n / (time.perf_counter() - began))
    return [
        Measured(scenario=CHAIN, store=store, system="flowfabric", n=n, ops_per_s=median(rates))
    ]


async def run_fan_out(store: str, n: int, workers: int) -> list[Measured]:
    """One, then a hundred, then one again; `n` flows one after the other, each from its submission
    to its end.
    """
    edges = [(0, at) for at in range(1, WIDTH + 1)] + [
        (at, WIDTH + 1) for at in range(1, WIDTH + 1)
    ]
    samples = []
    async with opened(store) as (engine, _):
        for _ in range(n):
            graph = graph_of(WIDTH + 2, edges)
            began = time.perf_counter()
            await engine.submit_flow(graph)
            await Crew(engine, workers).finish(WIDTH + 2)
            samples.append(time.perf_counter() - began)
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    return [
        Measured(
            scenario=FAN_OUT,
            store=store,
            system="flowfabric",
            n=n,
            p50_ms=p50,
            p99_ms=p99,
            ops_per_s=1000 / p50,
        )
    ]


async def run_quorum(store: str, n: int, workers: int) -> list[Measured]:
    """The first of many that run wins: from its completion to all the others being cancelled. `n`
    limits the siblings.
    """
    results = []
    async with opened(store) as (engine, _):
        for siblings, rounds in SIBLINGS:
            if siblings > n:
                continue
            for _ in range(WARM_UP):
                await _race(engine, siblings)
            samples = [await _race(engine, siblings) for _ in range(rounds)]
            p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
            results.append(
                Measured(
                    scenario=f"{QUORUM}/{siblings}",
                    store=store,
                    system="flowfabric",
                    n=rounds,
                    p50_ms=p50,
                    p99_ms=p99,
                )
            )
    return results


async def _race(engine: Engine, siblings: int) -> float:
    graph = graph_of(
        siblings + 1, [(at, siblings) for at in range(siblings)], {siblings: EdgePolicy.any_of()}
    )
    await engine.submit_flow(graph)
    policy = ClaimPolicy("bench", "bench-1", 60_000)
    work: list[Work] = []
    while len(work) < siblings:
        work += await engine.claim_many(LANE, (), policy, min(100, siblings - len(work)))
    began = time.perf_counter()
    await engine.complete(work[0].handle, b"ok")
    took = time.perf_counter() - began
    await _check_race(engine, graph.flow_id, siblings)
    return took


async def _check_race(engine: Engine, flow: UUID, siblings: int) -> None:
    states = [member.public_state for member in await engine.flow_members(flow)]
    assert states.count("cancelled") == siblings - 1 and states.count("completed") == 1, states
    (last,) = await engine.claim_many(LANE, (), ClaimPolicy("bench", "bench-1", 60_000), 1)
    await engine.complete(last.handle, b"ok")


async def run_graph(store: str, n: int, workers: int) -> list[Measured]:
    """Microseconds per node, submitted and run to its end, in graphs of a hundred nodes and in one
    of `n`.
    """
    small, large = [], []
    async with opened(store) as (engine, _):
        await _layers(engine, SMALL, workers)
        for _ in range(ROUNDS):
            small += [await _layers(engine, SMALL, workers) / SMALL for _ in range(10)]
            large.append(await _layers(engine, n, workers) / n)
    few, many = median(small), median(large)
    return [
        Measured(
            scenario=f"{GRAPH}/{SMALL}",
            store=store,
            system="flowfabric",
            n=SMALL,
            ops_per_s=1 / few,
        ),
        Measured(
            scenario=f"{GRAPH}/{n}",
            store=store,
            system="flowfabric: cost per node against the small graph's",
            n=n,
            ops_per_s=1 / many,
            ratio_to_raw=many / few,
        ),
    ]


async def _layers(engine: Engine, nodes: int, workers: int) -> float:
    """Layers of ten; each node waits for two of the layer before."""
    edges = []
    for at in range(LAYER, nodes):
        layer, place = divmod(at, LAYER)
        edges += [
            ((layer - 1) * LAYER + place, at),
            ((layer - 1) * LAYER + (place + 1) % LAYER, at),
        ]
    graph = graph_of(nodes, edges)
    began = time.perf_counter()
    await engine.submit_flow(graph)
    await Crew(engine, workers).finish(nodes)
    return time.perf_counter() - began
