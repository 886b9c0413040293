"""Siblings of a fired group: which are cancelled, with which reason, and after a crash in
between.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind
from flowfabric.model.flow import EdgePolicy, Reconciled
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    change_row,
    counters,
    finish,
    flow_key,
    group_key,
    group_row,
    hold,
    put_row,
    rows_of,
    siblings_left,
    states,
    still,
    submit,
    undispatched,
)
from .helpers import invalid, refused, row, state, told

QUEUE = "ff_pending_cancel_groups"
FATES = {"orphaned": 0, "skipped_for_reconciler": 0, "dispatched": 0}


async def fired(engine: Engine, policy: EdgePolicy, outcomes: dict[str, str]) -> Graph:
    """a, b and c before d, where c runs; d's group has fired and no sibling is cancelled yet."""
    graph = await submit(engine, "a>d b>d c>d", policies={"d": policy})
    await hold(engine, graph, "c")
    with siblings_left(engine):
        for name, outcome in outcomes.items():
            await finish(engine, graph, name, outcome)
    return graph


@pytest.mark.parametrize(
    ("policy", "outcomes", "word", "child"),
    [
        (EdgePolicy.any_of(), {"a": "success"}, "satisfied", "READY"),
        (EdgePolicy.quorum(2), {"a": "failed", "b": "failed"}, "impossible", "ENDED(skipped)"),
    ],
    ids=["satisfied", "impossible"],
)
async def test_a_fired_group_lists_its_siblings_and_the_dispatcher_cancels_them(
    engine: Engine,
    clock: ManualClock,
    policy: EdgePolicy,
    outcomes: dict[str, str],
    word: str,
    child: str,
) -> None:
    graph = await fired(engine, policy, outcomes)
    group = await group_row(engine, graph, "d")
    left = {graph[name].uuid for name in "abc" if name not in outcomes}
    assert (group.cancel_siblings_pending_flag, group.cancel_siblings_reason) == (
        1,
        f"sibling_quorum_{word}",
    )
    assert {UUID(text) for text in json.loads(group.cancel_siblings_pending_members)} == left
    assert [r["enqueued_at_ms"] for r in await rows_of(engine, QUEUE)] == [clock()]
    assert await state(engine, graph["d"]) == child
    assert await engine.dispatch_sibling_cancels() == {**FATES, "dispatched": 1}
    for name in "abc":
        if name not in outcomes:
            found = await row(engine, graph[name])
            assert (found.cancellation_reason, found.cancelled_by) == (
                f"sibling_quorum_{word}",
                "operator_override",
            )
    group = await group_row(engine, graph, "d")
    assert (group.cancel_siblings_pending_flag, group.cancel_siblings_pending_members) == (0, "[]")
    assert group.cancel_siblings_reason == f"sibling_quorum_{word}", "kept for later reads"
    assert await rows_of(engine, QUEUE) == []
    assert await engine.dispatch_sibling_cancels() == FATES


@pytest.mark.parametrize(
    "policy", [EdgePolicy.any_of(), EdgePolicy.quorum(1)], ids=["any_of", "quorum"]
)
@pytest.mark.meets("flow", "quorum", "cancel")
async def test_siblings_are_cancelled_in_the_call_that_fires_the_group(
    engine: Engine, policy: EdgePolicy
) -> None:
    graph = await submit(engine, "a>d b>d c>d", policies={"d": policy})
    held = await hold(engine, graph, "c")
    await finish(engine, graph, "a")
    assert await states(engine, graph, "b c d") == {
        "b": "ENDED(cancelled)",
        "c": "ENDED(cancelled)",
        "d": "READY",
    }
    assert await told(engine, graph["b"]) == {"LEASE": [], "DONE": ["cancelled"], "OPER": []}
    assert await told(engine, graph["c"]) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["cancelled"],
        "OPER": [],
    }
    await refused(engine.complete(held), ContentionKind.LEASE_CONFLICT)
    assert await counters(engine, graph, "d") == (1, 2, 0, 0, "satisfied")
    assert await rows_of(engine, QUEUE) == []
    assert await undispatched(engine) == []


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [
        (EdgePolicy.any_of("let_run"), {"a": "success"}),
        (EdgePolicy.quorum(2, "let_run"), {"a": "failed", "b": "failed"}),
        (EdgePolicy.all_of(), {"a": "failed"}),
    ],
    ids=["satisfied", "impossible", "all_of"],
)
async def test_siblings_that_may_run_are_never_listed(
    engine: Engine, policy: EdgePolicy, outcomes: dict[str, str]
) -> None:
    graph = await submit(engine, "a>d b>d c>d", policies={"d": policy})
    held = await hold(engine, graph, "c")
    for name, outcome in outcomes.items():
        await finish(engine, graph, name, outcome)
    group = await group_row(engine, graph, "d")
    assert (group.cancel_siblings_pending_flag, group.cancel_siblings_pending_members) == (0, "[]")
    assert group.cancel_siblings_reason is None
    assert await rows_of(engine, QUEUE) == []
    await engine.complete(held)
    assert await state(engine, graph["c"]) == "ENDED(success)"


