"""The operator's cancel of a flow, with the backlog of members that are owed one; the founding
tests are among these.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, TransportError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import CancelFlowArgs, CreateFlowArgs, FlowAlreadyTerminal, FlowCancelled
from flowfabric.store.port import Read, Scan
from flowfabric.testing import ManualClock

from .flow_helpers import (
    Graph,
    change_row,
    empty_flow,
    finish,
    flow_key,
    hold,
    put_row,
    rows_of,
    states,
    still,
    submit,
)
from .helpers import after_load, create, invalid, new_id, outbox, row, state, told
from .test_founding_operators import sql

BACKLOG, OWED = "ff_cancel_backlog", "ff_cancel_backlog_member"


def header(flow: UUID, **said: Any) -> CancelFlowArgs:
    return CancelFlowArgs(
        **{"flow_id": flow, "reason": "op-shutdown", "cancellation_policy": "cancel_all", **said}
    )


# ---- the founding tests, with rows put there by hand


async def seed_flow_with_members(b: Engine, flow: UUID, n: int, clock: ManualClock) -> list[UUID]:
    await sql(
        b,
        "INSERT INTO ff_flow_core (partition_key, flow_id, graph_revision, public_flow_state, "
        "created_at_ms, raw_fields) VALUES (0, ?1, 0, 'open', ?2, '{}')",
        flow,
        clock(),
    )
    members = [uuid4() for _ in range(n)]
    for member in members:
        await sql(
            b,
            "INSERT INTO ff_exec_core (partition_key, execution_id, flow_id, lane_id, "
            "attempt_index, lifecycle_phase, ownership_state, eligibility_state, public_state, "
            "attempt_state, priority, created_at_ms, raw_fields) "
            "VALUES (0, ?1, ?2, 'default', 0, 'active', 'leased', 'eligible_now', 'running', "
            "'running_attempt', 0, ?3, '{}')",
            member,
            flow,
            clock(),
        )
    return members


async def count(b: Engine, text: str, *params: Any) -> int:
    return int((await sql(b, f"SELECT COUNT(*) FROM {text}", *params))[0][0])


async def test_header_happy_path_creates_backlog_and_flips_members(
    in_sql: Engine, clock: ManualClock
) -> None:
    flow = uuid4()
    members = await seed_flow_with_members(in_sql, flow, 3, clock)
    answer = await in_sql.cancel_flow_header(header(flow, now=clock()))
    assert isinstance(answer, FlowCancelled) and answer.cancellation_policy == "cancel_all"
    assert {i.uuid for i in answer.member_execution_ids} == set(members)
    assert await count(in_sql, "ff_cancel_backlog WHERE flow_id=?1", flow) == 1
    assert await count(in_sql, "ff_cancel_backlog_member WHERE flow_id=?1", flow) == 3
    assert (
        await count(in_sql, "ff_exec_core WHERE flow_id=?1 AND lifecycle_phase='cancelled'", flow)
        == 3
    )
    assert await sql(
        in_sql, "SELECT public_flow_state FROM ff_flow_core WHERE flow_id=?1", flow
    ) == [("cancelled",)]
    told_of = "ff_operator_event WHERE event_type='flow_cancel_requested' AND execution_id=?1"
    assert await count(in_sql, told_of, str(flow)) == 1


async def test_header_of_a_cancelled_flow_is_idempotent(in_sql: Engine, clock: ManualClock) -> None:
    flow = uuid4()
    await sql(
        in_sql,
        "INSERT INTO ff_flow_core (partition_key, flow_id, graph_revision, public_flow_state, "
        "created_at_ms, raw_fields) VALUES (0, ?1, 0, 'cancelled', ?2, "
        """'{"cancellation_policy":"flow_only","cancel_reason":"prior"}')""",
        flow,
        clock(),
    )
    answer = await in_sql.cancel_flow_header(header(flow, reason="retry"))
    assert answer == FlowAlreadyTerminal("flow_only", "prior", [])


async def test_ack_drains_and_deletes_the_parent_when_last(
    in_sql: Engine, clock: ManualClock
) -> None:
    flow = uuid4()
    await seed_flow_with_members(in_sql, flow, 2, clock)
    answer = await in_sql.cancel_flow_header(header(flow))
    first, second = answer.member_execution_ids
    await in_sql.ack_cancel_member(flow, first)
    assert await count(in_sql, "ff_cancel_backlog WHERE flow_id=?1", flow) == 1
    assert await count(in_sql, "ff_cancel_backlog_member WHERE flow_id=?1", flow) == 1
    await in_sql.ack_cancel_member(flow, second)
    assert await count(in_sql, "ff_cancel_backlog WHERE flow_id=?1", flow) == 0
    assert await count(in_sql, "ff_cancel_backlog_member WHERE flow_id=?1", flow) == 0


async def test_ack_of_what_is_missing_is_fine(engine: Engine) -> None:
    before = await still(engine)
    await engine.ack_cancel_member(uuid4(), new_id())
    assert await still(engine) == before


# ---- by the API alone


async def test_a_header_has_one_event_and_lists_the_members_to_cancel(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b c done", namespace="ns")
    held = await hold(engine, graph, "a")
    await finish(engine, graph, "done")
    clock.advance(5)
    answer = await engine.cancel_flow_header(header(graph.flow))
    assert isinstance(answer, FlowCancelled)
    assert set(answer.member_execution_ids) == {graph[n] for n in "abc"}
    (owed,) = await rows_of(engine, BACKLOG)
    assert (owed["requested_at_ms"], owed["grace_until_ms"]) == (clock(), clock() + 30_000)
    assert (owed["requester"], owed["reason"], owed["status"]) == ("", "op-shutdown", "pending")
    assert owed["cancellation_policy"] == "cancel_all"
    assert {r["execution_id"] for r in await rows_of(engine, OWED)} == {
        str(graph[n]) for n in "abc"
    }
    (event,) = await outbox(engine, "ff_operator_event")
    assert (event["event_type"], event["execution_id"], event["namespace"]) == (
        "flow_cancel_requested",
        graph.flow,
        "ns",
    )
    assert event["instance_tag"] is None
    assert json.loads(event["details"]) == {
        "flow_id": str(graph.flow),
        "cancellation_policy": "cancel_all",
        "reason": "op-shutdown",
        "member_count": 3,
    }
    assert await told(engine, graph["a"]) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["cancelled"],
        "OPER": [],
    }
    assert await told(engine, graph["b"]) == {"LEASE": [], "DONE": ["cancelled"], "OPER": []}
    member = await row(engine, graph["b"])
    assert (member.cancellation_reason, member.cancelled_by) == (
        "op-shutdown",
        "cancel_flow_header",
    )
    found = await engine.describe_flow(graph.flow)
    assert found is not None and (found.cancel_reason, found.cancellation_policy) == (
        "op-shutdown",
        "cancel_all",
    )
    assert held


async def test_a_second_header_answers_with_what_is_stored_and_writes_nothing(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a b")
    await engine.cancel_flow_header(header(graph.flow))
    before = await still(engine)
    answer = await engine.cancel_flow_header(
        header(graph.flow, reason="other", cancellation_policy="flow_only")
    )
    assert isinstance(answer, FlowAlreadyTerminal)
    assert (answer.stored_cancellation_policy, answer.stored_cancel_reason) == (
        "cancel_all",
        "op-shutdown",
    )
    assert set(answer.member_execution_ids) == set(graph.ids.values())
    assert await still(engine) == before
    await engine.ack_cancel_member(graph.flow, graph["a"])
    answer = await engine.cancel_flow_header(header(graph.flow))
    assert answer.member_execution_ids == [graph["b"]], "those still owed"
    await engine.ack_cancel_member(graph.flow, graph["b"])
    answer = await engine.cancel_flow_header(header(graph.flow))
    assert set(answer.member_execution_ids) == set(graph.ids.values()), "all there are"


def is_of_members(read: Read) -> bool:
    return isinstance(read, Scan) and read.index == "members"


async def test_of_two_concurrent_headers_one_cancels_and_the_other_returns_its_reason(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await submit(engine, "a b")
    other = Engine(engine.store)

    async def cancel() -> None:
        await other.cancel_flow_header(header(graph.flow, reason="faster"))

    after_load(engine, monkeypatch, is_of_members, cancel)
    answer = await engine.cancel_flow_header(header(graph.flow, reason="slower"))
    assert isinstance(answer, FlowAlreadyTerminal)
    assert (answer.stored_cancel_reason, set(answer.member_execution_ids)) == (
        "faster",
        set(graph.ids.values()),
    )
    assert len(await outbox(engine, "ff_operator_event")) == 1


@pytest.mark.parametrize(
    ("policy", "reached", "owing"),
    [
        ("cancel_all", "ab", 1),
        ("cancel_pending", "b", 1),
        ("flow_only", "", 0),
        ("cancel_flow_only", "", 0),
        ("odd", "", 0),
    ],
)
async def test_a_header_honours_its_policy(
    engine: Engine, policy: str, reached: str, owing: int
) -> None:
    graph = await submit(engine, "a b")
    await hold(engine, graph, "a")
    answer = await engine.cancel_flow_header(header(graph.flow, cancellation_policy=policy))
    assert isinstance(answer, FlowCancelled)
    assert (answer.cancellation_policy, set(answer.member_execution_ids)) == (
        policy,
        {graph[n] for n in reached},
    )
    assert (len(await rows_of(engine, BACKLOG)), len(await rows_of(engine, OWED))) == (
        owing,
        len(reached),
    )
    (event,) = await outbox(engine, "ff_operator_event")
    assert json.loads(event["details"])["member_count"] == len(reached)
    found = await engine.describe_flow(graph.flow)
    assert found is not None and (found.public_flow_state, found.cancellation_policy) == (
        "cancelled",
        policy,
    )


async def test_a_header_needs_its_flow_and_readable_fields(engine: Engine) -> None:
    with pytest.raises(NotFound, match="flow"):
        await engine.cancel_flow_header(header(uuid4()))
    graph = await submit(engine, "a")
    await change_row(
        engine, "ff_flow_core", flow_key(graph), public_flow_state="cancelled", raw_fields="[]"
    )
    error = await invalid(engine.cancel_flow_header(header(graph.flow)))
    assert error.kind is ValidationKind.CORRUPTION and error.detail.startswith(
        "flow_core: raw_fields not valid JSON"
    )


async def test_a_flow_ended_by_another_call_is_terminal_for_a_header(engine: Engine) -> None:
    graph = await empty_flow(engine, "a")
    await change_row(engine, "ff_flow_core", flow_key(graph), public_flow_state="completed")
    answer = await engine.cancel_flow_header(header(graph.flow))
    assert answer == FlowAlreadyTerminal(None, None, [graph["a"]])
    assert await state(engine, graph["a"]) == "READY"


async def test_acking_matches_the_whole_id(engine: Engine) -> None:
    graph = await submit(engine, "a")
    await engine.cancel_flow_header(header(graph.flow))
    await engine.ack_cancel_member(graph.flow, ExecutionId.of(graph.partition ^ 1, graph["a"].uuid))
    assert len(await rows_of(engine, OWED)) == 1
    await engine.ack_cancel_member(graph.flow, graph["a"])
    assert (await rows_of(engine, OWED), await rows_of(engine, BACKLOG)) == ([], [])


# ---- the backlog


async def owing(engine: Engine, graph: Graph, *names: str, **said: Any) -> None:
    """An unfinished header: the flow is cancelled, its members are owed and not cancelled yet."""
    values = {
        "requested_at_ms": 0,
        "requester": "",
        "reason": "late",
        "cancellation_policy": "cancel_all",
        "status": "pending",
    }
    await put_row(engine, BACKLOG, **flow_key(graph), **{**values, "grace_until_ms": 0, **said})
    for name in names:
        await put_row(engine, OWED, **flow_key(graph), execution_id=str(graph[name]))


@pytest.mark.meets("flow", "cancel", "crash")
async def test_what_a_crash_left_owed_is_cancelled_after_the_grace(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>d b c")
    await finish(engine, graph, "c")
    graph.mint("gone")
    await owing(engine, graph, "a", "b", "c", "gone", grace_until_ms=clock() + 30_000)
    clock.advance(29_999)
    assert await engine.reconcile_cancel_backlog() == 0
    clock.advance(1)
    assert await engine.reconcile_cancel_backlog() == 4
    assert await states(engine, graph, "a b c d") == {
        "a": "ENDED(cancelled)",
        "b": "ENDED(cancelled)",
        "c": "ENDED(success)",
        "d": "ENDED(skipped)",
    }
    assert (await row(engine, graph["a"])).cancellation_reason == "late"
    assert (await rows_of(engine, OWED), await rows_of(engine, BACKLOG)) == ([], [])
    assert await engine.reconcile_cancel_backlog() == 0


async def test_a_header_followed_by_a_crash_is_only_acked(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b")
    await engine.cancel_flow_header(header(graph.flow))
    before = await outbox(engine, "ff_completion_event")
    clock.advance(30_000)
    assert await engine.reconcile_cancel_backlog() == 2
    assert (await rows_of(engine, OWED), await rows_of(engine, BACKLOG)) == ([], [])
    assert [r["event_id"] for r in await outbox(engine, "ff_completion_event")] == [
        r["event_id"] for r in before
    ]


async def test_a_backlog_without_a_grace_waits_thirty_seconds_from_its_request(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a")
    await owing(engine, graph, "a", requested_at_ms=clock(), grace_until_ms=None, reason="")
    clock.advance(29_999)
    assert await engine.reconcile_cancel_backlog() == 0
    clock.advance(1)
    assert await engine.reconcile_cancel_backlog() == 1
    assert (await row(engine, graph["a"])).cancellation_reason == "flow_cancelled"


async def test_an_empty_backlog_and_one_without_its_flow_are_dropped(engine: Engine) -> None:
    empty, lost = await submit(engine, "a"), Graph()
    await create(engine, execution_id=lost.mint("x"), lane_id="x")
    await owing(engine, empty)
    await owing(engine, lost, "x")
    await engine.reconcile_cancel_backlog()
    assert (await rows_of(engine, OWED), await rows_of(engine, BACKLOG)) == ([], [])
    assert (await state(engine, lost["x"]), await state(engine, empty["a"])) == ("READY", "READY")


async def test_a_store_out_of_reach_leaves_a_member_owed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await submit(engine, "a b")
    await owing(engine, graph, "a", "b")
    commit_many = engine.store.commit_many

    async def shaky(plans: Any) -> Any:
        """What concerns one member does not get through."""
        lost = [
            graph["a"].uuid in plan.values and plan.form.name.startswith("cancel_")
            for plan in plans
        ]
        done = iter(
            await commit_many(
                [plan for plan, is_lost in zip(plans, lost, strict=True) if not is_lost]
            )
        )
        return [
            TransportError("test", "out of reach") if is_lost else next(done) for is_lost in lost
        ]

    with monkeypatch.context() as patch:
        patch.setattr(engine.store, "commit_many", shaky)
        await engine.reconcile_cancel_backlog()
    assert [r["execution_id"] for r in await rows_of(engine, OWED)] == [str(graph["a"])]
    await engine.reconcile_cancel_backlog()
    assert await states(engine, graph) == {"a": "ENDED(cancelled)", "b": "ENDED(cancelled)"}
    assert await rows_of(engine, BACKLOG) == []


async def test_what_runs_by_now_is_left_to_drain_where_only_pending_ones_were_owed(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a b")
    await owing(engine, graph, "a", "b", cancellation_policy="cancel_pending")
    held = await hold(engine, graph, "a")
    await engine.reconcile_cancel_backlog()
    assert await states(engine, graph) == {"a": "RUNNING", "b": "ENDED(cancelled)"}
    assert await rows_of(engine, BACKLOG) == await rows_of(engine, OWED) == []
    await engine.complete(held)


async def test_creating_a_cancelled_flow_again_does_not_open_it(engine: Engine) -> None:
    graph = await submit(engine, "a")
    await engine.cancel_flow_header(header(graph.flow))
    await engine.create_flow(CreateFlowArgs(flow_id=graph.flow))
    found = await engine.describe_flow(graph.flow)
    assert found is not None and found.public_flow_state == "cancelled"
