from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from flowfabric.errors import Conflict, Contention, ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import (
    TERMINAL_FLOW_STATES,
    Added,
    AddExecutionToFlowArgs,
    AlreadyMember,
    CreateFlowArgs,
    Edge,
    Flow,
    Staged,
    StageDependencyEdgeArgs,
)
from flowfabric.model.flow_links import Member
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit, Decision
from flowfabric.rules.flows import flow_fields, flows
from flowfabric.rules.flows.flows import GraphSnapshot, member_of
from flowfabric.store.memory import MemoryStore
from flowfabric.testing.clock import ManualClock

from .factory import FLOW_ID, IDENT, NOW, answer, applied, commit, refusal, seeded, stored, told
from .flow_factory import (
    OTHER_FLOW,
    P,
    edge,
    edge_id,
    error_of,
    fields,
    flow,
    ident,
    kept,
    only,
    rows,
    said,
    upstream,
    waiting,
)

ELSEWHERE = ExecutionId.of(P + 1, IDENT.uuid)
MISMATCH = f"execution partition mismatch: expected {P}, got {P + 1}"


def members(*found: Execution) -> dict[UUID, Member]:
    return {one.execution_id: member_of(one) for one in found}


def test_a_new_flow_is_open_and_empty() -> None:
    store = MemoryStore(ManualClock(NOW))
    args = CreateFlowArgs(flow_id=FLOW_ID, flow_kind="dag", namespace="ns", now=NOW - 5)
    assert isinstance(commit(store, flows.create_flow(args, P, NOW)), Applied)
    made = only(store, Flow)
    assert (made.graph_revision, made.public_flow_state, made.created_at_ms) == (0, "open", NOW - 5)
    assert (made.terminal_at_ms, made.settled_at_ms) == (None, None)
    assert fields(made) == {
        "flow_kind": "dag",
        "namespace": "ns",
        "node_count": 0,
        "edge_count": 0,
        "last_mutation_at_ms": NOW - 5,
    }
    assert told(store) == ([], [], [])


def test_a_flow_that_exists_is_left_as_it_is() -> None:
    there = flow(public_flow_state="cancelled")
    store = seeded(there)
    assert (
        commit(store, flows.create_flow(CreateFlowArgs(flow_id=FLOW_ID, flow_kind="x"), P, NOW))
        == Refused()
    )
    assert only(store, Flow) == there


def test_a_flow_without_a_time_takes_the_stores_and_zero_is_a_time() -> None:
    for now, kept_at in ((None, NOW), (0, 0)):
        store = MemoryStore(ManualClock(NOW))
        commit(
            store,
            flows.create_flow(CreateFlowArgs(flow_id=FLOW_ID, now=now), P, NOW, tags={"a.b": "é"}),
        )
        made = only(store, Flow)
        assert (made.created_at_ms, fields(made)["last_mutation_at_ms"], fields(made)["a.b"]) == (
            kept_at,
            kept_at,
            "é",
        )


@pytest.mark.parametrize("text", ["{", "", "nonsense"])
def test_fields_that_are_no_json(text: str) -> None:
    with pytest.raises(ValidationError, match="corruption: flow_core: raw_fields not valid JSON: "):
        flow_fields.fields_of(flow(fields=text))


@pytest.mark.parametrize("text", ["[]", "1", '"a"', "null"])
def test_fields_that_are_no_object(text: str) -> None:
    with pytest.raises(
        ValidationError,
        match="corruption: flow_core: raw_fields not valid JSON: an object was expected",
    ):
        flow_fields.fields_of(flow(fields=text))


@pytest.mark.parametrize(
    ("found", "read"),
    [(5, 5), ("12", 12), ("", 7), ("x", 7), ("-1", 7), ("²", 7), (None, 7), ([], 7), (1.5, 7)],
)
def test_a_count_is_a_number_or_its_digits(found: Any, read: int) -> None:
    assert flow_fields.number_in({"n": found}, "n", 7) == read


def test_a_count_that_is_missing() -> None:
    assert (flow_fields.number_in({}, "n"), flow_fields.number_in({}, "n", 7)) == (0, 7)


def adding(around: GraphSnapshot, who: ExecutionId = IDENT, now: int | None = None) -> Decision:
    return flows.add_member(
        around, AddExecutionToFlowArgs(flow_id=FLOW_ID, execution_id=who, now=now)
    )


SOLO = waiting("READY", flow_id=None, namespace="ns")