async def test_a_cancelled_sibling_counts_for_its_other_downstreams(engine: Engine) -> None:
    graph = await submit(engine, "a>d b>d b>e e>f", policies={"d": EdgePolicy.any_of()})
    await finish(engine, graph, "a")
    assert await states(engine, graph, "b e f") == {
        "b": "ENDED(cancelled)",
        "e": "ENDED(skipped)",
        "f": "ENDED(skipped)",
    }


async def test_a_group_without_siblings_left_is_queued_all_the_same(engine: Engine) -> None:
    graph = await submit(engine, "a>d", policies={"d": EdgePolicy.any_of()})
    with siblings_left(engine):
        await finish(engine, graph, "a")
    assert (await group_row(engine, graph, "d")).cancel_siblings_pending_members == "[]"
    assert len(await rows_of(engine, QUEUE)) == 1
    assert await engine.dispatch_sibling_cancels() == {**FATES, "dispatched": 1}
    assert await rows_of(engine, QUEUE) == []


async def test_two_edges_from_one_sibling_list_it_once(engine: Engine) -> None:
    graph = await submit(engine, "a>d b>d b>d", policies={"d": EdgePolicy.any_of()})
    with siblings_left(engine):
        await finish(engine, graph, "a")
    assert json.loads((await group_row(engine, graph, "d")).cancel_siblings_pending_members) == [
        str(graph["b"].uuid)
    ]


async def test_a_fired_group_is_not_flagged_again_by_later_ends(engine: Engine) -> None:
    graph = await submit(engine, "a>d b>d c>d", policies={"d": EdgePolicy.any_of()})
    with siblings_left(engine):
        await finish(engine, graph, "a")
    await engine.drain_sibling_cancel_group(graph.flow, graph["d"].uuid)
    await finish(engine, graph, "b")
    assert (await group_row(engine, graph, "d")).cancel_siblings_pending_flag == 0
    assert await states(engine, graph, "c d") == {"c": "READY", "d": "READY"}


# ---- the dispatcher's table


async def test_the_dispatcher_forgets_a_queued_group_that_does_not_exist(engine: Engine) -> None:
    graph = await submit(engine, "a>d")
    await put_row(engine, QUEUE, **flow_key(graph), downstream_eid=uuid4(), enqueued_at_ms=5)
    assert await engine.dispatch_sibling_cancels() == {**FATES, "orphaned": 1}
    assert await rows_of(engine, QUEUE) == []


async def test_the_dispatcher_leaves_a_group_without_a_flag(engine: Engine) -> None:
    graph = await submit(engine, "a>d")
    await put_row(engine, QUEUE, **group_key(graph, "d"), enqueued_at_ms=5)
    assert await engine.dispatch_sibling_cancels() == {**FATES, "skipped_for_reconciler": 1}
    assert len(await rows_of(engine, QUEUE)) == 1
    assert await engine.reconcile_sibling_cancels() == 1
    assert await rows_of(engine, QUEUE) == []
    assert await state(engine, graph["a"]) == "READY"


async def test_the_dispatcher_takes_the_oldest_and_no_more_than_asked(
    engine: Engine, clock: ManualClock
) -> None:
    graphs = []
    for _ in range(3):
        clock.advance(10)
        graphs.append(await fired(engine, EdgePolicy.any_of(), {"a": "success"}))
        await engine.cancel_flow(graphs[-1].flow, "flow_only")
        for name in "bcd":
            await finish(engine, graphs[-1], name, "cancelled")
    assert await engine.dispatch_sibling_cancels(2) == {**FATES, "dispatched": 2}
    assert [r["flow_id"] for r in await rows_of(engine, QUEUE)] == [graphs[2].flow]


async def test_an_unknown_ended_or_unreadable_sibling_does_not_block_the_others(
    engine: Engine,
) -> None:
    graph = await fired(engine, EdgePolicy.any_of(), {"a": "success"})
    await finish(engine, graph, "b")
    listed = json.dumps([str(graph["b"].uuid), str(uuid4()), "nonsense", str(graph["c"].uuid)])
    await change_row(
        engine, "ff_edge_group", group_key(graph, "d"), cancel_siblings_pending_members=listed
    )
    await engine.dispatch_sibling_cancels()
    assert await states(engine, graph, "b c") == {"b": "ENDED(success)", "c": "ENDED(cancelled)"}
    assert await rows_of(engine, QUEUE) == []


