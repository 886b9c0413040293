"""Cancelling a flow: the members that each policy reaches, the events, and the answers to their
workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.flows.cancels import FlowCancels
from flowfabric.errors import ContentionKind, TimedOut
from flowfabric.model.flow import (
    CancelFlowArgs,
    CancelFlowPolicy,
    EdgePolicy,
    FlowCancelled,
    WaitTimeout,
)
from flowfabric.model.lease import Handle
from flowfabric.testing import ManualClock
from tests.patience import patient

from .flow_helpers import (
    Graph,
    counters,
    finish,
    hold,
    rows_of,
    states,
    still,
    submit,
    undispatched,
)
from .helpers import attempt, create, outbox, refused, row, state, told, worker

QUEUE = "ff_pending_cancel_groups"


CANCEL_PENDING: dict[str, Callable[[Engine, Graph], Awaitable[Any]]] = {
    "cancel_flow": lambda e, g: e.cancel_flow(g.flow, "cancel_pending"),
    "header": lambda e, g: e.cancel_flow_header(
        CancelFlowArgs(flow_id=g.flow, cancellation_policy="cancel_pending")
    ),
}


async def mixed(engine: Engine, clock: ManualClock) -> tuple[Graph, dict[str, Handle]]:
    """One member in each state that a policy distinguishes."""
    later = {"delay_until": clock() + 10_000}
    graph = await submit(
        engine, "ready later run>deps wait>parked again over parked", nodes={"later": later}
    )
    held = {name: await hold(engine, graph, name) for name in ("run", "again", "over")}
    await engine.complete(held["over"])
    await engine.fail(held["again"], "retry")
    return graph, held


STATES = {
    "ready": "READY",
    "later": "DELAYED",
    "run": "RUNNING",
    "deps": "DEPS",
    "wait": "READY",
    "parked": "DEPS",
    "again": "DELAYED",
    "over": "ENDED(success)",
}
PENDING = {"ready", "later", "deps", "wait", "parked", "again"}
REACHED: dict[str, set[str]] = {
    "cancel_all": PENDING | {"run"},
    "cancel_pending": PENDING,
    "cancel_flow_only": set(),
    "something new": set(),
}


@pytest.mark.parametrize("policy", REACHED)
async def test_whom_a_policy_reaches(engine: Engine, clock: ManualClock, policy: str) -> None:
    graph, _ = await mixed(engine, clock)
    assert await states(engine, graph) == STATES
    clock.advance(3)
    answer = await engine.cancel_flow(graph.flow, policy)
    reached = REACHED[policy]
    assert answer.cancellation_policy == policy
    assert {str(i) for i in answer.member_execution_ids} == {str(graph[n]) for n in reached}
    expected = {n: "ENDED(cancelled)" if n in reached else s for n, s in STATES.items()}
    assert await states(engine, graph) == expected
    found = await engine.describe_flow(graph.flow)
    assert found is not None and found.public_flow_state == "cancelled"
    assert (found.cancellation_policy, found.cancel_reason, found.cancelled_at) == (
        policy,
        None,
        clock(),
    )
    assert found.last_mutation_at == clock()
    for name in reached:
        told_of = await told(engine, graph[name])
        assert (
            told_of["DONE"] == ["cancelled"]
            and told_of["LEASE"][-1] == "revoked"
            and told_of["OPER"] == []
        )
        member = await row(engine, graph[name])
        assert (member.cancellation_reason, member.cancelled_by) == (
            "flow_cancelled",
            "cancel_flow",
        )
    assert await undispatched(engine) == []


async def test_flow_only_is_a_synonym(engine: Engine) -> None:
    graph = await submit(engine, "a")
    assert await engine.cancel_flow(graph.flow, "flow_only") == FlowCancelled(
        "cancel_flow_only", []
    )
    assert await state(engine, graph["a"]) == "READY"


async def test_three_fresh_members_tell_three_times_on_both_channels(engine: Engine) -> None:
    graph = await submit(engine, "a b c")
    answer = await engine.cancel_flow(graph.flow, CancelFlowPolicy.CANCEL_ALL)
    assert set(answer.member_execution_ids) == set(graph.ids.values())
    done = await outbox(engine, "ff_completion_event")
    assert [(r["outcome"], r["flow_id"]) for r in done] == [("cancelled", graph.flow)] * 3
    assert [r["event_type"] for r in await outbox(engine, "ff_lease_event")] == ["revoked"] * 3
    assert await outbox(engine, "ff_operator_event") == []


async def test_the_first_reason_of_a_cancel_is_recorded(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    await engine.cancel_flow(graph.flow, reason="no stock")
    await engine.cancel_flow(graph.flow, reason="too late")
    found = await engine.describe_flow(graph.flow)
    assert found is not None and found.cancel_reason == "no stock"
    for name in "ab":
        assert (await row(engine, graph[name])).cancellation_reason == "no stock"


async def test_an_unknown_flow_is_cancelled_already(engine: Engine) -> None:
    before = await still(engine)
    assert await engine.cancel_flow(uuid4()) == FlowCancelled("cancel_all", [])
    assert await engine.cancel_flow(uuid4(), wait=WaitTimeout(50)) == FlowCancelled(
        "cancel_all", []
    )
    assert await still(engine) == before


async def test_cancelling_again_sweeps_under_the_new_policy(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b")
    held = await hold(engine, graph, "a")
    first = clock()
    assert (await engine.cancel_flow(graph.flow, "cancel_pending")).member_execution_ids == [
        graph["b"]
    ]
    clock.advance(10)
    assert (await engine.cancel_flow(graph.flow, "cancel_all")).member_execution_ids == [graph["a"]]
    found = await engine.describe_flow(graph.flow)
    assert found is not None and (found.cancellation_policy, found.cancelled_at) == (
        "cancel_all",
        first,
    )
    assert (await engine.cancel_flow(graph.flow)).member_execution_ids == []
    await refused(engine.complete(held), ContentionKind.LEASE_CONFLICT)
    assert (await told(engine, graph["b"]))["DONE"] == ["cancelled"]


LATE: dict[str, Callable[[Engine, Handle], Awaitable[Any]]] = {
    "complete": lambda e, h: e.complete(h, b"x"),
    "fail": lambda e, h: e.fail(h, "x"),
    "renew": lambda e, h: e.renew(h),
    "delay": lambda e, h: e.delay(h, 1_900_000_000_000),
    "wait_children": lambda e, h: e.wait_children(h),
}
CANCELS: dict[str, Callable[[Engine, Graph], Awaitable[Any]]] = {
    "cancel_flow": lambda e, g: e.cancel_flow(g.flow),
    "header": lambda e, g: e.cancel_flow_header(CancelFlowArgs(flow_id=g.flow, reason="r")),
}


@pytest.mark.parametrize("cancel", CANCELS.values(), ids=CANCELS.keys())
@pytest.mark.parametrize("call", LATE.values(), ids=LATE.keys())
async def test_the_worker_of_a_cancelled_member_is_fenced_off(
    engine: Engine,
    clock: ManualClock,
    cancel: Callable[..., Awaitable[Any]],
    call: Callable[..., Awaitable[Any]],
) -> None:
    graph = await submit(engine, "a>b")
    held = await hold(engine, graph, "a")
    clock.advance(2)
    await cancel(engine, graph)
    await refused(call(engine, held), ContentionKind.LEASE_CONFLICT)
    found, closed = await row(engine, graph["a"]), await attempt(engine, graph["a"])
    assert (found.lease_epoch, found.lifecycle_phase, found.terminal_at_ms) == (
        2,
        "cancelled",
        clock(),
    )
    assert (closed.outcome, closed.attempt_state, closed.terminal_at_ms) == (
        "cancelled",
        "ended_cancelled",
        clock(),
    )
    assert await states(engine, graph) == {"a": "ENDED(cancelled)", "b": "ENDED(cancelled)"}
    assert await told(engine, graph["a"]) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["cancelled"],
        "OPER": [],
    }


async def test_edges_of_a_cancelled_flow_are_counted(engine: Engine) -> None:
    graph = await submit(engine, "a>c b>c")
    held = await hold(engine, graph, "b")
    await engine.cancel_flow(graph.flow, "cancel_pending")
    assert await counters(engine, graph, "c") == (0, 1, 0, 1, "impossible")
    await engine.complete(held)
    assert await counters(engine, graph, "c") == (1, 1, 0, 0, "impossible")


async def test_cancel_pending_queues_the_groups_that_wait_and_the_reconciler_tidies_them(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a>c b>c x>y", policies={"c": EdgePolicy.any_of()})
    await hold(engine, graph, "a")
    await hold(engine, graph, "x")
    await engine.cancel_flow(graph.flow, "cancel_pending")
    queued = {r["downstream_eid"] for r in await rows_of(engine, QUEUE)}
    assert queued == {graph["c"].uuid, graph["y"].uuid}
    assert (await engine.dispatch_sibling_cancels())["skipped_for_reconciler"] == 2
    assert await engine.reconcile_sibling_cancels() == 2
    assert await rows_of(engine, QUEUE) == []
    assert await states(engine, graph, "a x") == {"a": "RUNNING", "x": "RUNNING"}


async def test_members_of_other_flows_and_of_none_are_left_alone(engine: Engine) -> None:
    graph, other = await submit(engine, "a"), await submit(engine, "b")
    alone = await create(engine)
    await engine.cancel_flow(graph.flow)
    assert (await state(engine, other["b"]), await state(engine, alone)) == ("READY", "READY")


async def test_a_concurrent_claim_and_cancel_leave_nothing_running(engine: Engine) -> None:
    graph = await submit(
        engine,
        " ".join(f"n{n}" for n in range(8)),
        nodes={f"n{n}": {"lane_id": "all"} for n in range(8)},
    )
    claims = [engine.claim("all", (), worker(n)) for n in range(8)]
    await asyncio.gather(*claims, engine.cancel_flow(graph.flow), return_exceptions=True)
    assert set((await states(engine, graph)).values()) == {"ENDED(cancelled)"}
    assert len(await outbox(engine, "ff_completion_event")) == 8


# ---- very many members, and members that keep moving


async def test_more_members_than_one_transaction_takes_are_cancelled_all_the_same(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.flows.cancels.MAX_TOGETHER", 3)
    graph = await submit(engine, "a>b c d e f")
    await finish(engine, graph, "f")
    answer = await engine.cancel_flow(graph.flow)
    assert set(answer.member_execution_ids) == {graph[n] for n in "abcde"}
    assert await states(engine, graph) == {
        **dict.fromkeys("abcde", "ENDED(cancelled)"),
        "f": "ENDED(success)",
    }
    for name in "abcde":
        assert await told(engine, graph[name]) == {
            "LEASE": ["revoked"],
            "DONE": ["cancelled"],
            "OPER": [],
        }
    assert (
        await rows_of(engine, "ff_cancel_backlog") == []
        and await rows_of(engine, "ff_cancel_backlog_member") == []
    )


@pytest.mark.meets("flow", "cancel", "crash")
async def test_a_process_that_dies_among_many_members_leaves_them_owed(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.flows.cancels.MAX_TOGETHER", 1)
    graph = await submit(engine, "a b c")

    async def die(*_: Any, **__: Any) -> Any:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core.cascade.members, "cancel", die)
        with pytest.raises(asyncio.CancelledError):
            await engine.cancel_flow(graph.flow)
    assert await states(engine, graph) == dict.fromkeys("abc", "READY")
    assert [row["status"] for row in await rows_of(engine, "ff_cancel_backlog")] == ["listing"]
    clock.advance(30_000)
    assert await engine.reconcile_cancel_backlog() == 3
    assert await states(engine, graph) == dict.fromkeys("abc", "ENDED(cancelled)")
    assert await rows_of(engine, "ff_cancel_backlog") == []


@pytest.mark.parametrize("cancel", CANCEL_PENDING.values(), ids=CANCEL_PENDING.keys())
async def test_a_member_claimed_meanwhile_is_left_to_drain(
    engine: Engine,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    cancel: Callable[..., Awaitable[Any]],
) -> None:
    monkeypatch.setattr("flowfabric.engine.flows.cancels.MAX_TOGETHER", 0)
    graph = await submit(engine, "a b")
    cancel_members, held = engine.parts.core.cascade.members.cancel, []

    async def late(*said: Any, **more: Any) -> Any:
        held.append(await hold(engine, graph, "a"))
        return await cancel_members(*said, **more)

    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core.cascade.members, "cancel", late)
        assert (await cancel(engine, graph)).member_execution_ids == [graph["b"]]
    clock.advance(30_000 - 1)
    await engine.renew(held[0])
    clock.advance(1)
    await engine.reconcile_cancel_backlog()
    assert await states(engine, graph) == {"a": "RUNNING", "b": "ENDED(cancelled)"}
    await engine.complete(held[0])


async def test_members_that_could_not_be_settled_stay_owed(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.flows.cancels.MAX_TOGETHER", 0)
    graph = await submit(engine, "a b")

    async def unlucky(
        partition: int, members: list[UUID], *_: Any, **__: Any
    ) -> tuple[list[Any], set[UUID]]:
        return [], set(members)

    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core.cascade.members, "cancel", unlucky)
        await engine.cancel_flow(graph.flow)
    clock.advance(30_000)
    assert await engine.reconcile_cancel_backlog() == 2
    assert await states(engine, graph) == dict.fromkeys("ab", "ENDED(cancelled)")


# ---- waiting


async def test_waiting_returns_at_once_because_the_cancel_is_done(engine: Engine) -> None:
    graph = await submit(engine, "a")
    async with patient(5):
        assert (
            await engine.cancel_flow(graph.flow, wait=WaitTimeout(300_000))
        ).member_execution_ids == [graph["a"]]


async def test_waiting_ends_with_its_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = await submit(engine, "a")

    async def not_yet(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(engine.parts.part(FlowCancels), "cancel_by_rule", not_yet)
    with pytest.raises(TimedOut) as caught:
        await engine.cancel_flow(graph.flow, wait=WaitTimeout(1))
    assert caught.value.op == "cancel_flow"