@pytest.mark.parametrize("state", TERMINAL_FLOW_STATES)
def test_adding_a_member_checks_one_thing_after_the_other(state: str) -> None:
    ended, here = flow(public_flow_state=state), members(waiting())
    elsewhere = members(waiting(flow_id=OTHER_FLOW))
    steps: list[tuple[GraphSnapshot, str]] = [
        (
            GraphSnapshot(NOW, P + 1, None),
            f"execution partition mismatch: expected {P + 1}, got {P}",
        ),
        (GraphSnapshot(NOW, P, None, here), "flow_not_found"),
        (GraphSnapshot(NOW, P, ended, here), "flow_already_terminal"),
        (GraphSnapshot(NOW, P, flow()), "execution_not_found"),
        (
            GraphSnapshot(NOW, P, flow(), elsewhere),
            f"already_member_of_different_flow:{OTHER_FLOW}",
        ),
    ]
    for around, detail in steps:
        assert said(adding(around)) == ("invalid_input", detail)


def test_a_member_is_of_the_namespace_of_its_flow() -> None:
    around = GraphSnapshot(NOW, P, flow(), members(waiting(flow_id=None, namespace="other")))
    assert said(adding(around)) == (
        "invalid_input",
        "execution_id: an execution of the flow's namespace, 'ns', got 'other'",
    )
    assert isinstance(
        adding(GraphSnapshot(NOW, P, flow(fields={}), members(waiting(flow_id=None)))), Commit
    )


def test_a_member_is_added_once() -> None:
    assert answer(adding(GraphSnapshot(NOW, P, flow(), members(waiting())))) == AlreadyMember(
        IDENT, 2
    )
    assert answer(
        adding(GraphSnapshot(NOW, P, flow(fields={}), members(waiting())))
    ) == AlreadyMember(IDENT, 0)


@pytest.mark.parametrize("vector", ["READY", "RUNNING", "ENDED"])
def test_a_new_member_grows_the_flow_and_keeps_its_own_state(vector: str) -> None:
    before, solo = flow(settled_at_ms=NOW), waiting(vector, flow_id=None, namespace="ns")
    decision = adding(GraphSnapshot(NOW, P, before, members(solo)), now=NOW - 4)
    assert isinstance(decision, Commit) and decision.result == Added(IDENT, 3)
    store = applied(decision, before, solo)
    after = only(store, Flow)
    assert (after.graph_revision, after.version, after.settled_at_ms) == (
        4,
        before.version + 1,
        None,
    )
    assert fields(after) == {**fields(before), "node_count": 3, "last_mutation_at_ms": NOW - 4}
    grown = replace(solo, flow_id=FLOW_ID, version=solo.version + 1, last_mutation_at=NOW - 4)
    assert stored(store) == grown
    assert told(store) == ([], [], [])


def test_a_new_member_without_a_time() -> None:
    store = applied(adding(GraphSnapshot(NOW, P, flow(), members(SOLO))), flow(), SOLO)
    assert fields(only(store, Flow))["last_mutation_at_ms"] == NOW


@pytest.mark.parametrize(
    "moved", [flow(version=5), waiting("READY", flow_id=None, namespace="ns", version=9)]
)
def test_a_member_is_not_added_to_what_moved_meanwhile(moved: Any) -> None:
    decision = adding(GraphSnapshot(NOW, P, flow(), members(SOLO)))
    assert isinstance(decision, Commit)
    there = (moved, SOLO) if isinstance(moved, Flow) else (flow(), moved)
    store = seeded(*there)
    assert isinstance(commit(store, decision.plan), Refused)
    assert (only(store, Flow), stored(store)) == there


def staging(
    around: GraphSnapshot, up: ExecutionId | None = None, down: ExecutionId = IDENT, **args: Any
) -> Decision:
    given = {"expected_graph_revision": 3, **args}
    ends = {"upstream_execution_id": up or ident(0), "downstream_execution_id": down}
    return flows.stage_edge(
        around, StageDependencyEdgeArgs(flow_id=FLOW_ID, edge_id=edge_id(0), **ends, **given)
    )


BOTH = members(upstream(0), waiting())


