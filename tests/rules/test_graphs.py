from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import pytest

from flowfabric.errors import Conflict, EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs, Execution
from flowfabric.model.flow import (
    MAX_GRAPH_EDGES,
    MAX_GRAPH_NODES,
    Edge,
    EdgeGroup,
    EdgePolicy,
    Flow,
    GraphEdge,
    SubmitFlowArgs,
    stored_edge_policy,
)
from flowfabric.model.policy import parse_policy
from flowfabric.plan import Applied, Refused
from flowfabric.rules.executions import create
from flowfabric.rules.flows import flow_submit
from flowfabric.rules.states import name_of, vector_of
from flowfabric.store.memory import MemoryStore
from flowfabric.testing.clock import ManualClock

from .factory import FLOW_ID, NOW, commit, commit_all, told
from .flow_factory import P, at, ident, kept, only, rows

A, B, C, D = (ident(n) for n in range(4))
ELSEWHERE = ExecutionId.of(P + 1, UUID(int=77))


def node(who: ExecutionId, **columns: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(execution_id=who, **columns)


def graph(
    nodes: Iterable[ExecutionId | CreateExecutionArgs],
    *pairs: tuple[ExecutionId, ExecutionId],
    **args: Any,
) -> SubmitFlowArgs:
    made = [
        GraphEdge(up, down, edge_id=UUID(int=0xE_100 + n)) for n, (up, down) in enumerate(pairs)
    ]
    given = [one if isinstance(one, CreateExecutionArgs) else node(one) for one in nodes]
    return SubmitFlowArgs(flow_id=FLOW_ID, nodes=given, **{"edges": made, **args})


def checked(*given: Any, **args: Any) -> EngineError | None:
    return flow_submit.check_graph(graph(*given, **args), P)


def detail(error: EngineError | None) -> str:
    assert error is not None and error.code == "invalid_input"
    return str(error).removeprefix("invalid_input: ")


# ---- what is wrong


@pytest.mark.parametrize(
    ("nodes", "edges", "problem"),
    [
        (0, 0, f"nodes: 1 to {MAX_GRAPH_NODES} nodes, got 0"),
        (1, 0, None),
        (MAX_GRAPH_NODES, MAX_GRAPH_EDGES, None),
        (
            MAX_GRAPH_NODES + 1,
            MAX_GRAPH_EDGES + 1,
            f"nodes: 1 to {MAX_GRAPH_NODES} nodes, got {MAX_GRAPH_NODES + 1}",
        ),
        (
            1,
            MAX_GRAPH_EDGES + 1,
            f"edges: at most {MAX_GRAPH_EDGES} edges, got {MAX_GRAPH_EDGES + 1}",
        ),
    ],
)
def test_a_graph_has_limits(nodes: int, edges: int, problem: str | None) -> None:
    args = SubmitFlowArgs(flow_id=FLOW_ID, nodes=[node(A)] * nodes, edges=[GraphEdge(A, B)] * edges)
    found = flow_submit.check_size(args)
    assert (found is None) if problem is None else (detail(found) == problem)


@pytest.mark.parametrize("field", ["nodes", "edges", "policies"])
def test_a_graph_is_made_of_lists_and_a_mapping(field: str) -> None:
    problem = flow_submit.check_size(msgspec.structs.replace(graph(()), **{field: 7}))
    assert field in detail(problem)


def test_nodes_are_in_the_partition_of_their_flow_under_new_ids() -> None:
    mismatch = f"execution partition mismatch: expected {P}, got {P + 1}"
    assert detail(checked([A, node(ELSEWHERE, idempotency_key="k")])) == mismatch
    assert detail(checked([A, node(A, idempotency_key="k")])).startswith(
        "nodes: no idempotency key: "
    )
    assert detail(checked([A, B, A], (A, A))).startswith("nodes: each execution id once, got ")
    assert checked([A, node(B, idempotency_key="")]) is None


def test_nodes_are_of_the_namespace_of_their_flow() -> None:
    said = "nodes: executions of the flow's namespace, 'default', got 'other'"
    assert detail(checked([A, node(B, namespace="other")])) == said
    assert checked([node(A, namespace="other")], namespace="other") is None


def test_edges_join_two_nodes_under_an_id_of_their_own() -> None:
    assert detail(checked([A], (D, D), policies={C: ANY})) == "self_referencing_edge"
    for pair in ((A, C), (C, A)):
        assert (
            detail(checked([A, B], pair, policies={C: ANY}))
            == f"execution_not_in_flow: {C} is not among the nodes"
        )
    twice = [GraphEdge(A, B, edge_id=UUID(int=5)), GraphEdge(B, A, edge_id=UUID(int=5))]
    assert detail(checked([A, B], edges=twice)).startswith("edges: each edge id once, got ")
    assert checked([A, B], edges=[GraphEdge(A, B), GraphEdge(A, B)]) is None


ANY = EdgePolicy.any_of()


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        ({D: EdgePolicy("nonsense")}, f"execution_not_in_flow: {D} is not among the nodes"),
        ({A: EdgePolicy("nonsense")}, "unknown EdgeDependencyPolicy variant"),
        ({C: EdgePolicy.quorum(0)}, "quorum k must be >= 1"),
        (
            {C: EdgePolicy("any_of", 1)},
            "on_satisfied required for any_of/quorum: cancel_remaining | let_run",
        ),
        ({A: ANY}, "policies: a policy only for nodes that wait for others, got "),
        ({A: EdgePolicy.all_of()}, "policies: a policy only for nodes that wait for others, got "),
        (
            {C: EdgePolicy.quorum(3)},
            f"policies: a quorum of at most the 2 inbound edges of {C}, got 3",
        ),
        ({C: EdgePolicy.quorum(2)}, None),
        ({C: ANY}, None),
        ({C: EdgePolicy.all_of()}, None),
    ],
)
def test_policies_are_for_nodes_that_wait_for_enough(
    policies: dict[ExecutionId, EdgePolicy], problem: str | None
) -> None:
    found = checked([A, B, C], (A, C), (B, C), policies=policies)
    assert (found is None) if problem is None else detail(found).startswith(problem)


