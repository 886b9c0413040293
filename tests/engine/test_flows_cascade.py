"""What follows an end: every way to end resolves edges, groups fire once, results are passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import permutations
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationKind
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.flow import Cascaded, EdgePolicy, Resolved
from flowfabric.model.lease import CompleteExecutionArgs, FailExecutionArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    add,
    change_row,
    connect,
    counters,
    crashing,
    edge_row,
    empty_flow,
    finish,
    group_key,
    hold,
    resolving,
    stage,
    states,
    still,
    submit,
    undispatched,
)
from .helpers import (
    GRACE_MS,
    TTL_MS,
    claim,
    create,
    fence,
    invalid,
    row,
    state,
    told,
    two_stores,
    worker,
)

End = Callable[[Engine, Graph, ManualClock], Awaitable[None]]


async def complete(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    await engine.complete(await hold(engine, graph, "a"), b"x")


async def complete_several(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    assert await engine.complete_many([(await hold(engine, graph, "a"), b"x")]) == [None]


async def complete_and_go_on(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    handle = await hold(engine, graph, "a")
    assert await engine.complete_and_claim([(handle, b"x")], "nothing", (), worker(), 1) == (
        [None],
        [],
    )


async def complete_typed(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    handle = await hold(engine, graph, "a")
    args = CompleteExecutionArgs(execution_id=graph["a"], fence=fence(handle), attempt_index=0)
    await engine.complete_execution(args)


async def fail(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    await engine.fail(await hold(engine, graph, "a"), "no", FailureClass.PERMANENT)


async def fail_typed(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    handle = await hold(engine, graph, "a")
    args = FailExecutionArgs(
        execution_id=graph["a"],
        fence=fence(handle),
        attempt_index=0,
        failure_reason="no",
        failure_category="permanent",
    )
    await engine.fail_execution(args)


async def give_up(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    await engine.cancel(await hold(engine, graph, "a"), "no")


async def cancel_waiting(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    await engine.cancel_execution(CancelExecutionArgs(execution_id=graph["a"]))


async def cancel_running(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    await hold(engine, graph, "a")
    await engine.cancel_execution(CancelExecutionArgs(execution_id=graph["a"]))


async def miss_deadline(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    clock.advance(100_000)
    await engine.expire_execution(graph["a"], "execution_deadline")


async def time_out(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    await hold(engine, graph, "a")
    clock.advance(1_000)
    await engine.expire_execution(graph["a"], "attempt_timeout")


async def be_lost_too_often(engine: Engine, graph: Graph, clock: ManualClock) -> None:
    for _ in range(2):
        await claim(engine, lane="a")
        clock.advance(TTL_MS)
        await engine.mark_lease_expired_if_due(graph["a"])
        clock.advance(GRACE_MS)
        await engine.requeue_lost(graph["a"])


ENDS: dict[str, tuple[End, str]] = {
    "complete": (complete, "success"),
    "complete_many": (complete_several, "success"),
    "complete_and_claim": (complete_and_go_on, "success"),
    "complete_execution": (complete_typed, "success"),
    "fail for good": (fail, "failed"),
    "fail_execution": (fail_typed, "failed"),
    "holder cancel": (give_up, "cancelled"),
    "cancel of a waiting one": (cancel_waiting, "cancelled"),
    "cancel of a running one": (cancel_running, "cancelled"),
    "deadline": (miss_deadline, "expired"),
    "attempt timeout": (time_out, "expired"),
    "too many losses": (be_lost_too_often, "failed"),
}
LIMITED = ExecutionPolicy(
    timeout_policy=TimeoutPolicy(attempt_timeout_ms=1_000),
    retry_policy=RetryPolicy(max_retries=0, backoff={}),
    max_reclaim_count=1,
)


@pytest.mark.parametrize(("end", "outcome"), ENDS.values(), ids=ENDS.keys())
async def test_every_way_to_end_resolves_the_edges_at_once(
    engine: Engine, clock: ManualClock, end: End, outcome: str
) -> None:
    said = {"execution_deadline_at": clock() + 100_000}
    if outcome == "expired":
        said["policy"] = LIMITED  # type: ignore[assignment]
    if end is be_lost_too_often:
        said = {"policy": ExecutionPolicy(max_reclaim_count=1)}  # type: ignore[dict-item]
    graph = await submit(engine, "a>b a>c c>d", nodes={"a": said})
    await end(engine, graph, clock)
    assert await state(engine, graph["a"]) == f"ENDED({outcome})"
    good = outcome == "success"
    child = "READY" if good else "ENDED(skipped)"
    assert await states(engine, graph, "b c d") == {
        "b": child,
        "c": child,
        "d": "DEPS" if good else child,
    }
    assert (await edge_row(engine, graph, "a>b")).dep_state == (
        "satisfied" if good else "impossible"
    )
    assert await counters(engine, graph, "b") == (
        (1, 0, 0, 0, "satisfied") if good else (0, 1, 0, 0, "impossible")
    )
    assert (await told(engine, graph["a"]))["DONE"] == [outcome]
    assert await undispatched(engine) == []


@pytest.mark.parametrize(("end", "outcome"), ENDS.values(), ids=ENDS.keys())
async def test_an_edge_of_the_kind_ended_is_content_with_any_end(
    engine: Engine, clock: ManualClock, end: End, outcome: str
) -> None:
    said = {"execution_deadline_at": clock() + 100_000}
    if outcome == "expired":
        said["policy"] = LIMITED  # type: ignore[assignment]
    if end is be_lost_too_often:
        said = {"policy": ExecutionPolicy(max_reclaim_count=1)}  # type: ignore[dict-item]
    graph = await submit(
        engine, "a>b a>c x>b", nodes={"a": said}, kinds={"a>b": "ended"}, refs={"a>b": "r"}
    )
    await end(engine, graph, clock)
    assert await state(engine, graph["a"]) == f"ENDED({outcome})"
    assert await states(engine, graph, "b c") == {
        "b": "DEPS",
        "c": "READY" if outcome == "success" else "ENDED(skipped)",
    }
    assert (await edge_row(engine, graph, "a>b")).dep_state == "satisfied"
    assert await counters(engine, graph, "b") == (1, 0, 0, 1, "pending")
    await finish(engine, graph, "x")
    assert await state(engine, graph["b"]) == "READY"
    assert await undispatched(engine) == []


async def test_by_hand_an_edge_of_the_kind_ended_is_content_too(engine: Engine) -> None:
    graph = await submit(engine, "a>b", kinds={"a>b": "ended"})
    assert await engine.resolve_dependency(resolving(graph, "a>b", "failed")) == Resolved(
        "satisfied", "satisfied"
    )
    assert await state(engine, graph["b"]) == "READY"


@pytest.mark.parametrize(
    "end", [complete, complete_several, fail, give_up], ids=lambda f: f.__name__
)
async def test_a_member_claimed_before_it_joined_the_flow_resolves_its_edges_too(
    engine: Engine, clock: ManualClock, end: End
) -> None:
    graph = await empty_flow(engine, "b")
    await create(engine, execution_id=graph.mint("a"), lane_id="a")
    held = await hold(engine, graph, "a")
    await add(engine, graph, "a")
    await connect(engine, graph, "a>b")

    async def already(*_: object) -> object:
        return held

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.engine.test_flows_cascade.hold", already)
        await end(engine, graph, clock)
    good = end in (complete, complete_several)
    assert await state(engine, graph["b"]) == ("READY" if good else "ENDED(skipped)")


async def test_a_failure_that_is_retried_resolves_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    before = await counters(engine, graph, "b")
    for _ in range(3):
        await engine.fail(await hold(engine, graph, "a"), "again")
        assert await counters(engine, graph, "b") == before
        assert await state(engine, graph["b"]) == "DEPS"
        assert (await told(engine, graph["a"]))["DONE"] == []
        clock.advance(120_000)
        await engine.promote_delayed(graph["a"])
    await engine.fail(await hold(engine, graph, "a"), "again")
    assert await states(engine, graph) == {"a": "ENDED(failed)", "b": "ENDED(skipped)"}


async def test_a_lease_that_is_lost_or_an_execution_put_off_resolves_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    await engine.delay(await hold(engine, graph, "a"), clock() + 10)
    clock.advance(10)
    await engine.promote_delayed(graph["a"])
    await hold(engine, graph, "a")
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(graph["a"])
    clock.advance(GRACE_MS)
    await engine.requeue_lost(graph["a"])
    assert await counters(engine, graph, "b") == (0, 0, 0, 1, "pending")
    await finish(engine, graph, "a")
    assert await state(engine, graph["b"]) == "READY"


# ---- groups


POLICIES = {
    "all": (EdgePolicy.all_of(), 3),
    "any": (EdgePolicy.any_of("let_run"), 1),
    "two of three": (EdgePolicy.quorum(2, "let_run"), 2),
    "three of three": (EdgePolicy.quorum(3, "let_run"), 3),
}


@two_stores
@pytest.mark.parametrize(("policy", "needed"), POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("good", range(4))
async def test_the_order_of_ends_does_not_matter(
    engine: Engine, policy: EdgePolicy, needed: int, good: int
) -> None:
    outcomes = ["success"] * good + ["failed", "cancelled", "failed"][good:]
    for order in sorted(set(permutations(outcomes))):
        graph = await submit(engine, "a>d b>d c>d", policies={"d": policy})
        for name, outcome in zip("abc", order, strict=True):
            await finish(engine, graph, name, outcome)
        assert await state(engine, graph["d"]) == (
            "READY" if good >= needed else "ENDED(skipped)"
        ), order
        word = "satisfied" if good >= needed else "impossible"
        assert await counters(engine, graph, "d") == (good, 3 - good, 0, 0, word)
        await engine.cancel_flow(graph.flow)


async def test_a_quorum_of_three_in_five(engine: Engine) -> None:
    graph = await submit(
        engine, "a>x b>x c>x d>x e>x", policies={"x": EdgePolicy.quorum(3, "let_run")}
    )
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    assert await state(engine, graph["x"]) == "DEPS"
    await finish(engine, graph, "c", "failed")
    assert await state(engine, graph["x"]) == "DEPS"
    await finish(engine, graph, "d")
    assert await state(engine, graph["x"]) == "READY"
    await finish(engine, graph, "e")
    assert await counters(engine, graph, "x") == (4, 1, 0, 0, "satisfied")


async def test_a_quorum_of_three_in_five_is_lost_with_the_third_failure(engine: Engine) -> None:
    graph = await submit(
        engine, "a>x b>x c>x d>x e>x", policies={"x": EdgePolicy.quorum(3, "let_run")}
    )
    for name in "ab":
        await finish(engine, graph, name, "failed")
        assert await state(engine, graph["x"]) == "DEPS"
    await finish(engine, graph, "c", "failed")
    assert await state(engine, graph["x"]) == "ENDED(skipped)"
    await finish(engine, graph, "d")
    assert await counters(engine, graph, "x") == (1, 3, 0, 1, "impossible")
    assert await states(engine, graph, "e x") == {"e": "READY", "x": "ENDED(skipped)"}


@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_a_quorum_beyond_its_edges_is_lost_with_the_first_end(
    engine: Engine, outcome: str
) -> None:
    graph = await empty_flow(engine, "a", "b", "x")
    await engine.set_edge_group_policy(graph.flow, graph["x"], EdgePolicy.quorum(3, "let_run"))
    await connect(engine, graph, "a>x", "b>x")
    await finish(engine, graph, "a", outcome)
    assert await state(engine, graph["x"]) == "ENDED(skipped)"


async def test_two_edges_between_the_same_two_count_twice_and_resolve_together(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a>b a>b")
    assert await counters(engine, graph, "b") == (0, 0, 0, 2, "pending")
    await finish(engine, graph, "a")
    assert await counters(engine, graph, "b") == (2, 0, 0, 0, "satisfied")
    assert await state(engine, graph["b"]) == "READY"


async def test_a_released_child_is_claimed_once_and_a_fired_group_does_not_touch_it(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a>c b>c", policies={"c": EdgePolicy.any_of("let_run")})
    await finish(engine, graph, "a")
    held = await hold(engine, graph, "c")
    before = await row(engine, graph["c"])
    await finish(engine, graph, "b", "failed")
    assert await row(engine, graph["c"]) == before
    await engine.complete(held)


# ---- the cascade by hand


async def test_a_cascade_may_be_repeated(engine: Engine) -> None:
    graph = await submit(engine, "a>b a>c")
    assert await engine.cascade_completion(graph["a"]) == Cascaded(0, 0), "it is not over"
    with crashing(engine):
        await finish(engine, graph, "a")
    assert await engine.cascade_completion(graph["a"]) == Cascaded(2, 0)
    before = await still(engine)
    assert await engine.cascade_completion(graph["a"]) == Cascaded(0, 0)
    assert await still(engine) == before


async def test_a_cascade_without_a_flow_or_an_execution_does_nothing(engine: Engine) -> None:
    graph = Graph()
    assert await engine.cascade_completion(graph.mint("nobody")) == Cascaded()
    await create(engine, execution_id=graph.mint("alone"), lane_id="alone")
    await finish(engine, graph, "alone")
    assert await engine.cascade_completion(graph["alone"]) == Cascaded()


async def test_a_cascade_continues_in_a_cancelled_flow(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    await engine.cancel_flow(graph.flow, "flow_only")
    await finish(engine, graph, "a")
    assert await state(engine, graph["b"]) == "READY"


async def test_an_edge_resolved_by_hand_returns_its_effect(engine: Engine) -> None:
    graph = await submit(
        engine, "a>c b>c c>d", policies={"c": EdgePolicy.quorum(2, "let_run")}, refs={"b>c": "r"}
    )
    assert await engine.resolve_dependency(resolving(graph, "a>c")) == Resolved(
        "satisfied", "pending"
    )
    before = await still(engine)
    assert await engine.resolve_dependency(resolving(graph, "a>c", "failed")) == Resolved(
        "already_resolved", "pending"
    )
    assert await still(engine) == before
    with crashing(engine):
        await finish(engine, graph, "b", result=b"from b")
    assert await engine.resolve_dependency(resolving(graph, "b>c")) == Resolved(
        "satisfied", "satisfied", data_injected=True
    )
    assert (await row(engine, graph["c"])).payload == b"from b"
    answer = await engine.resolve_dependency(resolving(graph, "c>d", "expired"))
    assert answer == Resolved("impossible", "impossible", child_skipped=True)
    assert await states(engine, graph, "c d") == {"c": "READY", "d": "ENDED(skipped)"}


async def test_only_an_applied_edge_can_be_resolved(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b")
    assert (
        await invalid(engine.resolve_dependency(resolving(graph, "a>b")))
    ).kind is ValidationKind.INVALID_DEPENDENCY


async def test_counters_beyond_the_edges_are_corrupt_and_roll_back(engine: Engine) -> None:
    graph = await submit(engine, "a>b a>c")
    await change_row(engine, "ff_edge_group", group_key(graph, "b"), running_count=0)
    before = await still(engine)
    error = await invalid(engine.resolve_dependency(resolving(graph, "a>b")))
    assert (error.kind, error.detail) == (
        ValidationKind.CORRUPTION,
        "edgegroup counters exceed n: 1/0",
    )
    assert await still(engine) == before


async def test_an_edge_that_fails_stops_no_other_and_its_event_stays_open(engine: Engine) -> None:
    graph = await submit(engine, "a>b a>c")
    await change_row(engine, "ff_edge_group", group_key(graph, "b"), running_count=0)
    await finish(engine, graph, "a")
    assert await states(engine, graph, "b c") == {"b": "DEPS", "c": "READY"}
    assert await undispatched(engine) == [graph["a"].uuid]
    await change_row(engine, "ff_edge_group", group_key(graph, "b"), running_count=1)
    assert await engine.dispatch_completions(grace_ms=0) == 1
    assert await state(engine, graph["b"]) == "READY"
    assert await undispatched(engine) == []


async def test_an_upstream_started_again_leaves_its_resolved_edge(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a")
    await engine.replay_execution(ReplayExecutionArgs(execution_id=graph["a"]))
    await finish(engine, graph, "a", "failed")
    assert await counters(engine, graph, "b") == (1, 0, 0, 0, "satisfied")
    assert await state(engine, graph["b"]) == "READY"


async def test_a_worker_that_completes_gets_the_successor_in_the_same_call(engine: Engine) -> None:
    graph = await submit(engine, "a>b b>c", nodes={key: {"lane_id": "line"} for key in "abc"})
    (work,) = await engine.claim_many("line", (), worker(), 1)
    for name in "bc":
        answers, works = await engine.complete_and_claim(
            [(work.handle, b"x")], "line", (), worker(), 1
        )
        assert answers == [None]
        (work,) = works
        assert work.execution_id == graph[name]
    assert await engine.complete_and_claim([(work.handle, b"x")], "line", (), worker(), 1) == (
        [None],
        [],
    )
    assert await states(engine, graph) == dict.fromkeys("abc", "ENDED(success)")


async def test_a_worker_that_gets_work_does_not_wait_for_the_cascade(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await submit(engine, "a>b c", nodes={key: {"lane_id": "line"} for key in "abc"})
    (work,) = await engine.claim_many("line", (), worker(), 1)
    cascade, going = engine.parts.core.cascade, asyncio.Event()
    resolve = cascade.resolver.resolve

    async def held(*args: Any) -> Any:
        await going.wait()
        return await resolve(*args)

    monkeypatch.setattr(cascade.resolver, "resolve", held)
    answers, works = await engine.complete_and_claim([(work.handle, b"x")], "line", (), worker(), 1)
    assert (answers, len(works)) == ([None], 1)
    assert await state(engine, graph["b"]) == "DEPS"
    going.set()
    await cascade.finish()
    assert (await state(engine, graph["b"]) == "DEPS") is (work.execution_id == graph["c"])
