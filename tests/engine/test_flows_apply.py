"""An edge takes effect: what it does to the child, to its group, and when its upstream is over
already.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Conflict, ConflictKind, ContentionKind, NotFound, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ChangePriorityArgs
from flowfabric.model.flow import AlreadyApplied, DependencyApplied, EdgePolicy
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.plan import Applied, Arg, Cond, Delete, Form
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    add,
    apply,
    apply_args,
    change_row,
    connect,
    counters,
    crashing,
    edge_row,
    empty_flow,
    finish,
    hold,
    stage,
    states,
    still,
    submit,
    undispatched,
)
from .helpers import create, invalid, refused, row, state, told, worker


async def built(engine: Engine, *words: str, **policies: EdgePolicy) -> Graph:
    """Members and staged edges, nothing applied."""
    graph = await empty_flow(
        engine, *dict.fromkeys(name for word in words for name in word.split(">"))
    )
    for name, policy in policies.items():
        await engine.set_edge_group_policy(graph.flow, graph[name], policy)
    await stage(engine, graph, *words)
    return graph


async def test_an_applied_edge_blocks_the_child(engine: Engine, clock: ManualClock) -> None:
    graph = await built(engine, "a>c", "b>c")
    clock.advance(7)
    assert await engine.apply_dependency_to_child(apply_args(graph, "a>c")) == DependencyApplied(1)
    edge = await edge_row(engine, graph, "a>c")
    assert (edge.edge_state, edge.dep_state, edge.applied_at_ms) == (
        "applied",
        "unsatisfied",
        clock(),
    )
    child = await row(engine, graph["c"])
    assert await state(engine, graph["c"]) == "DEPS"
    assert child.blocking_detail == f"1 dep(s) unresolved incl {graph.edges['a>c']}"
    assert child.last_transition_at == clock()
    assert await engine.apply_dependency_to_child(apply_args(graph, "b>c")) == DependencyApplied(2)
    assert (
        await row(engine, graph["c"])
    ).blocking_detail == f"2 dep(s) unresolved incl {graph.edges['b>c']}"
    assert await counters(engine, graph, "c") == (0, 0, 0, 2, "pending")
    assert await engine.claim("c", (), worker()) is None
    await refused(
        engine.change_priority(ChangePriorityArgs(execution_id=graph["c"], new_priority=3)),
        ContentionKind.EXECUTION_NOT_ELIGIBLE,
    )
    assert await told(engine, graph["c"]) == {"LEASE": [], "DONE": [], "OPER": []}


async def test_applying_again_writes_nothing(engine: Engine) -> None:
    graph = await built(engine, "a>b")
    await apply(engine, graph, "a>b")
    before = await still(engine)
    assert (
        await engine.apply_dependency_to_child(apply_args(graph, "a>b", graph_revision=99))
        == AlreadyApplied()
    )
    assert await still(engine) == before


async def test_applying_is_refused_in_order(engine: Engine) -> None:
    graph = await built(engine, "a>b")
    graph.mint("x")
    outside = ExecutionId.of(graph.partition ^ 1, uuid4())
    mismatch = (
        f"execution partition mismatch: expected {graph.partition}, got {graph.partition ^ 1}"
    )
    cases = [
        (apply_args(graph, "a>b", edge_id=uuid4(), upstream_execution_id=outside), mismatch),
        (apply_args(graph, "a>b", edge_id=uuid4(), downstream_execution_id=outside), mismatch),
        (
            apply_args(graph, "a>b", edge_id=uuid4(), upstream_execution_id=graph["x"]),
            "edge_not_found",
        ),
        (apply_args(graph, "a>b", upstream_execution_id=graph["x"]), "edge_endpoint_mismatch"),
        (apply_args(graph, "a>b", downstream_execution_id=graph["x"]), "edge_endpoint_mismatch"),
    ]
    before = await still(engine)
    for args, detail in cases:
        error = await invalid(engine.apply_dependency_to_child(args))
        assert (error.kind, error.detail) == (ValidationKind.INVALID_INPUT, detail)
    assert await still(engine) == before


async def test_an_applied_edge_answers_even_when_its_flow_is_over(engine: Engine) -> None:
    graph = await built(engine, "a>b", "a>c")
    await apply(engine, graph, "a>b")
    await engine.cancel_flow(graph.flow)
    assert await engine.apply_dependency_to_child(apply_args(graph, "a>b")) == AlreadyApplied()
    assert (
        await invalid(engine.apply_dependency_to_child(apply_args(graph, "a>c")))
    ).detail == "flow_already_terminal"


_KEY = tuple(Cond(column, "=", Arg(column)) for column in ("partition_key", "execution_id"))
REMOVE = Form("test_remove_execution", Delete("ff_exec_core", _KEY))


async def test_a_child_that_was_removed_or_is_in_another_flow_is_refused(engine: Engine) -> None:
    graph = await built(engine, "a>b", "a>c")
    await engine.cancel_flow(graph.flow, "flow_only")
    key = {"partition_key": graph.partition, "execution_id": graph["c"].uuid}
    await change_row(engine, "ff_exec_core", key, flow_id=uuid4())
    with pytest.raises(Conflict) as caught:
        await engine.apply_dependency_to_child(apply_args(graph, "a>c"))
    assert caught.value.kind is ConflictKind.EXECUTION_ALREADY_IN_FLOW
    assert isinstance(
        await engine.store.commit(
            REMOVE(partition_key=graph.partition, execution_id=graph["b"].uuid)
        ),
        Applied,
    )
    with pytest.raises(NotFound, match="execution"):
        await engine.apply_dependency_to_child(apply_args(graph, "a>b"))


async def test_the_staged_edge_counts_and_not_the_repeated_arguments(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b", data_passing_ref="r", dependency_kind="k")
    await engine.apply_dependency_to_child(
        apply_args(graph, "a>b", data_passing_ref=None, dependency_kind="other")
    )
    shown = await engine.describe_edge(graph.flow, graph.edges["a>b"])
    assert shown is not None and (
        shown.dependency_kind,
        shown.data_passing_ref,
        shown.edge_state,
    ) == ("k", "r", "applied")


# ---- the upstream is over already


@pytest.mark.parametrize(
    ("outcome", "child", "counted"),
    [
        ("success", "READY", (1, 0, 0, 0, "satisfied")),
        ("failed", "ENDED(skipped)", (0, 1, 0, 0, "impossible")),
        ("cancelled", "ENDED(skipped)", (0, 1, 0, 0, "impossible")),
    ],
)
async def test_an_upstream_already_over_is_counted_at_once(
    engine: Engine, outcome: str, child: str, counted: tuple[int, int, int, int, str]
) -> None:
    graph = await built(engine, "a>b")
    await finish(engine, graph, "a", outcome)
    assert await engine.apply_dependency_to_child(apply_args(graph, "a>b")) == DependencyApplied(1)
    assert await state(engine, graph["b"]) == child
    assert await counters(engine, graph, "b") == counted
    assert await undispatched(engine) == []


async def test_an_edge_applied_after_its_upstreams_event_was_seen_to_is_counted_too(
    engine: Engine,
) -> None:
    graph = await built(engine, "a>b", "a>c")
    await apply(engine, graph, "a>b")
    await finish(engine, graph, "a")
    assert await undispatched(engine) == []
    await apply(engine, graph, "a>c")
    assert await states(engine, graph) == {"a": "ENDED(success)", "b": "READY", "c": "READY"}


async def test_a_satisfied_all_of_group_waits_again_for_a_late_edge(engine: Engine) -> None:
    graph = await built(engine, "a>c", "b>c")
    await finish(engine, graph, "a")
    await apply(engine, graph, "a>c")
    assert await state(engine, graph["c"]) == "READY"
    await apply(engine, graph, "b>c")
    assert await state(engine, graph["c"]) == "DEPS"
    assert await counters(engine, graph, "c") == (1, 0, 0, 1, "pending")
    await finish(engine, graph, "b")
    assert await counters(engine, graph, "c") == (2, 0, 0, 0, "satisfied")
    assert await state(engine, graph["c"]) == "READY"


@pytest.mark.parametrize(
    "policy",
    [EdgePolicy.any_of("let_run"), EdgePolicy.quorum(1, "let_run")],
    ids=["any_of", "quorum"],
)
async def test_a_fired_group_counts_a_late_edge_and_lets_the_child_be(
    engine: Engine, policy: EdgePolicy
) -> None:
    graph = await built(engine, "a>c", "b>c", c=policy)
    await finish(engine, graph, "a")
    await apply(engine, graph, "a>c")
    await apply(engine, graph, "b>c")
    assert await state(engine, graph["c"]) == "READY"
    assert await counters(engine, graph, "c") == (1, 0, 0, 1, "satisfied")
    await finish(engine, graph, "b", "failed")
    assert await counters(engine, graph, "c") == (1, 1, 0, 0, "satisfied")
    assert await state(engine, graph["c"]) == "READY"


async def test_an_active_child_is_not_touched_by_new_edges(engine: Engine) -> None:
    graph = await built(engine, "a>p")
    handle = await hold(engine, graph, "p")
    before = await row(engine, graph["p"])
    assert await engine.apply_dependency_to_child(apply_args(graph, "a>p")) == DependencyApplied(1)
    assert await row(engine, graph["p"]) == before
    await finish(engine, graph, "a")
    assert await counters(engine, graph, "p") == (1, 0, 0, 0, "satisfied")
    assert await state(engine, graph["p"]) == "RUNNING"
    await engine.complete(handle, b"x")
    assert await state(engine, graph["p"]) == "ENDED(success)"


async def test_an_ended_child_only_counts(engine: Engine) -> None:
    graph = await built(engine, "a>b")
    await finish(engine, graph, "b")
    before = await row(engine, graph["b"])
    await apply(engine, graph, "a>b")
    await finish(engine, graph, "a", "failed")
    assert await row(engine, graph["b"]) == before
    assert await counters(engine, graph, "b") == (0, 1, 0, 0, "impossible")
    assert (await told(engine, graph["b"]))["DONE"] == ["success"]


async def test_a_delayed_child_is_blocked_and_keeps_its_time(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await empty_flow(engine, "a")
    await create(engine, execution_id=graph.mint("b"), lane_id="b", delay_until=clock() + 100)
    await add(engine, graph, "b")
    await connect(engine, graph, "a>b")
    assert await state(engine, graph["b"]) == "DEPS"
    await finish(engine, graph, "a")
    assert await state(engine, graph["b"]) == "DELAYED"


async def test_a_group_still_being_built_is_not_given_up(engine: Engine) -> None:
    """Fewer edges than the quorum so far, and none of them resolved: more may come."""
    graph = await built(engine, "a>d", "b>d", "c>d", d=EdgePolicy.quorum(2, "let_run"))
    await apply(engine, graph, "a>d")
    await engine.recheck_blocked()
    assert await state(engine, graph["d"]) == "DEPS"
    await apply(engine, graph, "b>d", "c>d")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    assert await state(engine, graph["d"]) == "READY"


async def test_a_worker_may_wait_while_its_quorum_is_being_built(engine: Engine) -> None:
    graph = await built(engine, "a>p", "b>p", p=EdgePolicy.quorum(2, "let_run"))
    handle = await hold(engine, graph, "p")
    await apply(engine, graph, "a>p")
    await engine.wait_children(handle)
    assert await state(engine, graph["p"]) == "DEPS"
    await apply(engine, graph, "b>p")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    assert await state(engine, graph["p"]) == "READY"


async def test_the_deadline_of_a_blocked_child_applies(engine: Engine, clock: ManualClock) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=50))
    said = {"execution_deadline_at": clock() + 100, "policy": policy}
    graph = await submit(engine, "a>b b>c", nodes={"b": said})
    clock.advance(100)
    await engine.expire_execution(graph["b"], "execution_deadline")
    assert await states(engine, graph) == {
        "a": "READY",
        "b": "ENDED(expired)",
        "c": "ENDED(skipped)",
    }
    await finish(engine, graph, "a")
    assert await counters(engine, graph, "b") == (1, 0, 0, 0, "satisfied")
    assert await told(engine, graph["b"]) == {"LEASE": [], "DONE": ["expired"], "OPER": []}


async def test_a_crash_right_after_applying_is_made_good(engine: Engine) -> None:
    graph = await built(engine, "a>b")
    await finish(engine, graph, "a")
    with crashing(engine):
        await apply(engine, graph, "a>b")
    assert await state(engine, graph["b"]) == "DEPS"
    assert (await engine.recheck_blocked())[0] == 1
    assert await state(engine, graph["b"]) == "READY"
    assert (await engine.recheck_blocked())[0] == 0
