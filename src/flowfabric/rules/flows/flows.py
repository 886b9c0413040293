"""Flows themselves: creating one, its members, its edges as staged, policies, tags, and what its members add up to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import (
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.model.flow import (
    ENDED,
    MAX_QUORUM,
    SUCCESS_ONLY,
    Added,
    AddExecutionToFlowArgs,
    AlreadyMember,
    CreateFlowArgs,
    Edge,
    EdgeGroup,
    EdgePolicy,
    EdgeSnapshot,
    Flow,
    Member,
    OnSatisfied,
    Parent,
    Staged,
    StageDependencyEdgeArgs,
)
from flowfabric.plan import Add, Arg, Cond, Form, Insert, Plan, Present, Update, Upsert
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.flows.flow_fields import encode_fields, fields_of, namespace_of, number_in
from flowfabric.rules.fragments import EXEC
from flowfabric.rules.states import canonical

FLOW, EDGE, GROUP, SUMMARY = "ff_flow_core", "ff_edge", "ff_edge_group", "ff_flow_summary"
FLOW_KEY = (Cond("partition_key", "=", Arg("partition_key")), Cond("flow_id", "=", Arg("flow_id")))
FLOW_UNCHANGED = (*FLOW_KEY, Cond("version", "=", Arg("version")))
_KEY_ROW = {"partition_key": Arg("partition_key"), "flow_id": Arg("flow_id")}
GROUP_KEY = (*FLOW_KEY, Cond("downstream_eid", "=", Arg("downstream_eid")))

_FLOW_ROW = {
    **_KEY_ROW,
    "graph_revision": Arg("graph_revision"),
    "created_at_ms": Arg("now"),
    "raw_fields": Arg("raw_fields"),
}
CREATE_FLOW = Form(
    "create_flow",
    Insert(FLOW, _FLOW_ROW),
)
_LIVE = ("submitted", "runnable", "pending", "blocked", "eligible", "active", "suspended")
CREATE_CHILDREN = Form(
    "create_children_flow",
    Insert(
        FLOW,
        {
            **_FLOW_ROW,
            "parent_partition": Arg("parent_partition"),
            "parent_execution_id": Arg("parent_execution_id"),
        },
        (
            Present(
                EXEC,
                (
                    Cond("partition_key", "=", Arg("parent_partition")),
                    Cond("execution_id", "=", Arg("parent_execution_id")),
                    Cond("namespace", "=", Arg("namespace")),
                    Cond("lifecycle_phase", "in", _LIVE),
                ),
            ),
        ),
    ),
)
_GROWN = {
    "version": Add(1),
    "graph_revision": Add(1),
    "raw_fields": Arg("raw_fields"),
    "settled_at_ms": None,
}
ADD_MEMBER = Form(
    "add_member",
    Update(FLOW, FLOW_UNCHANGED, _GROWN),
    Update(
        EXEC,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("execution_id", "=", Arg("execution_id")),
            Cond("version", "=", Arg("member_version")),
        ),
        {"flow_id": Arg("flow_id"), "version": Add(1), "last_mutation_at": Arg("now")},
    ),
)
EDGE_ROW: dict[str, Any] = {
    **_KEY_ROW,
    "edge_id": Arg("edge_id"),
    "upstream_eid": Arg("upstream_eid"),
    "downstream_eid": Arg("downstream_eid"),
    "policy": Arg("edge_policy"),
}
STAGE_EDGE = Form("stage_edge", Update(FLOW, FLOW_UNCHANGED, _GROWN), Insert(EDGE, EDGE_ROW))
_POLICY = {"policy": Arg("policy"), "k_target": Arg("k_target")}
_TOUCHED = Update(FLOW, FLOW_UNCHANGED, {"version": Add(1)})
SET_FIRST_POLICY = Form(
    "set_first_edge_policy",
    _TOUCHED,
    Insert(GROUP, {**_KEY_ROW, "downstream_eid": Arg("downstream_eid"), **_POLICY}),
)
SET_POLICY = Form(
    "set_edge_policy",
    _TOUCHED,
    Update(
        GROUP,
        (*GROUP_KEY, Cond("version", "=", Arg("group_version"))),
        {
            **_POLICY,
            **dict.fromkeys(("success_count", "fail_count", "skip_count", "running_count"), 0),
            "group_state": "pending",
            "version": Add(1),
        },
    ),
)
SET_FLOW_FIELDS = Form(
    "set_flow_fields",
    Update(FLOW, FLOW_UNCHANGED, {"version": Add(1), "raw_fields": Arg("raw_fields")}),
)


def refused(code: str) -> Reject:
    return Reject(ValidationError(ValidationKind.INVALID_INPUT, code))


def named_flow(flow: Flow) -> dict[str, Any]:
    """The arguments that name a flow by its key and the version it was read at."""
    return {"partition_key": flow.partition_key, "flow_id": flow.flow_id, "version": flow.version}


def member_of(execution: Execution) -> Member:
    return Member(*(getattr(execution, column) for column in Member.__struct_fields__))


def partition_mismatch(expected: int, ident: ExecutionId) -> EngineError | None:
    if ident.partition_index == expected:
        return None
    detail = f"execution partition mismatch: expected {expected}, got {ident.partition_index}"
    return ValidationError(ValidationKind.INVALID_INPUT, detail)


# ---- create and grow


def create_flow(
    args: CreateFlowArgs,
    partition: int,
    now_ms: int,
    nodes: int = 0,
    edges: int = 0,
    tags: Mapping[str, str] | None = None,
    parent: Parent | None = None,
) -> Plan:
    now = now_ms if args.now is None else args.now
    fields: dict[str, Any] = {
        "flow_kind": args.flow_kind,
        "namespace": args.namespace,
        "node_count": nodes,
        "edge_count": edges,
        "last_mutation_at_ms": now,
        **(tags or {}),
    }
    values = {
        "partition_key": partition,
        "flow_id": args.flow_id,
        "graph_revision": nodes + edges,
        "now": now,
    }
    if parent is None:
        return CREATE_FLOW(**values, raw_fields=encode_fields(fields))
    fields["waitpoint_key"] = parent.waitpoint_key
    if parent.detached:
        fields["detached"] = [str(ident.uuid) for ident in parent.detached]
    return CREATE_CHILDREN(
        **values,
        raw_fields=encode_fields(fields),
        namespace=args.namespace,
        parent_partition=parent.execution_id.partition_index,
        parent_execution_id=parent.execution_id.uuid,
    )


class Surroundings(Struct, frozen=True):
    """A flow and the rows a change to its graph concerns."""

    now_ms: int
    partition: int
    flow: Flow | None
    members: Mapping[UUID, Member] = {}
    edge: Edge | None = None
    group: EdgeGroup | None = None
    cyclic: bool = False
    has_edges: bool = False


def _grown(flow: Flow, now: int, count: str) -> tuple[str, int]:
    """The fields of a flow after one more of something, and how many that makes."""
    fields = fields_of(flow)
    fields[count] = number_in(fields, count) + 1
    fields["last_mutation_at_ms"] = now
    return encode_fields(fields), fields[count]


def _open_flow(around: Surroundings) -> Flow | Reject:
    if around.flow is None:
        return refused("flow_not_found")
    return refused("flow_already_terminal") if around.flow.is_terminal else around.flow


def add_member(around: Surroundings, args: AddExecutionToFlowArgs) -> Decision:
    ident = args.execution_id
    mismatch = partition_mismatch(around.partition, ident)
    if mismatch is not None:
        return Reject(mismatch)
    flow = _open_flow(around)
    if isinstance(flow, Reject):
        return flow
    member = around.members.get(ident.uuid)
    if member is None:
        return refused("execution_not_found")
    if member.flow_id == flow.flow_id:
        return Return(AlreadyMember(ident, number_in(fields_of(flow), "node_count")))
    if member.flow_id is not None:
        return refused(f"already_member_of_different_flow:{member.flow_id}")
    namespace = namespace_of(flow)
    if member.namespace != namespace:
        return Reject(
            invalid(
                "execution_id",
                f"an execution of the flow's namespace, {namespace!r}",
                member.namespace,
            )
        )
    now = around.now_ms if args.now is None else args.now
    raw, nodes = _grown(flow, now, "node_count")
    plan = ADD_MEMBER(
        **named_flow(flow),
        raw_fields=raw,
        execution_id=ident.uuid,
        member_version=member.version,
        now=now,
    )
    return Commit(plan, Added(ident, nodes))


# ---- edges as staged


def stage_edge(around: Surroundings, args: StageDependencyEdgeArgs) -> Decision:
    up, down = args.upstream_execution_id, args.downstream_execution_id
    for ident in (up, down):
        mismatch = partition_mismatch(around.partition, ident)
        if mismatch is not None:
            return Reject(mismatch)
    flow = _open_flow(around)
    if isinstance(flow, Reject):
        return flow
    if flow.graph_revision != args.expected_graph_revision:
        facts = {"expected": str(args.expected_graph_revision), "stored": str(flow.graph_revision)}
        return Reject(Contention(ContentionKind.STALE_GRAPH_REVISION, **facts))
    ends = (around.members.get(up.uuid), around.members.get(down.uuid))
    if not all(member is not None and member.flow_id == flow.flow_id for member in ends):
        return refused("execution_not_in_flow")
    if around.cyclic:
        return Reject(Conflict(ConflictKind.CYCLE_DETECTED, f"{down} leads to {up} already"))
    if around.edge is not None:
        return Reject(
            Conflict(
                ConflictKind.DEPENDENCY_ALREADY_EXISTS,
                str(args.edge_id),
                existing=edge_snapshot(around.edge),
            )
        )
    now = around.now_ms if args.now is None else args.now
    plan = STAGE_EDGE(
        **named_flow(flow),
        raw_fields=_grown(flow, now, "edge_count")[0],
        edge_id=args.edge_id,
        upstream_eid=up.uuid,
        downstream_eid=down.uuid,
        edge_policy=edge_text(args.dependency_kind, args.data_passing_ref, now),
    )
    return Commit(plan, Staged(args.edge_id, flow.graph_revision + 1))


_ANY_END = f'"dependency_kind":"{ENDED}"'
"""As `edge_text` writes it; within a text of somebody's the quotes would be escaped."""


