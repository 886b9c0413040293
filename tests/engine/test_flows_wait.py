"""A worker that waits for the executions its own depends on: before, while and after they end."""

from __future__ import annotations

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import EdgePolicy
from flowfabric.model.lease import Handle, HandleKind
from flowfabric.model.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    add,
    change_row,
    connect,
    crashing,
    empty_flow,
    finish,
    group_key,
    hold,
    states,
)
from .helpers import (
    TTL_MS,
    attempt,
    attempts,
    claim,
    create,
    fields,
    forged,
    outbox,
    refused,
    row,
    state,
    told,
    worker,
)


async def parent(
    engine: Engine, *children: str, policy: EdgePolicy | None = None
) -> tuple[Graph, Handle]:
    """A running member that does not wait yet, with edges to its children."""
    graph = await empty_flow(engine, "p", *children)
    if policy is not None:
        await engine.set_edge_group_policy(graph.flow, graph["p"], policy)
    held = await hold(engine, graph, "p")
    await connect(engine, graph, *(f"{child}>p" for child in children))
    return graph, held


async def claimable_once(engine: Engine, graph: Graph) -> Handle:
    """The same attempt continues under a new epoch, for one worker."""
    again = await claim(engine, worker(2), lane="p")
    assert again.kind is HandleKind.RESUMED
    assert fields(again).execution_id == graph["p"]
    assert (fields(again).attempt_index, len(await attempts(engine, graph["p"]))) == (0, 1)
    assert await engine.claim("p", (), worker(3)) is None
    return again


async def test_waiting_before_the_children_end(engine: Engine, clock: ManualClock) -> None:
    graph, held = await parent(engine, "a", "b")
    clock.advance(5)
    await engine.wait_children(held)
    found, parked = await row(engine, graph["p"]), await attempt(engine, graph["p"])
    assert await state(engine, graph["p"]) == "DEPS"
    assert (found.attempt_state, found.interrupt_cause, found.lease_epoch) == (
        "attempt_interrupted",
        "children",
        2,
    )
    assert found.blocking_detail == "waiting for child executions to complete"
    assert (parked.attempt_state, parked.suspended_at_ms, parked.outcome) == (
        "suspended",
        clock(),
        None,
    )
    assert parked.suspension_id == "waiting_children"
    assert await told(engine, graph["p"]) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": [],
        "OPER": [],
    }
    assert await engine.claim("p", (), worker(2)) is None
    await finish(engine, graph, "a")
    assert await state(engine, graph["p"]) == "DEPS"
    await finish(engine, graph, "b")
    assert await state(engine, graph["p"]) == "READY"
    again = await claimable_once(engine, graph)
    await engine.complete(again, b"done")
    assert await state(engine, graph["p"]) == "ENDED(success)"


async def test_waiting_while_the_children_end(engine: Engine) -> None:
    graph, held = await parent(engine, "a", "b")
    await finish(engine, graph, "a")
    assert await state(engine, graph["p"]) == "RUNNING"
    await engine.wait_children(held)
    assert await state(engine, graph["p"]) == "DEPS"
    await finish(engine, graph, "b")
    await engine.complete(await claimable_once(engine, graph))


async def test_waiting_after_the_children_ended(engine: Engine) -> None:
    graph, held = await parent(engine, "a", "b")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    await engine.wait_children(held)
    found = await row(engine, graph["p"])
    assert (await state(engine, graph["p"]), found.attempt_state) == (
        "READY",
        "attempt_interrupted",
    )
    assert [r["event_type"] for r in await outbox(engine, "ff_lease_event", graph["p"])] == [
        "acquired",
        "revoked",
    ]
    await engine.complete(await claimable_once(engine, graph))


async def test_waiting_without_members_returns_at_once(engine: Engine) -> None:
    graph, held = await parent(engine)
    await engine.wait_children(held)
    assert await state(engine, graph["p"]) == "READY"
    await engine.complete(await claimable_once(engine, graph))


async def test_waiting_outside_a_flow_is_over_at_once(engine: Engine) -> None:
    graph = Graph()
    await create(engine, execution_id=graph.mint("p"), lane_id="p")
    await engine.wait_children(await hold(engine, graph, "p"))
    await engine.complete(await claimable_once(engine, graph))