def test_a_policy_is_looked_at_before_cycles() -> None:
    assert detail(checked([A, B], (A, B), (B, A), policies={A: EdgePolicy.quorum(2)})).startswith(
        "policies: "
    )


@pytest.mark.parametrize(
    ("pairs", "stuck"),
    [
        ([], None),
        ([(A, B), (B, C), (C, D)], None),
        ([(A, B), (A, C), (B, D), (C, D)], None),
        ([(A, B), (A, B)], None),
        ([(A, B), (B, A)], A),
        ([(A, B), (B, C), (C, A)], A),
        ([(A, B), (B, C), (C, B)], B),
        ([(A, B), (B, C), (C, B), (C, D)], B),
        ([(A, B), (C, D), (D, C)], C),
    ],
)
def test_nothing_waits_for_itself(
    pairs: list[tuple[ExecutionId, ExecutionId]], stuck: ExecutionId | None
) -> None:
    found = checked([A, B, C, D], *pairs)
    if stuck is None:
        assert found is None
    else:
        assert isinstance(found, Conflict)
        assert (found.code, found.detail) == ("cycle_detected", f"{stuck} waits for itself")


def test_a_long_chain_is_no_cycle() -> None:
    chain = [ident(n) for n in range(3_000)]
    assert checked(chain, *pairwise(chain)) is None


# ---- what comes into being


def submitted(args: SubmitFlowArgs, store: MemoryStore | None = None) -> MemoryStore:
    store = store or MemoryStore(ManualClock(NOW))
    nodes = [(one, parse_policy(one.policy)) for one in args.nodes]
    assert isinstance(commit_all(store, flow_submit.submit_graph(args, nodes, P, NOW)), Applied)
    return store


def test_a_whole_graph_is_created_at_once() -> None:
    policies = {D: EdgePolicy.quorum(2, "let_run")}
    args = graph(
        [A, B, C, D],
        (A, B),
        (A, D),
        (B, D),
        (C, D),
        policies=policies,
        tags={"a.b": "c"},
        now=NOW - 7,
        namespace="ns",
    )
    store = submitted(args)
    made = only(store, Flow)
    assert (made.graph_revision, made.public_flow_state, made.created_at_ms) == (8, "open", NOW - 7)
    said = {
        "flow_kind": "dag",
        "namespace": "ns",
        "node_count": 4,
        "edge_count": 4,
        "last_mutation_at_ms": NOW - 7,
        "a.b": "c",
    }
    assert json.loads(made.raw_fields) == said
    assert {name_of(vector_of(at(store, who))) for who in (A, C)} == {"READY"}
    assert [at(store, who).blocking_detail for who in (B, D)] == [
        "1 dep(s) unresolved",
        "3 dep(s) unresolved",
    ]
    assert {one.flow_id for one in kept(store, Execution)} == {FLOW_ID}
    groups = {one.downstream_eid: one for one in kept(store, EdgeGroup)}
    assert {
        uid: (stored_edge_policy(g.policy), g.k_target, g.running_count)
        for uid, g in groups.items()
    } == {
        B.uuid: (EdgePolicy.all_of(), 0, 1),
        D.uuid: (policies[D], 2, 3),
    }
    assert {(g.group_state, g.total - g.running_count) for g in groups.values()} == {("pending", 0)}
    assert told(store) == ([], [], [])


