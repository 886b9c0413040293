"""Upstreams of one group that end at the same moment in different processes: each counts once, the
child goes on once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Contention
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.flow import (
    Added,
    AddExecutionToFlowArgs,
    EdgePolicy,
    FlowAlreadyTerminal,
    FlowCancelled,
)
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.store.sqlite.registry import open_store
from flowfabric.testing import ManualClock
from tests.engine.flow_helpers import Graph, counters, empty_flow, submit
from tests.engine.helpers import create, outbox, state, worker
from tests.engine.test_flows_header import header
from tests.patience import patient

from .helpers import engines, place_of, sound_world

UPSTREAMS = 16
NAMES = [f"u{n}" for n in range(UPSTREAMS)]
both = pytest.mark.parametrize("kind", ["sqlite", "postgres", "valkey"])


@asynccontextmanager
async def two(kind: str, clock: ManualClock, folder: Path) -> AsyncIterator[list[Engine]]:
    if kind != "sqlite":
        async with engines(place_of(kind), 2, clock) as several:
            yield several
        return
    store = open_store(str(folder / "ff.db"), clock=clock)
    try:
        yield [Engine(store, seed=1), Engine(store, seed=2)]
    finally:
        await store.close()


async def held(engine: Engine, graph: Graph) -> list[Handle]:
    claims = [await engine.claim(name, (), ClaimPolicy("w", "w-1", 30_000, None)) for name in NAMES]
    return [handle for handle in claims if handle is not None]


async def settled(several: list[Engine], clock: ManualClock) -> None:
    """Includes work that a round may have left to the reconciler."""
    for engine in several:
        await engine.parts.core.cascade.finish()
    clock.advance(1_000)
    await several[0].dispatch_completions()
    await several[0].parts.core.cascade.finish()
    assert [
        e for e in await outbox(several[0], "ff_completion_event") if e["dispatched_at_ms"] is None
    ] == []


def fan_in(policy: EdgePolicy | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"text": " ".join(f"{name}>child" for name in NAMES)}
    return said if policy is None else {**said, "policies": {"child": policy}}


@both
@pytest.mark.parametrize("bad", [0, 1, UPSTREAMS])
async def test_sixteen_upstreams_ending_at_once_count_exactly(
    kind: str, bad: int, clock: ManualClock, tmp_path: Path
) -> None:
    async with two(kind, clock, tmp_path) as several:
        graph = await submit(several[0], **fan_in())
        handles = await held(several[0], graph)
        assert len(handles) == UPSTREAMS
        ends = [
            several[at % 2].fail(handle, "no", FailureClass.PERMANENT)
            if at < bad
            else several[at % 2].complete(handle, b"x")
            for at, handle in enumerate(handles)
        ]
        await asyncio.gather(*ends)
        await settled(several, clock)
        good = UPSTREAMS - bad
        word = "impossible" if bad else "satisfied"
        assert await counters(several[0], graph, "child") == (good, bad, 0, 0, word)
        assert await state(several[0], graph["child"]) == ("ENDED(skipped)" if bad else "READY")
        claims = await asyncio.gather(
            *(several[n % 2].claim("child", (), worker(n)) for n in range(4))
        )
        assert sum(handle is not None for handle in claims) == (0 if bad else 1)
        done = await outbox(several[0], "ff_completion_event", graph["child"])
        assert [e["outcome"] for e in done] == (["skipped"] if bad else [])
        await sound_world(several[0])


@both
async def test_of_sixteen_concurrent_ends_one_releases_the_child_once(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    async with two(kind, clock, tmp_path) as several:
        graph = await submit(several[0], **fan_in(EdgePolicy.any_of("let_run")))
        handles = await held(several[0], graph)
        await asyncio.gather(
            *(several[at % 2].complete(handle) for at, handle in enumerate(handles))
        )
        await settled(several, clock)
        assert await counters(several[0], graph, "child") == (UPSTREAMS, 0, 0, 0, "satisfied")
        claims = await asyncio.gather(
            *(several[n % 2].claim("child", (), worker(n)) for n in range(4))
        )
        assert sum(handle is not None for handle in claims) == 1
        await sound_world(several[0])


@both
async def test_siblings_cancelled_while_they_end_end_once(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    async with two(kind, clock, tmp_path) as several:
        graph = await submit(several[0], **fan_in(EdgePolicy.quorum(4)))
        handles = await held(several[0], graph)
        ends = [several[at % 2].complete(handle) for at, handle in enumerate(handles)]
        await asyncio.gather(*ends, return_exceptions=True)
        await settled(several, clock)
        await several[1].dispatch_sibling_cancels()
        await settled(several, clock)
        good, bad, skipped, open_still, word = await counters(several[0], graph, "child")
        assert (good + bad, skipped, open_still, word) == (UPSTREAMS, 0, 0, "satisfied")
        assert good >= 4
        for name in NAMES:
            assert len(await outbox(several[0], "ff_completion_event", graph[name])) == 1
        await sound_world(several[0])


@both
async def test_upstreams_ended_and_cancelled_at_once_count_once_each(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    async with two(kind, clock, tmp_path) as several:
        graph = await submit(several[0], **fan_in())
        handles = await held(several[0], graph)
        calls: list[Any] = []
        for at, (name, handle) in enumerate(zip(NAMES, handles, strict=True)):
            calls.append(several[at % 2].complete(handle))
            calls.append(
                several[(at + 1) % 2].cancel_execution(
                    CancelExecutionArgs(execution_id=graph[name])
                )
            )
        await asyncio.gather(*calls, return_exceptions=True)
        await settled(several, clock)
        good, bad, skipped, open_still, _ = await counters(several[0], graph, "child")
        assert (good + bad, skipped, open_still) == (UPSTREAMS, 0, 0)
        outcomes = [
            e["outcome"]
            for name in NAMES
            for e in await outbox(several[0], "ff_completion_event", graph[name])
        ]
        assert (outcomes.count("success"), outcomes.count("cancelled")) == (good, bad)
        await sound_world(several[0])


@both
async def test_two_headers_at_once_cancel_once(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    async with two(kind, clock, tmp_path) as several:
        for _ in range(5):
            graph = await submit(several[0], " ".join(NAMES))
            answers = await asyncio.gather(
                *(e.cancel_flow_header(header(graph.flow)) for e in several)
            )
            kinds = sorted(type(answer).__name__ for answer in answers)
            assert kinds == [FlowAlreadyTerminal.__name__, FlowCancelled.__name__]
            assert (
                len(
                    [
                        e
                        for e in await outbox(several[0], "ff_operator_event")
                        if e["execution_id"] == graph.flow
                    ]
                )
                == 1
            )
            assert {await state(several[0], graph[name]) for name in NAMES} == {"ENDED(cancelled)"}


async def added(engine: Engine, args: AddExecutionToFlowArgs) -> Any:
    """Repeats the call that was refused after three lost tries."""
    async with patient(10):
        while True:
            with suppress(Contention):
                return await engine.add_execution_to_flow(args)


@both
async def test_two_processes_adding_members_count_exactly(
    kind: str, clock: ManualClock, tmp_path: Path
) -> None:
    async with two(kind, clock, tmp_path) as several:
        graph = await empty_flow(several[0])
        for name in NAMES:
            await create(several[0], execution_id=graph.mint(name))

        async def adding(engine: Engine, names: list[str]) -> list[Any]:
            return [
                await added(
                    engine, AddExecutionToFlowArgs(flow_id=graph.flow, execution_id=graph[n])
                )
                for n in names
            ]

        answers = await asyncio.gather(
            adding(several[0], NAMES[::2]), adding(several[1], NAMES[1::2])
        )
        counts = sorted(
            answer.new_node_count
            for some in answers
            for answer in some
            if isinstance(answer, Added)
        )
        assert counts == list(range(1, UPSTREAMS + 1))
        found = await several[0].describe_flow(graph.flow)
        assert found is not None and (found.node_count, found.graph_revision) == (
            UPSTREAMS,
            UPSTREAMS,
        )
