"""Executions that cannot run any more are skipped, with their dependents; and the calls of a
blocked execution.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Contention, ContentionKind, NotFound, StateKind
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, FlowSubmitted, GraphEdge, SubmitFlowArgs
from flowfabric.model.lease import Handle
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    change_row,
    connect,
    counters,
    empty_flow,
    finish,
    group_key,
    hold,
    stage,
    states,
    submit,
    undispatched,
)
from .helpers import TTL_MS, attempt, attempts, create, new_id, outbox, refused, row, state, told


async def test_a_diamond_is_skipped_once(engine: Engine) -> None:
    graph = await submit(engine, "a>b a>c b>d c>d d>e")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b", "failed")
    assert await states(engine, graph, "c d e") == {
        "c": "READY",
        "d": "ENDED(skipped)",
        "e": "ENDED(skipped)",
    }
    await finish(engine, graph, "c")
    assert (await told(engine, graph["d"]))["DONE"] == ["skipped"]
    assert (await told(engine, graph["e"]))["DONE"] == ["skipped"]
    assert await counters(engine, graph, "d") == (1, 1, 0, 0, "impossible")
    assert await counters(engine, graph, "e") == (0, 0, 1, 0, "impossible")
    assert await undispatched(engine) == []


async def test_skips_and_failures_are_counted_apart(engine: Engine) -> None:
    graph = await submit(engine, "a>b b>d c>d", policies={"d": EdgePolicy.any_of("let_run")})
    await finish(engine, graph, "a", "failed")
    assert await counters(engine, graph, "d") == (0, 0, 1, 1, "pending")
    assert await state(engine, graph["d"]) == "DEPS"
    await finish(engine, graph, "c", "cancelled")
    assert await counters(engine, graph, "d") == (0, 1, 1, 0, "impossible")
    assert await state(engine, graph["d"]) == "ENDED(skipped)"


async def test_an_impossible_quorum_skips_the_child_and_its_grandchild(engine: Engine) -> None:
    graph = await submit(engine, "a>c b>c c>d", policies={"c": EdgePolicy.quorum(2, "let_run")})
    await finish(engine, graph, "a", "failed")
    assert await states(engine, graph, "b c d") == {
        "b": "READY",
        "c": "ENDED(skipped)",
        "d": "ENDED(skipped)",
    }


async def test_a_chain_of_sixty_is_skipped_fifty_one_levels_at_once_and_the_rest_by_their_events(
    engine: Engine, clock: ManualClock
) -> None:
    graph = Graph()
    names = [f"n{n}" for n in range(60)]
    nodes = [CreateExecutionArgs(execution_id=graph.mint(name), lane_id="n0") for name in names]
    edges = [GraphEdge(graph[f"n{n}"], graph[f"n{n + 1}"]) for n in range(59)]
    assert isinstance(
        await engine.submit_flow(SubmitFlowArgs(flow_id=graph.flow, nodes=nodes, edges=edges)),
        FlowSubmitted,
    )
    await finish(engine, graph, "n0", "failed")
    found = await states(engine, graph)
    assert [name for name in names if found[name] == "ENDED(skipped)"] == names[1:52]
    assert await undispatched(engine) == [graph["n51"].uuid]
    clock.advance(999)
    assert await engine.dispatch_completions() == 0
    clock.advance(1)
    assert await engine.dispatch_completions() == 1
    assert set((await states(engine, graph)).values()) == {"ENDED(failed)", "ENDED(skipped)"}
    assert await undispatched(engine) == []
    done = await outbox(engine, "ff_completion_event")
    assert sorted(r["outcome"] for r in done) == ["failed"] + ["skipped"] * 59


async def test_a_child_that_was_never_claimed_has_no_attempt_to_close(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    clock.advance(5)
    await finish(engine, graph, "a", "failed")
    found = await row(engine, graph["b"])
    assert (found.terminal_at_ms, found.attempt_state, found.lease_epoch) == (
        clock(),
        "pending_first_attempt",
        0,
    )
    assert await attempts(engine, graph["b"]) == []
    assert await told(engine, graph["b"]) == {"LEASE": [], "DONE": ["skipped"], "OPER": []}


# ---- a child that has begun already

LATE: dict[str, Callable[[Engine, Handle], Awaitable[Any]]] = {
    "complete": lambda e, h: e.complete(h, b"x"),
    "fail": lambda e, h: e.fail(h, "x"),
    "renew": lambda e, h: e.renew(h),
    "progress": lambda e, h: e.progress(h, 1, "x"),
    "wait_children": lambda e, h: e.wait_children(h),
    "cancel": lambda e, h: e.cancel(h),
}


@pytest.mark.parametrize("call", LATE.values(), ids=LATE.keys())
async def test_the_worker_of_a_skipped_child_gets_its_end(
    engine: Engine, clock: ManualClock, call: Callable[[Engine, Handle], Awaitable[Any]]
) -> None:
    graph = await empty_flow(engine, "a", "p", "z")
    held = await hold(engine, graph, "p")
    await connect(engine, graph, "a>p", "p>z")
    clock.advance(5)
    await finish(engine, graph, "a", "failed")
    found, closed = await row(engine, graph["p"]), await attempt(engine, graph["p"])
    assert await states(engine, graph, "p z") == {"p": "ENDED(skipped)", "z": "ENDED(skipped)"}
    assert (found.attempt_state, found.lease_epoch, found.terminal_at_ms) == (
        "attempt_terminal",
        1,
        clock(),
    )
    assert (closed.attempt_state, closed.outcome, closed.terminal_at_ms) == (
        "ended_cancelled",
        "skipped",
        clock(),
    )
    assert closed.failure_reason == "dependency_impossible"
    assert await told(engine, graph["p"]) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["skipped"],
        "OPER": [],
    }
    with pytest.raises(Contention) as caught:
        await call(engine, held)
    assert caught.value.kind is ContentionKind.EXECUTION_NOT_ACTIVE


async def lose(engine: Engine, clock: ManualClock, graph: Graph, held: Handle) -> None:
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(graph["p"])


async def put_off(engine: Engine, clock: ManualClock, graph: Graph, held: Handle) -> None:
    await engine.delay(held, clock() + 1_000)


async def park(engine: Engine, clock: ManualClock, graph: Graph, held: Handle) -> None:
    await engine.wait_children(held)


async def retry(engine: Engine, clock: ManualClock, graph: Graph, held: Handle) -> None:
    await engine.fail(held, "again")


@pytest.mark.parametrize("park_by", [lose, put_off, park])
async def test_an_interrupted_child_closes_its_attempt(
    engine: Engine, clock: ManualClock, park_by: Callable[..., Awaitable[None]]
) -> None:
    graph = await empty_flow(engine, "a", "p")
    held = await hold(engine, graph, "p")
    await connect(engine, graph, "a>p")
    await park_by(engine, clock, graph, held)
    await finish(engine, graph, "a", "failed")
    closed = await attempt(engine, graph["p"])
    assert await state(engine, graph["p"]) == "ENDED(skipped)"
    assert (closed.attempt_state, closed.outcome, closed.failure_reason) == (
        "ended_cancelled",
        "skipped",
        "dependency_impossible",
    )
    assert (await told(engine, graph["p"]))["DONE"] == ["skipped"]


async def test_a_child_between_attempts_keeps_the_attempt_it_had(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await empty_flow(engine, "a", "p")
    held = await hold(engine, graph, "p")
    await connect(engine, graph, "a>p")
    await retry(engine, clock, graph, held)
    before = await attempt(engine, graph["p"])
    await finish(engine, graph, "a", "failed")
    assert await state(engine, graph["p"]) == "ENDED(skipped)"
    assert await attempt(engine, graph["p"]) == before
    assert (await row(engine, graph["p"])).attempt_state == "attempt_terminal"


# ---- what an execution may ask


async def test_eligibility_in_a_word(engine: Engine) -> None:
    graph = await submit(engine, "a>b s t>u", policies={"u": EdgePolicy.any_of("let_run")})
    ask = engine.evaluate_flow_eligibility
    assert await ask(new_id()) == "not_found"
    assert await ask(graph["s"]) == "eligible"
    assert await ask(graph["b"]) == "blocked_by_dependencies"
    held = await hold(engine, graph, "s")
    assert await ask(graph["s"]) == "not_runnable"
    await engine.complete(held)
    assert await ask(graph["s"]) == "not_runnable"
    await finish(engine, graph, "a")
    assert await ask(graph["b"]) == "eligible"
    await engine.cancel_flow(graph.flow)
    assert await ask(graph["b"]) == "not_runnable"


async def test_eligibility_of_rows_from_elsewhere(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b")
    assert await engine.evaluate_flow_eligibility(graph["b"]) == "eligible", "nothing is applied"
    await engine.set_edge_group_policy(graph.flow, graph["a"], EdgePolicy.any_of())
    assert await engine.evaluate_flow_eligibility(graph["a"]) == "eligible", "a group without edges"
    key = group_key(graph, "a")
    await change_row(engine, "ff_edge_group", key, fail_count=1)
    assert await engine.evaluate_flow_eligibility(graph["a"]) == "impossible", "as the counters say"
    await change_row(engine, "ff_edge_group", key, group_state="satisfied")
    assert await engine.evaluate_flow_eligibility(graph["a"]) == "eligible", "as it is stored"
    await change_row(engine, "ff_edge_group", key, group_state="impossible")
    assert await engine.evaluate_flow_eligibility(graph["a"]) == "impossible"


async def test_promoting_is_refused_for_each_reason(engine: Engine) -> None:
    graph = await submit(engine, "a>b c")
    with pytest.raises(NotFound, match="execution"):
        await engine.promote_blocked_to_eligible(new_id())
    await refused(engine.promote_blocked_to_eligible(graph["b"]), StateKind.DEPS_NOT_SATISFIED)
    await refused(engine.promote_blocked_to_eligible(graph["c"]), StateKind.NOT_BLOCKED_BY_DEPS)
    held = await hold(engine, graph, "c")
    await refused(engine.promote_blocked_to_eligible(graph["c"]), StateKind.NOT_RUNNABLE)
    await engine.complete(held)
    await refused(engine.promote_blocked_to_eligible(graph["c"]), StateKind.NOT_RUNNABLE)


async def test_promoting_lets_go_of_what_waits_for_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b a>c", nodes={"c": {"delay_until": clock() + 100}})
    for name in "bc":
        await change_row(engine, "ff_edge_group", group_key(graph, name), running_count=0)
        assert await engine.promote_blocked_to_eligible(graph[name]) == "promoted"
    assert await states(engine, graph, "b c") == {"b": "READY", "c": "DELAYED"}
    await refused(engine.promote_blocked_to_eligible(graph["b"]), StateKind.NOT_BLOCKED_BY_DEPS)


async def test_the_flow_of_an_execution(engine: Engine) -> None:
    graph = await submit(engine, "a")
    assert await engine.resolve_execution_flow_id(graph["a"]) == graph.flow
    assert await engine.resolve_execution_flow_id(await create(engine)) is None
    assert await engine.resolve_execution_flow_id(new_id()) is None
    assert await engine.flow_members(uuid4()) == []
