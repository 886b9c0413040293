"""Flows as readers see them: the snapshot, the list, and what the members add up to."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs, ReplayExecutionArgs
from flowfabric.model.flow import CreateFlowArgs, EdgePolicy, SubmitFlowArgs
from flowfabric.model.flow_views import EdgeGroupSnapshot, FlowListed, FlowStatus
from flowfabric.testing import ManualClock

from .flow_helpers import Graph, change_row, empty_flow, finish, flow_key, group_key, hold, submit
from .helpers import invalid


async def test_a_snapshot_shows_every_group_in_order(engine: Engine) -> None:
    quorum = EdgePolicy.quorum(2, "let_run")
    graph = await submit(engine, "a>x b>x a>y z>w", policies={"x": quorum})
    await finish(engine, graph, "a")
    await finish(engine, graph, "z", "failed")
    found = await engine.describe_flow(graph.flow)
    assert found is not None
    expected = [
        EdgeGroupSnapshot(graph["x"], quorum, 2, 1, 0, 0, 1, "pending"),
        EdgeGroupSnapshot(graph["y"], EdgePolicy.all_of(), 1, 1, 0, 0, 0, "satisfied"),
        EdgeGroupSnapshot(graph["w"], EdgePolicy.all_of(), 1, 0, 1, 0, 0, "impossible"),
    ]
    assert found.edge_groups == sorted(expected, key=lambda g: g.downstream_execution_id.uuid.bytes)


async def test_a_group_from_elsewhere_is_read_by_its_counters(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    await change_row(
        engine,
        "ff_edge_group",
        group_key(graph, "b"),
        success_count=1,
        running_count=0,
        group_state="odd",
    )
    found = await engine.describe_flow(graph.flow)
    assert found is not None and found.edge_groups[0].group_state == "satisfied"
    await change_row(
        engine, "ff_edge_group", group_key(graph, "b"), policy='{"kind":"new"}', fail_count=1
    )
    found = await engine.describe_flow(graph.flow)
    assert found is not None
    assert (found.edge_groups[0].policy, found.edge_groups[0].group_state) == (
        EdgePolicy.all_of(),
        "impossible",
    )


async def test_a_flow_from_elsewhere_has_defaults(engine: Engine) -> None:
    graph = await empty_flow(engine)
    await change_row(
        engine,
        "ff_flow_core",
        flow_key(graph),
        raw_fields='{"node_count":"7","edge_count":null,"a.b":5}',
    )
    found = await engine.describe_flow(graph.flow)
    assert found is not None
    assert (found.flow_kind, found.namespace, found.node_count, found.edge_count, found.tags) == (
        "",
        "default",
        7,
        0,
        {},
    )
    assert found.last_mutation_at == found.created_at
    await change_row(engine, "ff_flow_core", flow_key(graph), raw_fields="7")
    assert (await invalid(engine.describe_flow(graph.flow))).kind is ValidationKind.CORRUPTION


async def test_what_is_not_there_is_none(engine: Engine) -> None:
    assert await engine.describe_flow(uuid4()) is None
    assert await engine.read_flow_summary(uuid4()) is None
    assert await engine.project_flow_summary(uuid4()) is False
    assert await engine.flow_edges(uuid4()) == []


# ---- list_flows


async def several(engine: Engine, count: int) -> tuple[int, list[UUID]]:
    """Flows of one partition, in their order."""
    found: list[UUID] = []
    wanted = Graph().partition
    while len(found) < count:
        graph = Graph()
        if graph.partition == wanted:
            await engine.create_flow(CreateFlowArgs(flow_id=graph.flow))
            found.append(graph.flow)
    return wanted, sorted(found, key=lambda f: f.bytes)


async def test_pages_of_flows_join_to_their_order(engine: Engine) -> None:
    partition, flows = await several(engine, 7)
    await engine.cancel_flow(flows[3])
    for limit in (1, 3, 7, 100):
        seen: list[UUID] = []
        cursor: UUID | None = None
        while True:
            page = await engine.list_flows(partition, cursor, limit)
            assert len(page.items) <= limit
            seen += [item.flow_id for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert cursor == seen[-1]
        assert seen == flows, limit
    assert (await engine.list_flows(partition, None, 0)).items == []
    assert (await engine.list_flows(partition, None, 0)).next_cursor is None
    assert (await engine.list_flows(f"{{fp:{partition}}}", flows[-1])).items == []


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("open", FlowStatus.ACTIVE),
        ("running", FlowStatus.ACTIVE),
        ("blocked", FlowStatus.ACTIVE),
        ("completed", FlowStatus.COMPLETED),
        ("failed", FlowStatus.FAILED),
        ("cancelled", FlowStatus.CANCELLED),
        ("odd", FlowStatus.UNKNOWN),
    ],
)
async def test_the_status_of_a_listed_flow(
    engine: Engine, clock: ManualClock, word: str, status: FlowStatus
) -> None:
    graph = await empty_flow(engine)
    await change_row(engine, "ff_flow_core", flow_key(graph), public_flow_state=word)
    assert (await engine.list_flows(graph.partition)).items == [
        FlowListed(graph.flow, clock(), status)
    ]


# ---- what the members add up to


async def summary(engine: Engine, graph: Graph) -> str:
    before = await engine.describe_flow(graph.flow)
    assert await engine.project_flow_summary(graph.flow) is True
    found = await engine.read_flow_summary(graph.flow)
    assert found is not None and found.total_members == found.sampled_members == len(graph.ids)
    assert await engine.describe_flow(graph.flow) == before, "what is decided is not touched"
    return found.public_flow_state


async def test_what_the_members_make_of_a_flow(engine: Engine) -> None:
    graph = await submit(engine, "a b>c")
    assert await summary(engine, graph) == "blocked"
    held = await hold(engine, graph, "a")
    assert await summary(engine, graph) == "running"
    await engine.complete(held)
    await finish(engine, graph, "b")
    assert await summary(engine, graph) == "open"
    await finish(engine, graph, "c")
    assert await summary(engine, graph) == "completed"


async def test_a_fresh_flow_is_open_and_a_delayed_one_blocked(
    engine: Engine, clock: ManualClock
) -> None:
    assert await summary(engine, await submit(engine, "a b")) == "open"
    assert (
        await summary(engine, await submit(engine, "d", nodes={"d": {"delay_until": clock() + 5}}))
        == "blocked"
    )


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
async def test_a_bad_end_among_all_makes_a_flow_failed(engine: Engine, outcome: str) -> None:
    graph = await submit(engine, "a>b c")
    await finish(engine, graph, "a", outcome)
    assert await summary(engine, graph) == "open", "one may still move"
    await finish(engine, graph, "c")
    assert await summary(engine, graph) == "failed"
    found = await engine.read_flow_summary(graph.flow)
    assert found is not None and (found.members_skipped, found.members_completed) == (1, 1)


async def test_completed_and_skipped_members_make_a_flow_completed(engine: Engine) -> None:
    graph = await submit(engine, "a b")
    await finish(engine, graph, "a")
    key = {"partition_key": graph.partition, "execution_id": graph["b"].uuid}
    await change_row(engine, "ff_exec_core", key, public_state="skipped")
    assert await summary(engine, graph) == "completed"


async def listed(engine: Engine, graph: Graph) -> FlowStatus:
    (found,) = (await engine.list_flows(graph.partition)).items
    return found.status


@pytest.mark.meets("flow", "quorum", "cancel")
async def test_a_won_race_completes_its_flow(engine: Engine) -> None:
    """A loser, and what only waited for it, did not fail."""
    graph = await submit(engine, "a>d b>d b>c", policies={"d": EdgePolicy.any_of()})
    await finish(engine, graph, "a")
    await finish(engine, graph, "d")
    assert await summary(engine, graph) == "completed"
    found = await engine.read_flow_summary(graph.flow)
    assert found is not None and (found.members_cancelled, found.members_skipped) == (1, 1)
    assert await listed(engine, graph) is FlowStatus.COMPLETED


async def test_a_flow_fails_with_a_member_that_an_operator_cancelled(engine: Engine) -> None:
    graph = await submit(engine, "a>d b>d c>d", policies={"d": EdgePolicy.any_of()})
    await finish(engine, graph, "b", "cancelled")
    await finish(engine, graph, "a")
    await finish(engine, graph, "d")
    assert await summary(engine, graph) == "failed"
    assert await listed(engine, graph) is FlowStatus.FAILED


async def test_the_losers_of_an_impossible_join_fail_their_flow(engine: Engine) -> None:
    policy = EdgePolicy.quorum(2)
    graph = await submit(engine, "a>d b>d c>d", policies={"d": policy})
    await finish(engine, graph, "a", "failed")
    await finish(engine, graph, "b", "failed")
    assert await summary(engine, graph) == "failed"


async def test_a_flow_that_was_settled_is_active_again_after_a_replay(engine: Engine) -> None:
    graph = await submit(engine, "a")
    await finish(engine, graph, "a")
    assert await summary(engine, graph) == "completed"
    await engine.replay_execution(ReplayExecutionArgs(execution_id=graph["a"]))
    assert await listed(engine, graph) is FlowStatus.ACTIVE


async def test_a_resumable_member_counts_as_waiting(engine: Engine) -> None:
    graph = await submit(engine, "a")
    key = {"partition_key": graph.partition, "execution_id": graph["a"].uuid}
    await change_row(engine, "ff_exec_core", key, public_state="resumable")
    assert await summary(engine, graph) == "open"
    found = await engine.read_flow_summary(graph.flow)
    assert found is not None and found.members_waiting == 1


async def test_a_flow_without_members_has_no_summary(engine: Engine) -> None:
    graph = await empty_flow(engine)
    assert await engine.project_flow_summary(graph.flow) is False
    assert await engine.read_flow_summary(graph.flow) is None


async def test_more_members_than_a_page_are_all_counted(engine: Engine) -> None:
    graph = Graph()
    nodes = [
        CreateExecutionArgs(execution_id=ExecutionId.of(graph.partition, uuid4()))
        for _ in range(1_001)
    ]
    await engine.submit_flow(SubmitFlowArgs(flow_id=graph.flow, nodes=nodes))
    assert await engine.project_flow_summary(graph.flow, now=5)
    found = await engine.read_flow_summary(graph.flow)
    assert found is not None
    assert (found.total_members, found.members_waiting, found.last_summary_update_at) == (
        1_001,
        1_001,
        5,
    )