async def test_a_group_without_a_reason_gives_the_usual_one(engine: Engine) -> None:
    graph = await fired(engine, EdgePolicy.any_of(), {"a": "success"})
    await change_row(engine, "ff_edge_group", group_key(graph, "d"), cancel_siblings_reason=None)
    await engine.dispatch_sibling_cancels()
    assert (await row(engine, graph["b"])).cancellation_reason == "sibling_quorum_satisfied"


# ---- drain and reconcile


async def test_draining_takes_a_group_off_the_queue(engine: Engine) -> None:
    graph = await fired(engine, EdgePolicy.any_of(), {"a": "success"})
    satisfied = (await group_row(engine, graph, "d")).satisfied_at_ms
    down = graph["d"].uuid
    assert await engine.drain_sibling_cancel_group(graph.flow, down) == "drained"
    group = await group_row(engine, graph, "d")
    assert (group.cancel_siblings_pending_flag, group.cancel_siblings_pending_members) == (0, "[]")
    assert (group.cancel_siblings_reason, group.satisfied_at_ms) == (
        "sibling_quorum_satisfied",
        satisfied,
    )
    assert await rows_of(engine, QUEUE) == []
    before = await still(engine)
    assert await engine.drain_sibling_cancel_group(graph.flow, down) == "already_drained"
    assert await still(engine) == before
    await put_row(engine, QUEUE, **flow_key(graph), downstream_eid=uuid4(), enqueued_at_ms=1)
    (orphan,) = await rows_of(engine, QUEUE)
    assert (
        await engine.drain_sibling_cancel_group(graph.flow, orphan["downstream_eid"])
        == "drained_sans_group"
    )
    assert await rows_of(engine, QUEUE) == []
    assert await states(engine, graph, "b c") == {"b": "READY", "c": "RUNNING"}


@pytest.mark.parametrize("method", ["drain_sibling_cancel_group", "reconcile_sibling_cancel_group"])
@pytest.mark.parametrize(("flow", "down"), [("", uuid4()), (uuid4(), ""), (None, None)])
async def test_empty_ids_are_refused(engine: Engine, method: str, flow: Any, down: Any) -> None:
    error = await invalid(getattr(engine, method)(flow, down))
    assert error.detail == "flow_id and downstream_eid required"


async def test_reconciling_never_cancels(engine: Engine) -> None:
    graph = await fired(engine, EdgePolicy.any_of(), {"a": "success"})
    down = graph["d"].uuid

    async def reconciled() -> Reconciled:
        return await engine.reconcile_sibling_cancel_group(graph.flow, down)

    before = await still(engine)
    assert await reconciled() == Reconciled("no_op", "siblings_running")
    assert await engine.reconcile_sibling_cancels() == 0
    assert await still(engine) == before
    await finish(engine, graph, "b")
    assert await reconciled() == Reconciled("no_op", "siblings_running")
    await finish(engine, graph, "c", "cancelled")
    assert await reconciled() == Reconciled("completed_drain")
    assert (await group_row(engine, graph, "d")).cancel_siblings_pending_flag == 0
    assert await reconciled() == Reconciled("no_op", "not_in_set")


async def test_reconciling_what_is_stale(engine: Engine) -> None:
    graph = await submit(engine, "a>d")
    orphan = uuid4()
    await put_row(engine, QUEUE, **flow_key(graph), downstream_eid=orphan, enqueued_at_ms=1)
    await put_row(engine, QUEUE, **group_key(graph, "d"), enqueued_at_ms=2)
    assert await engine.reconcile_sibling_cancel_group(graph.flow, orphan) == Reconciled(
        "sremmed_stale", "missing_edgegroup"
    )
    stale = await engine.reconcile_sibling_cancel_group(graph.flow, graph["d"].uuid)
    assert stale == Reconciled("sremmed_stale", "flag_cleared")
    assert await rows_of(engine, QUEUE) == []


async def test_a_queue_row_of_an_unknown_flow_is_deleted_and_does_not_block_others(
    engine: Engine,
) -> None:
    lost, graph = Graph(), await submit(engine, "a>d")
    await put_row(engine, QUEUE, **flow_key(lost), downstream_eid=lost.flow, enqueued_at_ms=1)
    await put_row(engine, QUEUE, **group_key(graph, "d"), enqueued_at_ms=2)
    assert await engine.reconcile_sibling_cancels() == 2
    assert await rows_of(engine, QUEUE) == []
    assert await engine.drain_sibling_cancel_group(lost.flow, lost.flow) == "already_drained"
    assert await engine.reconcile_sibling_cancel_group(lost.flow, lost.flow) == Reconciled(
        "no_op", "not_in_set"
    )