def edge_text(kind: str, data_passing_ref: str | None, now: int) -> str:
    """What an edge keeps as JSON; what changes about it has columns of its own."""
    said = {
        "dependency_kind": kind,
        "satisfaction_condition": "all_required",
        "data_passing_ref": data_passing_ref or "",
        "created_at_ms": now,
        "created_by": "engine",
        "staged_at_ms": now,
    }
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def edge_fields(edge: Edge) -> dict[str, Any]:
    try:
        found = json.loads(edge.policy)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValidationError(
            ValidationKind.CORRUPTION, f"edge {edge.edge_id}: policy is not a JSON object"
        )
    return found


def passes_data(edge: Edge) -> bool:
    return '"data_passing_ref":""' not in edge.policy and bool(
        edge_fields(edge).get("data_passing_ref")
    )


def counted_as(edge: Edge, outcome: str) -> str:
    """How an upstream's end counts for this edge."""
    return "success" if _ANY_END in edge.policy else outcome


def edge_snapshot(edge: Edge) -> EdgeSnapshot:
    said = edge_fields(edge)
    return EdgeSnapshot(
        edge.edge_id,
        edge.flow_id,
        ExecutionId.of(edge.partition_key, edge.upstream_eid),
        ExecutionId.of(edge.partition_key, edge.downstream_eid),
        said.get("dependency_kind", SUCCESS_ONLY),
        said.get("satisfaction_condition", "all_required"),
        said.get("data_passing_ref") or None,
        edge.edge_state,
        said.get("created_at_ms", 0),
        said.get("created_by", "engine"),
    )