def test_the_edges_of_a_graph_are_applied() -> None:
    edges = [
        GraphEdge(A, B, "result", "kind", UUID(int=1)),
        GraphEdge(A, B, None, "kind", UUID(int=2)),
        GraphEdge(A, C, "result", "kind", UUID(int=3)),
    ]
    store = submitted(graph([A, B, C], edges=edges))
    found = {one.edge_id: one for one in kept(store, Edge)}
    assert [(e.upstream_eid, e.downstream_eid) for e in found.values()] == [
        (A.uuid, B.uuid)
    ] * 2 + [(A.uuid, C.uuid)]
    assert {(e.edge_state, e.dep_state, e.applied_at_ms, e.is_open) for e in found.values()} == {
        ("applied", "unsatisfied", NOW, True)
    }
    assert [json.loads(e.policy)["data_passing_ref"] for e in found.values()] == [
        "result",
        "",
        "result",
    ]
    assert {json.loads(e.policy)["staged_at_ms"] for e in found.values()} == {NOW}
    assert [g.running_count for g in kept(store, EdgeGroup)] == [2, 1]


@pytest.mark.parametrize(
    ("delay", "alone", "later"),
    [
        (None, "READY", None),
        (NOW, "READY", None),
        (NOW - 1, "READY", None),
        (NOW + 1, "DELAYED", NOW + 1),
    ],
)
def test_a_delay_is_kept_by_those_that_wait_for_others(
    delay: int | None, alone: str, later: int | None
) -> None:
    store = submitted(graph([node(A, delay_until=delay), node(B, delay_until=delay)], (A, B)))
    first, second = at(store, A), at(store, B)
    assert (name_of(vector_of(first)), first.delay_until_ms) == (alone, later)
    assert first.blocking_detail == ("" if later is None else f"delayed until {later}")
    assert (name_of(vector_of(second)), second.delay_until_ms) == ("DEPS", later)


def test_members_keep_what_they_were_given() -> None:
    given = node(
        A,
        input_payload=b"in",
        priority=5,
        execution_deadline_at=NOW + 9,
        tags={"cairn.instance_id": "i"},
        now=NOW - 1,
    )
    made = at(submitted(graph([given])), A)
    assert (made.payload, made.priority, made.deadline_at_ms, made.instance_tag) == (
        b"in",
        5,
        NOW + 9,
        "i",
    )
    assert (made.created_at_ms, made.attempt_state) == (NOW - 1, "pending_first_attempt")


def test_a_graph_is_written_whole_or_not_at_all() -> None:
    args = graph([A, B], (A, B))
    nodes = [(one, parse_policy(one.policy)) for one in args.nodes]
    plans = flow_submit.submit_graph(args, nodes, P, NOW)
    again = submitted(args)
    assert isinstance(commit_all(again, plans), Refused)
    store = MemoryStore(ManualClock(NOW))
    for state, applied in (("disabled", Refused), ("draining", Refused), ("active", Applied)):
        commit(store, create.REGISTER_LANE(lane_id="default", registered_by="t"))
        commit(store, create.SET_LANE_STATE(lane_id="default", state=state))
        assert isinstance(commit_all(store, plans), applied)
        assert bool(rows(store, "ff_flow_core")) is (applied is Applied)


def test_members_of_one_form_stand_together() -> None:
    args = graph([node(A, delay_until=NOW + 5), B, C, node(D, delay_until=NOW + 5)], (B, C))
    nodes = [(one, parse_policy(one.policy)) for one in args.nodes]
    names = [plan.form.name for plan in flow_submit.submit_graph(args, nodes, P, NOW)]
    members = names[1:-2]
    assert (names[0], names[-2:]) == ("create_flow", ["create_edge", "create_edge_group"])
    assert members == sorted(members)
    assert set(members) == {"create_member", "create_member_blocked", "create_member_delayed"}