async def test_waiting_for_what_is_lost_is_skipped(engine: Engine) -> None:
    """The group was decided and the process died before the parent was skipped."""
    graph, held = await parent(engine, "a")
    await add_child_of(engine, graph)
    await change_row(
        engine,
        "ff_edge_group",
        group_key(graph, "p"),
        fail_count=1,
        running_count=0,
        group_state="impossible",
    )
    await engine.wait_children(held)
    assert await states(engine, graph, "p z") == {"p": "ENDED(skipped)", "z": "ENDED(skipped)"}
    assert (await told(engine, graph["p"]))["DONE"] == ["skipped"]


async def add_child_of(engine: Engine, graph: Graph) -> None:
    await create(engine, execution_id=graph.mint("z"), lane_id="z")
    await add(engine, graph, "z")
    await connect(engine, graph, "p>z")


async def test_waiting_when_an_end_was_not_counted_yet_is_repaired(
    engine: Engine, clock: ManualClock
) -> None:
    graph, held = await parent(engine, "a")
    with crashing(engine):
        await finish(engine, graph, "a")
    await engine.wait_children(held)
    assert await state(engine, graph["p"]) == "DEPS"
    clock.advance(1_000)
    assert await engine.dispatch_completions() == 1
    await engine.complete(await claimable_once(engine, graph))


async def test_any_one_child_is_enough_where_that_was_asked_for(engine: Engine) -> None:
    graph, held = await parent(engine, "a", "b", policy=EdgePolicy.any_of("let_run"))
    await engine.wait_children(held)
    await finish(engine, graph, "b")
    await claimable_once(engine, graph)
    assert await state(engine, graph["a"]) == "READY"


async def test_a_parent_may_wait_again_for_new_children(engine: Engine) -> None:
    graph, held = await parent(engine, "a")
    await engine.wait_children(held)
    await finish(engine, graph, "a")
    again = await claimable_once(engine, graph)
    await create(engine, execution_id=graph.mint("b"), lane_id="b")
    await add(engine, graph, "b")
    await connect(engine, graph, "b>p")
    await engine.wait_children(again)
    assert await state(engine, graph["p"]) == "DEPS"
    await finish(engine, graph, "b")
    last = await claim(engine, worker(3), lane="p")
    assert (fields(last).attempt_index, fields(last).lease_epoch) == (0, 5)


async def test_the_old_handle_is_fenced_off(engine: Engine) -> None:
    _, held = await parent(engine, "a")
    await engine.wait_children(held)
    for call in (
        engine.complete(held),
        engine.renew(held),
        engine.fail(held, "x"),
        engine.wait_children(held),
    ):
        await refused(call, ContentionKind.LEASE_CONFLICT)


async def test_only_the_holder_may_wait(engine: Engine, clock: ManualClock) -> None:
    graph, held = await parent(engine, "a")
    await refused(engine.wait_children(forged(held, lease_epoch=9)), ContentionKind.LEASE_CONFLICT)
    assert await state(engine, graph["p"]) == "RUNNING"
    clock.advance(TTL_MS)
    await refused(engine.wait_children(held), StateKind.LEASE_EXPIRED)


@pytest.mark.parametrize("spent", [0, 400])
async def test_the_rest_of_an_attempts_time_is_kept(
    engine: Engine, clock: ManualClock, spent: int
) -> None:
    graph = await empty_flow(engine, "a")
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=1_000))
    ident: ExecutionId = graph.mint("p")
    await create(engine, execution_id=ident, lane_id="p", policy=policy)
    await add(engine, graph, "p")
    held = await hold(engine, graph, "p")
    await connect(engine, graph, "a>p")
    clock.advance(spent)
    await engine.wait_children(held)
    assert (await row(engine, ident)).attempt_timeout_remaining_ms == 1_000 - spent
    clock.advance(5_000)
    assert await engine.expire_execution(ident, "attempt_timeout") is None
    await finish(engine, graph, "a")
    await claim(engine, lane="p")
    assert (await row(engine, ident)).attempt_timeout_at_ms == clock() + 1_000 - spent