# ---- policies


def check_policy(policy: EdgePolicy) -> EngineError | None:
    """What is wrong with a policy, in the words callers match on."""
    problem = None
    if policy.kind == "quorum" and (
        not isinstance(policy.k, int) or isinstance(policy.k, bool) or policy.k < 1
    ):
        problem = "quorum k must be >= 1"
    elif policy.kind == "quorum" and policy.k > MAX_QUORUM:
        problem = "quorum k exceeds supported maximum"
    elif policy.kind not in ("all_of", "any_of", "quorum"):
        problem = "unknown EdgeDependencyPolicy variant"
    elif policy.kind != "all_of" and policy.on_satisfied not in tuple(OnSatisfied):
        problem = "on_satisfied required for any_of/quorum: cancel_remaining | let_run"
    return None if problem is None else ValidationError(ValidationKind.INVALID_INPUT, problem)


def set_edge_policy(around: Surroundings, downstream: ExecutionId, policy: EdgePolicy) -> Decision:
    flow, group = around.flow, around.group
    if flow is None:
        return Reject(NotFound("flow"))
    if around.has_edges:
        return refused("edge_group_policy_already_fixed: dependencies already staged")
    wanted = policy.encoded()
    if group is not None and json.loads(group.policy) == json.loads(wanted):
        return Return("AlreadySet")
    values = {
        **named_flow(flow),
        "downstream_eid": downstream.uuid,
        "policy": wanted,
        "k_target": policy.k,
    }
    if group is None:
        return Commit(SET_FIRST_POLICY(**values), "Set")
    return Commit(SET_POLICY(**values, group_version=group.version), "Set")


