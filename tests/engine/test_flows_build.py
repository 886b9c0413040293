"""Flows built piece by piece: creating, members, tags, and what is refused."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import (
    Added,
    AddExecutionToFlowArgs,
    AlreadyMember,
    CreateFlowArgs,
    EdgePolicy,
    FlowAlreadyExists,
    FlowCreated,
)
from flowfabric.testing import ManualClock

from .bad_common import TAG_KEYS
from .flow_helpers import (
    Graph,
    apply_args,
    change_row,
    empty_flow,
    finish,
    flow_key,
    rows_of,
    stage,
    stage_args,
    still,
    submit,
)
from .helpers import create, invalid, row


def adding(graph: Graph, ident: ExecutionId) -> AddExecutionToFlowArgs:
    return AddExecutionToFlowArgs(flow_id=graph.flow, execution_id=ident)


# ---- create_flow


async def test_a_new_flow_is_open_and_empty(engine: Engine, clock: ManualClock) -> None:
    flow = uuid4()
    assert await engine.create_flow(
        CreateFlowArgs(flow_id=flow, flow_kind="dag", namespace="ns", now=77)
    ) == FlowCreated(flow)
    found = await engine.describe_flow(flow)
    assert found is not None
    assert (found.flow_kind, found.namespace, found.public_flow_state) == ("dag", "ns", "open")
    assert (found.graph_revision, found.node_count, found.edge_count) == (0, 0, 0)
    assert (found.created_at, found.last_mutation_at, found.cancelled_at) == (77, 77, None)
    assert (found.cancel_reason, found.cancellation_policy, found.tags, found.edge_groups) == (
        None,
        None,
        {},
        [],
    )
    assert await engine.flow_members(flow) == [] and await engine.flow_edges(flow) == []


async def test_creating_a_flow_again_writes_nothing_for_any_arguments(engine: Engine) -> None:
    flow = uuid4()
    await engine.create_flow(CreateFlowArgs(flow_id=flow))
    await engine.cancel_flow(flow)
    before = await still(engine)
    again = CreateFlowArgs(flow_id=flow, flow_kind="other", namespace="elsewhere", now=1)
    assert await engine.create_flow(again) == FlowAlreadyExists(flow)
    assert await still(engine) == before


async def test_many_creates_of_one_flow_make_one(engine: Engine) -> None:
    flow = uuid4()
    answers = await asyncio.gather(
        *(engine.create_flow(CreateFlowArgs(flow_id=flow)) for _ in range(8))
    )
    assert sorted(type(a).__name__ for a in answers) == ["FlowAlreadyExists"] * 7 + ["FlowCreated"]


async def test_a_flow_may_be_named_by_text(engine: Engine) -> None:
    graph = Graph()
    text = str(graph.flow)
    assert await engine.create_flow(CreateFlowArgs(flow_id=text)) == FlowCreated(graph.flow)  # type: ignore[arg-type]
    await create(engine, execution_id=graph.mint("a"))
    await create(engine, execution_id=graph.mint("b"))
    for name in "ab":
        await engine.add_execution_to_flow(
            AddExecutionToFlowArgs(flow_id=text, execution_id=str(graph[name]))
        )  # type: ignore[arg-type]
    staged = structs.replace(
        stage_args(graph, "a>b", 2),
        flow_id=text,  # type: ignore[arg-type]
        edge_id=str(uuid4()),  # type: ignore[arg-type]
        upstream_execution_id=str(graph["a"]),  # type: ignore[arg-type]
    )
    assert (await engine.stage_dependency_edge(staged)).new_graph_revision == 3
    assert (await engine.cancel_flow(text)).member_execution_ids  # type: ignore[arg-type]


# ---- add_execution_to_flow


async def test_adding_moves_the_counts_and_not_the_execution(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await empty_flow(engine)
    ident = await create(engine, execution_id=graph.mint("a"))
    before = await row(engine, ident)
    clock.advance(5)
    assert await engine.add_execution_to_flow(adding(graph, ident)) == Added(ident, 1)
    after = await row(engine, ident)
    assert after.flow_id == graph.flow
    assert (after.public_state, after.eligibility_state) == (
        before.public_state,
        before.eligibility_state,
    )
    found = await engine.describe_flow(graph.flow)
    assert found is not None and (
        found.graph_revision,
        found.node_count,
        found.last_mutation_at,
    ) == (1, 1, clock())
    assert await engine.resolve_execution_flow_id(ident) == graph.flow


async def test_adding_a_member_again_writes_nothing(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    before = await still(engine)
    assert await engine.add_execution_to_flow(adding(graph, graph["a"])) == AlreadyMember(
        graph["a"], 2
    )
    assert await still(engine) == before


async def test_an_ended_execution_may_be_added(engine: Engine) -> None:
    graph = await empty_flow(engine)
    await create(engine, execution_id=graph.mint("a"), lane_id="a")
    await finish(engine, graph, "a")
    assert await engine.add_execution_to_flow(adding(graph, graph["a"])) == Added(graph["a"], 1)


async def test_adding_is_refused_in_order(engine: Engine) -> None:
    """Each is wrong in all the later ways too."""
    graph = await empty_flow(engine)
    missing, elsewhere = graph.mint("missing"), ExecutionId.of(graph.partition ^ 1, uuid4())
    unknown = Graph()
    cases: list[tuple[AddExecutionToFlowArgs, str]] = [
        (
            AddExecutionToFlowArgs(
                flow_id=unknown.flow, execution_id=ExecutionId.of(unknown.partition ^ 1, uuid4())
            ),
            (
                f"execution partition mismatch: expected {unknown.partition}, got "
                f"{unknown.partition ^ 1}"
            ),
        ),
        (
            adding(graph, elsewhere),
            f"execution partition mismatch: expected {graph.partition}, got {graph.partition ^ 1}",
        ),
        (
            AddExecutionToFlowArgs(flow_id=unknown.flow, execution_id=unknown.mint("x")),
            "flow_not_found",
        ),
        (adding(graph, missing), "execution_not_found"),
    ]
    before = await still(engine)
    for args, detail in cases:
        error = await invalid(engine.add_execution_to_flow(args))
        assert (error.kind, error.detail) == (ValidationKind.INVALID_INPUT, detail)
    assert await still(engine) == before
    await engine.cancel_flow(graph.flow)
    assert (
        await invalid(engine.add_execution_to_flow(adding(graph, missing)))
    ).detail == "flow_already_terminal"


async def test_a_member_of_another_flow_is_refused_by_its_name(engine: Engine) -> None:
    graph = await empty_flow(engine, "a")
    twin = uuid4()
    while Graph(twin).partition != graph.partition:
        twin = uuid4()
    await engine.create_flow(CreateFlowArgs(flow_id=twin))
    error = await invalid(
        engine.add_execution_to_flow(AddExecutionToFlowArgs(flow_id=twin, execution_id=graph["a"]))
    )
    assert error.detail == f"already_member_of_different_flow:{graph.flow}"


async def test_sixteen_concurrent_adds_all_succeed_and_count_exactly(engine: Engine) -> None:
    graph = await empty_flow(engine)
    idents = [await create(engine, execution_id=graph.mint(f"n{n}")) for n in range(16)]
    answers = await asyncio.gather(
        *(engine.add_execution_to_flow(adding(graph, ident)) for ident in idents)
    )
    assert sorted(a.new_node_count for a in answers if isinstance(a, Added)) == list(range(1, 17))
    found = await engine.describe_flow(graph.flow)
    assert found is not None and (found.node_count, found.graph_revision) == (16, 16)
    assert len(await engine.flow_members(graph.flow)) == 16


async def test_what_a_cancelled_flow_refuses(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b")
    await create(engine, execution_id=graph.mint("c"))
    await engine.cancel_flow(graph.flow)
    before = await still(engine)
    for call in (
        engine.add_execution_to_flow(adding(graph, graph["c"])),
        engine.stage_dependency_edge(stage_args(graph, "a>b", 3, edge_id=uuid4())),
        engine.apply_dependency_to_child(apply_args(graph, "a>b")),
    ):
        assert (await invalid(call)).detail == "flow_already_terminal"
    assert await still(engine) == before


@pytest.mark.parametrize("word", ["completed", "failed", "terminal"])
async def test_a_flow_ended_by_another_call_is_terminal(engine: Engine, word: str) -> None:
    graph = await empty_flow(engine, "a")
    await change_row(engine, "ff_flow_core", flow_key(graph), public_flow_state=word)
    ident = await create(engine, execution_id=graph.mint("b"))
    assert (
        await invalid(engine.add_execution_to_flow(adding(graph, ident)))
    ).detail == "flow_already_terminal"


# ---- policies


async def test_a_policy_is_set_restated_and_changed_until_an_edge_is_staged(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    before = await engine.describe_flow(graph.flow)
    assert before is not None

    async def setting(policy: EdgePolicy) -> str:
        return await engine.set_edge_group_policy(graph.flow, graph["b"], policy)

    assert await setting(EdgePolicy.quorum(2)) == "Set"
    assert await setting(EdgePolicy.quorum(2)) == "AlreadySet"
    assert await setting(EdgePolicy.quorum(2, "let_run")) == "Set"
    assert await setting(EdgePolicy.quorum(3, "let_run")) == "Set"
    assert await setting(EdgePolicy.any_of("let_run")) == "Set"
    assert await setting(EdgePolicy.all_of()) == "Set"
    assert await setting(EdgePolicy.any_of()) == "Set"
    (stored,) = await rows_of(engine, "ff_edge_group")
    assert (stored["policy"], stored["k_target"]) == (
        '{"kind":"any_of","on_satisfied":"cancel_remaining"}',
        1,
    )
    after = await engine.describe_flow(graph.flow)
    assert after is not None and after.graph_revision == before.graph_revision
    await stage(engine, graph, "a>b")
    full = await still(engine)
    for policy in (EdgePolicy.any_of(), EdgePolicy.all_of()):
        error = await invalid(setting(policy))
        assert error.detail == "edge_group_policy_already_fixed: dependencies already staged"
    assert await still(engine) == full


BAD_POLICIES = {
    "no k": (EdgePolicy.quorum(0), "quorum k must be >= 1"),
    "negative k": (EdgePolicy("quorum", -1), "quorum k must be >= 1"),
    "boolean k": (EdgePolicy.quorum(True), "quorum k must be >= 1"),
    "huge k": (EdgePolicy("quorum", 2**31), "quorum k exceeds supported maximum"),
    "unknown kind": (EdgePolicy("some_of"), "unknown EdgeDependencyPolicy variant"),
    "any_of says nothing": (
        EdgePolicy("any_of", 1),
        "on_satisfied required for any_of/quorum: cancel_remaining | let_run",
    ),
    "quorum says more": (
        EdgePolicy.quorum(1, "x"),
        "on_satisfied required for any_of/quorum: cancel_remaining | let_run",
    ),
}


@pytest.mark.parametrize(("policy", "detail"), BAD_POLICIES.values(), ids=BAD_POLICIES.keys())
async def test_a_bad_policy_is_refused_before_anything_is_looked_up(
    engine: Engine, policy: EdgePolicy, detail: str
) -> None:
    unknown = Graph()
    error = await invalid(engine.set_edge_group_policy(unknown.flow, unknown.mint("x"), policy))
    assert (error.kind, error.detail) == (ValidationKind.INVALID_INPUT, detail)


async def test_a_policy_needs_its_flow_and_not_its_member(engine: Engine) -> None:
    unknown, graph = Graph(), await empty_flow(engine)
    with pytest.raises(NotFound, match="flow"):
        await engine.set_edge_group_policy(unknown.flow, unknown.mint("x"), EdgePolicy.any_of())
    assert (
        await engine.set_edge_group_policy(
            graph.flow, graph.mint("nobody"), EdgePolicy.quorum(2**31 - 1)
        )
        == "Set"
    )


# ---- tags


@pytest.mark.parametrize("key", ["cairn.session_id", "a.b", "a1_2.x", "app.sub.field"])
async def test_flow_tags_are_kept_with_the_flow_and_shown(
    engine: Engine, clock: ManualClock, key: str
) -> None:
    graph = await empty_flow(engine, namespace="ns")
    clock.advance(3)
    for value in ("", 'quote " and \\', "läßt ✓"):
        await engine.set_flow_tag(graph.flow, key, value)
        assert await engine.get_flow_tag(graph.flow, key) == value
    found = await engine.describe_flow(graph.flow)
    assert found is not None and found.tags == {key: "läßt ✓"}
    assert (found.namespace, found.last_mutation_at, found.graph_revision) == ("ns", clock(), 0)


@pytest.mark.parametrize("key", [k for k in TAG_KEYS if isinstance(k, str) and k.isprintable()])
async def test_other_flow_tags_are_refused_in_the_same_words(engine: Engine, key: str) -> None:
    graph = await empty_flow(engine)
    before = await still(engine)
    words = f'invalid tag key: "{key}" (must match ^[a-z][a-z0-9_]*\\.[a-z0-9_][a-z0-9_.]*$)'
    for call in (engine.set_flow_tag(graph.flow, key, "v"), engine.get_flow_tag(graph.flow, key)):
        error = await invalid(call)
        assert (error.kind, error.detail) == (ValidationKind.INVALID_INPUT, words)
    assert await still(engine) == before


async def test_a_tag_that_is_not_there_is_none_and_a_flow_that_is_not_there_takes_none(
    engine: Engine,
) -> None:
    graph = await empty_flow(engine)
    assert await engine.get_flow_tag(graph.flow, "a.b") is None
    assert await engine.get_flow_tag(uuid4(), "a.b") is None
    with pytest.raises(NotFound, match="flow"):
        await engine.set_flow_tag(uuid4(), "a.b", "v")


async def test_tags_come_with_a_submitted_flow_and_later_ones_join_them(engine: Engine) -> None:
    graph = await submit(engine, "a", tags={"b.b": "2", "a.a": "1"})
    await engine.set_flow_tag(graph.flow, "c.c", "3")
    found = await engine.describe_flow(graph.flow)
    assert found is not None and list(found.tags.items()) == [
        ("a.a", "1"),
        ("b.b", "2"),
        ("c.c", "3"),
    ]
