"""One member that the database refuses to cancel: the flow and the others are cancelled all the
same, and it stays owed.
"""

from __future__ import annotations

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.flows import CancelReconciler
from flowfabric.model.flow import (
    CancelFlowArgs,
    CancelFlowPolicy,
    FlowCancelled,
    PartiallyCancelled,
)
from flowfabric.testing import ManualClock

from .flow_helpers import Graph, rows_of, states, submit
from .sabotage import not_to_be_cancelled

in_sql = pytest.mark.parametrize("engine", ["sqlite-file", "postgres"], indirect=True)
pytestmark = [in_sql, pytest.mark.meets("flow", "cancel")]


async def owed(engine: Engine) -> list[str]:
    return [row["execution_id"] for row in await rows_of(engine, "ff_cancel_backlog_member")]


async def cancelled_in_part(engine: Engine, graph: Graph, answer: object) -> None:
    assert isinstance(answer, PartiallyCancelled)
    assert answer.failed_member_execution_ids == [graph["b"]]
    assert sorted(answer.member_execution_ids) == sorted([graph["a"], graph["c"]])
    assert await states(engine, graph) == {
        "a": "ENDED(cancelled)",
        "b": "READY",
        "c": "ENDED(cancelled)",
    }


async def test_the_others_are_cancelled_and_the_reconciler_keeps_trying(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b c")
    loop = CancelReconciler(LoopSettings())
    async with not_to_be_cancelled(engine, graph["b"]):
        answer = await engine.cancel_flow(graph.flow)
        await cancelled_in_part(engine, graph, answer)
        described = await engine.describe_flow(graph.flow)
        assert described is not None and described.public_flow_state == "cancelled"
        for _ in range(2):
            clock.advance(30_000)
            await loop.run(engine)
            assert await owed(engine) == [str(graph["b"])]
    clock.advance(30_000)
    await loop.run(engine)
    assert await states(engine, graph) == dict.fromkeys("abc", "ENDED(cancelled)")
    assert await owed(engine) == [] and await rows_of(engine, "ff_cancel_backlog") == []


async def test_a_repetition_has_the_same_answer_until_it_succeeds(engine: Engine) -> None:
    graph = await submit(engine, "a b c")
    async with not_to_be_cancelled(engine, graph["b"]):
        await engine.cancel_flow(graph.flow)
        again = await engine.cancel_flow(graph.flow)
        assert again == PartiallyCancelled("cancel_all", [], [graph["b"]])
    assert await engine.cancel_flow(graph.flow) == FlowCancelled("cancel_all", [graph["b"]])


async def test_an_operators_request_is_answered_the_same_way(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b c")
    args = CancelFlowArgs(flow_id=graph.flow, reason="enough")
    async with not_to_be_cancelled(engine, graph["b"]):
        answer = await engine.cancel_flow_header(args)
        await cancelled_in_part(engine, graph, answer)
        assert sorted(await owed(engine)) == sorted(map(str, graph.ids.values()))
    clock.advance(30_000)
    await engine.reconcile_cancel_backlog()
    assert await states(engine, graph) == dict.fromkeys("abc", "ENDED(cancelled)")
    assert await owed(engine) == []


async def test_what_may_finish_is_not_reported_as_failed(engine: Engine) -> None:
    graph = await submit(engine, "a b c b>d")
    async with not_to_be_cancelled(engine, graph["d"]):
        answer = await engine.cancel_flow(graph.flow, CancelFlowPolicy.CANCEL_PENDING)
    assert isinstance(answer, PartiallyCancelled)
    assert answer.failed_member_execution_ids == [graph["d"]]
