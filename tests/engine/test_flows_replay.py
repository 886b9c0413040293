"""A skipped member started again: what it waits for then, and what decides it."""

from __future__ import annotations

import json

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import StateError, StateKind, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Replayed, ReplayExecutionArgs
from flowfabric.model.flow import EdgePolicy
from flowfabric.model.state import PublicState
from flowfabric.plan import Answer, Plan, Refused
from flowfabric.rules.flows.flows import MemberState, project
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .flow_helpers import (
    connect,
    counters,
    edge_row,
    empty_flow,
    finish,
    group_row,
    hold,
    rows_of,
    siblings_left,
    states,
    submit,
)
from .helpers import attempt, dump, outbox, row, state, told


async def replay(engine: Engine, ident: ExecutionId) -> Replayed:
    return await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))


async def test_a_skipped_child_waits_until_its_upstream_ended_anew(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a", "failed")
    clock.advance(10)
    assert await replay(engine, graph["b"]) == Replayed(PublicState.WAITING_CHILDREN)
    found = await row(engine, graph["b"])
    assert (await state(engine, graph["b"]), found.blocking_detail) == (
        "DEPS",
        "1 dep(s) unsatisfied after replay",
    )
    edge = await edge_row(engine, graph, "a>b")
    assert (edge.dep_state, edge.last_resolved_at_ms, edge.reset_at_ms) == (
        "unsatisfied",
        None,
        clock(),
    )
    assert await counters(engine, graph, "b") == (0, 0, 0, 1, "pending")
    event = (await outbox(engine, "ff_operator_event", graph["b"]))[-1]
    assert event["event_type"] == "replayed"
    assert json.loads(event["details"]) == {"branch": "skipped_flow_member", "groups_reset": 1}
    await engine.cascade_completion(graph["a"])
    await engine.recheck_blocked()
    assert await state(engine, graph["b"]) == "DEPS", "the old failure does not count again"
    clock.advance(10)
    assert await replay(engine, graph["a"]) == Replayed(PublicState.WAITING)
    await finish(engine, graph, "a")
    assert await state(engine, graph["b"]) == "READY"
    assert await counters(engine, graph, "b") == (1, 0, 0, 0, "satisfied")
    await finish(engine, graph, "b")
    assert (await told(engine, graph["b"]))["DONE"] == ["skipped", "success"]


async def test_an_upstream_that_fails_again_skips_the_child_again(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b b>c")
    await finish(engine, graph, "a", "failed")
    clock.advance(10)
    await replay(engine, graph["b"])
    clock.advance(10)
    await replay(engine, graph["a"])
    await finish(engine, graph, "a", "failed")
    assert await states(engine, graph, "b c") == {"b": "ENDED(skipped)", "c": "ENDED(skipped)"}
    assert (await told(engine, graph["b"]))["DONE"] == ["skipped", "skipped"]
    assert (await told(engine, graph["c"]))["DONE"] == ["skipped"]


async def test_an_upstream_that_has_succeeded_meanwhile_counts_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a", "failed")
    clock.advance(10)
    await replay(engine, graph["a"])
    await finish(engine, graph, "a")
    assert await state(engine, graph["b"]) == "ENDED(skipped)"
    assert await replay(engine, graph["b"]) == Replayed(PublicState.WAITING_CHILDREN)
    assert await state(engine, graph["b"]) == "READY"
    assert await counters(engine, graph, "b") == (1, 0, 0, 0, "satisfied")


async def test_satisfied_edges_stay_so_and_only_the_others_are_waited_for(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>d b>d c>d")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b", "failed")
    clock.advance(10)
    await replay(engine, graph["d"])
    assert await counters(engine, graph, "d") == (1, 0, 0, 2, "pending")
    assert (await row(engine, graph["d"])).blocking_detail == "2 dep(s) unsatisfied after replay"
    await finish(engine, graph, "c")
    assert await state(engine, graph["d"]) == "DEPS"
    clock.advance(10)
    await replay(engine, graph["b"])
    await finish(engine, graph, "b")
    assert await counters(engine, graph, "d") == (3, 0, 0, 0, "satisfied")
    assert await state(engine, graph["d"]) == "READY"


async def test_a_group_lost_with_siblings_queued_is_open_again_and_off_the_queue(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>d b>d c>d", policies={"d": EdgePolicy.quorum(2)})
    with siblings_left(engine):
        await finish(engine, graph, "a", "failed")
        await finish(engine, graph, "b", "failed")
    assert len(await rows_of(engine, "ff_pending_cancel_groups")) == 1
    clock.advance(10)
    await replay(engine, graph["d"])
    group = await group_row(engine, graph, "d")
    assert (group.cancel_siblings_pending_flag, group.cancel_siblings_pending_members) == (0, "[]")
    assert await rows_of(engine, "ff_pending_cancel_groups") == []
    assert await counters(engine, graph, "d") == (0, 0, 0, 3, "pending")
    clock.advance(10)
    await replay(engine, graph["a"])
    await finish(engine, graph, "a")
    await finish(engine, graph, "c")
    assert await state(engine, graph["d"]) == "READY"


async def test_a_child_skipped_while_running_reopens_its_attempt(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await empty_flow(engine, "a", "p")
    await hold(engine, graph, "p")
    await connect(engine, graph, "a>p")
    await finish(engine, graph, "a", "failed")
    clock.advance(10)
    await replay(engine, graph["p"])
    assert (await row(engine, graph["p"])).attempt_state == "pending_replay_attempt"
    assert (await attempt(engine, graph["p"])).attempt_state == "created"
    clock.advance(10)
    await replay(engine, graph["a"])
    await finish(engine, graph, "a")
    await finish(engine, graph, "p")
    assert await state(engine, graph["p"]) == "ENDED(success)"


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled"])
async def test_a_member_that_ended_by_itself_starts_again_as_usual(
    engine: Engine, outcome: str
) -> None:
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b", outcome)
    assert await replay(engine, graph["b"]) == Replayed(PublicState.WAITING)
    assert await counters(engine, graph, "b") == (1, 0, 0, 0, "satisfied")
    event = (await outbox(engine, "ff_operator_event", graph["b"]))[-1]
    assert json.loads(event["details"]) == {"branch": "normal"}


@pytest.mark.parametrize("again", ["a", "b"])
async def test_a_replay_makes_a_settled_flow_move_again(engine: Engine, again: str) -> None:
    """b was skipped."""
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a", "failed")
    assert await states(engine, graph, "b") == {"b": "ENDED(skipped)"}
    assert await engine.project_flow_summary(graph.flow)
    assert await engine.unsettled_flows(None, 10) == []
    await replay(engine, graph[again])
    assert [f.flow_id for f in await engine.unsettled_flows(None, 10)] == [graph.flow]


@pytest.mark.meets("replay", "flow")
async def test_a_replay_and_the_flow_it_reopens_are_one_commit(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await submit(engine, "a b")
    for name in ("a", "b"):
        await finish(engine, graph, name)
    assert await engine.project_flow_summary(graph.flow)
    assert (await rows_of(engine, "ff_flow_core"))[0]["settled_at_ms"] is not None
    honest, commits = engine.store.commit, 0

    async def dies_after_the_first(plan: Plan) -> Answer:
        nonlocal commits
        commits += 1
        if commits > 1:
            raise TransportError("commit", "the process is gone")
        return await honest(plan)

    monkeypatch.setattr(engine.store, "commit", dies_after_the_first)
    await replay(engine, graph["a"])
    monkeypatch.undo()
    assert (await rows_of(engine, "ff_flow_core"))[0]["settled_at_ms"] is None
    assert check(snapshot_of(await engine.store.dump(TABLES_READ))) == []


@pytest.mark.meets("replay", "flow")
async def test_a_projector_that_counted_before_a_replay_does_not_settle_the_flow(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a")
    await finish(engine, graph, "a")
    (before,) = await engine.unsettled_flows(None, 10)
    ended = MemberState(graph["a"].uuid, "completed", None)
    late = project(before, [ended], await engine.store.now_ms())
    await replay(engine, graph["a"])
    assert isinstance(await engine.store.commit(late), Refused)
    assert (await rows_of(engine, "ff_flow_core"))[0]["settled_at_ms"] is None


@pytest.mark.meets("replay", "retention", "flow")
@pytest.mark.parametrize("outcome", ["failed", "success"])
async def test_a_member_whose_upstream_was_removed_is_not_replayed(
    engine: Engine, clock: ManualClock, outcome: str
) -> None:
    graph = await submit(engine, "a>b a>c")
    await finish(engine, graph, "a", outcome)
    if outcome == "success":
        for name in "bc":
            await finish(engine, graph, name, "failed")
    await engine.parts.core.cascade.finish()
    clock.advance(8 * 86_400_000)
    await engine.dispatch_completions()
    assert await engine.trim_retention("a") == 1
    before = await dump(engine)
    with pytest.raises(
        StateError, match=f"retention has removed upstream member {graph['a'].uuid}"
    ) as caught:
        await replay(engine, graph["b"])
    assert caught.value.kind is StateKind.DEPS_NOT_SATISFIED
    assert await dump(engine) == before