def test_staging_checks_one_thing_after_the_other() -> None:
    whole: dict[str, Any] = {"cyclic": True, "edge": edge()}
    closed = flow(public_flow_state="cancelled", graph_revision=9)
    assert said(staging(GraphSnapshot(NOW, P, None), ELSEWHERE)) == ("invalid_input", MISMATCH)
    assert said(staging(GraphSnapshot(NOW, P, None), down=ELSEWHERE)) == ("invalid_input", MISMATCH)
    assert said(staging(GraphSnapshot(NOW, P, None, **whole))) == (
        "invalid_input",
        "flow_not_found",
    )
    assert said(staging(GraphSnapshot(NOW, P, closed, **whole))) == (
        "invalid_input",
        "flow_already_terminal",
    )
    stale = error_of(staging(GraphSnapshot(NOW, P, flow(), **whole), expected_graph_revision=2))
    assert isinstance(stale, Contention) and stale.facts == {"expected": "2", "stored": "3"}
    assert (stale.code, stale.retryable) == ("stale_graph_revision", True)
    for some in (
        {},
        members(upstream(0)),
        members(waiting()),
        members(upstream(0), waiting(flow_id=OTHER_FLOW)),
    ):
        assert said(staging(GraphSnapshot(NOW, P, flow(), some, **whole))) == (
            "invalid_input",
            "execution_not_in_flow",
        )
    assert said(
        staging(GraphSnapshot(NOW, P, flow(), members(upstream(0, flow_id=None), waiting())))
    ) == (
        "invalid_input",
        "execution_not_in_flow",
    )
    assert refusal(staging(GraphSnapshot(NOW, P, flow(), BOTH, **whole))) == "cycle_detected"
    taken = error_of(staging(GraphSnapshot(NOW, P, flow(), BOTH, edge=edge())))
    assert isinstance(taken, Conflict) and taken.code == "dependency_already_exists"
    assert taken.existing == flows.edge_snapshot(edge())


def test_a_staged_edge_waits_to_be_applied() -> None:
    before = flow(settled_at_ms=NOW)
    decision = staging(
        GraphSnapshot(NOW, P, before, BOTH),
        data_passing_ref="result",
        dependency_kind="kind",
        now=NOW - 3,
    )
    assert isinstance(decision, Commit) and decision.result == Staged(edge_id(0), 4)
    store = applied(decision, before, upstream(0), waiting("READY"))
    made, after = only(store, Edge), only(store, Flow)
    assert (made.edge_state, made.dep_state, made.applied_at_ms, made.reset_at_ms) == (
        "pending",
        None,
        None,
        None,
    )
    assert (made.upstream_eid, made.downstream_eid, made.policy_version) == (
        ident(0).uuid,
        IDENT.uuid,
        0,
    )
    assert json.loads(made.policy) == {
        "dependency_kind": "kind",
        "satisfaction_condition": "all_required",
        "data_passing_ref": "result",
        "created_at_ms": NOW - 3,
        "created_by": "engine",
        "staged_at_ms": NOW - 3,
    }
    assert (after.graph_revision, after.settled_at_ms) == (4, None)
    assert fields(after) == {**fields(before), "edge_count": 2, "last_mutation_at_ms": NOW - 3}
    assert stored(store) == waiting("READY")
    assert rows(store, "ff_edge_group") == []


def test_a_second_stager_at_the_same_revision_loses_and_leaves_nothing() -> None:
    decision = staging(GraphSnapshot(NOW, P, flow(), BOTH))
    assert isinstance(decision, Commit)
    moved = flow(version=5, graph_revision=4)
    store = seeded(moved, upstream(0), waiting())
    assert isinstance(commit(store, decision.plan), Refused)
    assert (only(store, Flow), kept(store, Edge)) == (moved, [])


def test_an_edge_as_others_see_it() -> None:
    seen = flows.edge_snapshot(edge(passes="", policy='{"created_at_ms":5}', edge_state="pending"))
    assert (seen.dependency_kind, seen.satisfaction_condition, seen.created_by) == (
        "success_only",
        "all_required",
        "engine",
    )
    assert (seen.data_passing_ref, seen.edge_state, seen.created_at) == (None, "pending", 5)
    assert (seen.upstream_execution_id, seen.downstream_execution_id) == (ident(0), IDENT)
    assert flows.edge_snapshot(edge(passes="r")).data_passing_ref == "r"


@pytest.mark.parametrize("text", ["[]", "{", "7"])
def test_an_edge_that_cannot_be_read(text: str) -> None:
    with pytest.raises(
        ValidationError, match=f"corruption: edge {edge_id(0)}: policy is not a JSON object"
    ):
        flows.edge_snapshot(edge(policy=text))


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled", "expired", "skipped"])
def test_an_edge_of_the_kind_ended_is_content_with_any_end(outcome: str) -> None:
    assert flows.counted_as(edge(policy=flows.edge_text("ended", None, NOW)), outcome) == "success"
    for kind, ref in (("success_only", None), ("odd", None), ("x", '"dependency_kind":"ended"')):
        assert flows.counted_as(edge(policy=flows.edge_text(kind, ref, NOW)), outcome) == outcome


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        (edge(passes=None).policy, False),
        (edge(passes="").policy, False),
        (edge(passes="r").policy, True),
        ("{}", False),
        ('{"data_passing_ref": ""}', False),
        ('{"data_passing_ref": null}', False),
        ('{"data_passing_ref": "r"}', True),
        (flows.edge_text('"data_passing_ref":""', "r", NOW), True),
    ],
)
def test_a_reference_that_is_not_empty_passes_data(policy: str, passes: bool) -> None:
    assert flows.passes_data(edge(policy=policy)) is passes