# ---- tags


def set_flow_tag(flow: Flow | None, key: str, value: str, now_ms: int) -> Decision:
    if flow is None:
        return Reject(NotFound("flow"))
    fields = {**fields_of(flow), key: value, "last_mutation_at_ms": now_ms}
    return Commit(SET_FLOW_FIELDS(**named_flow(flow), raw_fields=encode_fields(fields)))


# ---- what the members add up to

_ENDED = ("completed", "failed", "cancelled", "expired", "skipped")
_COUNTED = (
    *_ENDED,
    "active",
    "suspended",
    "waiting",
    "delayed",
    "rate_limited",
    "waiting_children",
)
_SUMMED = (
    *(f"members_{state}" for state in _COUNTED),
    "total_members",
    "sampled_members",
    "public_flow_state",
)
_SUMMARY = {**{c: Arg(c) for c in _SUMMED}, "last_summary_update_at": Arg("now")}
PROJECT = Form(
    "project_flow_summary",
    Update(FLOW, FLOW_UNCHANGED, {"settled_at_ms": Arg("settled_at_ms")}),
    Upsert(SUMMARY, {**_KEY_ROW, **_SUMMARY}, _SUMMARY),
)


def derived_state(counts: Mapping[str, int]) -> str:
    """What people call the flow, by what its members do."""
    ended = sum(counts.get(state, 0) for state in _ENDED)
    if ended == sum(counts.values()):
        bad = any(counts.get(state) for state in ("failed", "cancelled", "expired"))
        return "failed" if bad else "completed"
    if counts.get("active"):
        return "running"
    if any(
        counts.get(state) for state in ("suspended", "delayed", "rate_limited", "waiting_children")
    ):
        return "blocked"
    return "open"


def count_members(public_states: Iterable[str]) -> Counter[str]:
    return Counter(
        "waiting" if state == "resumable" else canonical("public_state", state)
        for state in public_states
    )


def project(flow: Flow, counts: Mapping[str, int], now: int) -> Plan:
    """A flow all of whose members are over is settled until something of it is started again."""
    state, total = derived_state(counts), sum(counts.values())
    over = state in ("completed", "failed")
    values = {f"members_{name}": counts.get(name, 0) for name in _COUNTED}
    return PROJECT(
        **named_flow(flow),
        **values,
        total_members=total,
        sampled_members=total,
        public_flow_state=state,
        now=now,
        settled_at_ms=now if over else None,
    )
